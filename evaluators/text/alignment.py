"""Alignments of two sequences: the fewest edits between their items, and longest common subsequences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt


_SCALE: Final = 1_000_000
"""Similarities are compared to the sixth digit, as integers, so that ties are ties."""

_TOO_LONG: Final = 3 * 10**11
"""Product of two lengths above which :func:`lcs_length` refuses: 5 to 90 seconds of work."""

_SHORT: Final = 1_000_000
"""Product of two lengths below which turning tokens into characters costs more than it saves."""

_TOO_MUCH: Final = 4 * 10**7
"""Words times lines above which :func:`union_lcs` refuses: up to half a minute of work."""

_ROW_BITS: Final = 2_000_000_000
"""Bits of stored rows above which :func:`union_lcs` refuses: 250 MB."""


class Edit(StrEnum):
    """The edit of a step on the way from the actual to the expected sequence."""

    MATCH = "match"
    MISMATCH = "mismatch"
    INSERTION = "insertion"
    DELETION = "deletion"


class Aligned(NamedTuple):
    """One place of an alignment.

    Attributes:
        edit: The edit there.
        expected: Place of the expected step, ``None`` for a deletion.
        actual: Place of the actual step, ``None`` for an insertion.
    """

    edit: Edit
    expected: int | None
    actual: int | None


def align(similarity: npt.NDArray[np.floating], threshold: float) -> list[Aligned]:
    """Return the alignment of two sequences with the fewest edits.

    An edit inserts an expected step that is missing, deletes an actual step that is not expected, or substitutes one
    for the other; two steps match, and cost nothing, when their similarity reaches the threshold. This is the
    Levenshtein distance on steps. Among alignments with equally few edits the one with the greatest sum of
    similarities is taken, and among those the one that pairs steps as late as possible.

    Args:
        similarity: In [-1, 1], of shape ``(expected steps, actual steps)``.
        threshold: Similarity from which on two steps are the same.

    Returns:
        The places in order. Time and memory grow with the product of the lengths (8 bytes a pair).
    """
    rows, columns = similarity.shape
    near = np.rint(np.clip(similarity, -1.0, 1.0) * _SCALE).astype(np.int64)
    edit = 2 * _SCALE * (min(rows, columns) + 1)  # outweighs all similarities together
    pair = np.where(similarity >= threshold, 0, edit) - near
    cost = np.empty((rows + 1, columns + 1), dtype=np.int64)
    gaps = edit * np.arange(columns + 1, dtype=np.int64)
    cost[0] = gaps
    for row in range(1, rows + 1):
        best = np.minimum(cost[row - 1, 1:] + edit, cost[row - 1, :-1] + pair[row - 1])
        # Deletions chain along the row: cost[j] = min over k <= j of (best[k] + (j - k) * edit).
        chained = np.concatenate(([cost[row - 1, 0] + edit], best)) - gaps
        cost[row] = np.minimum.accumulate(chained) + gaps
    return _trace(cost, pair, edit, similarity, threshold)


def _trace(
    cost: npt.NDArray[np.int64],
    pair: npt.NDArray[np.int64],
    edit: int,
    similarity: npt.NDArray[np.floating],
    threshold: float,
) -> list[Aligned]:
    row, column = (size - 1 for size in cost.shape)
    out = []
    while row or column:
        here = cost[row, column]
        if row and column and here == cost[row - 1, column - 1] + pair[row - 1, column - 1]:
            row, column = row - 1, column - 1
            same = similarity[row, column] >= threshold
            out.append(Aligned(Edit.MATCH if same else Edit.MISMATCH, row, column))
        elif row and here == cost[row - 1, column] + edit:
            row -= 1
            out.append(Aligned(Edit.INSERTION, row, None))
        else:
            column -= 1
            out.append(Aligned(Edit.DELETION, None, column))
    return out[::-1]


def lcs_length(a: Sequence[str], b: Sequence[str]) -> int:
    """Return the length of the longest common subsequence of two token lists.

    ``rapidfuzz`` finds it bit-parallel (Hyyrö 2004): ``len(a) * len(b) / 64`` steps in C++, and memory that grows
    with the lengths only.

    Args:
        a: The tokens of one text.
        b: The tokens of the other.

    Raises:
        OverflowError: The texts are so long that this could take minutes.
    """
    if len(a) * len(b) > _TOO_LONG:
        raise OverflowError(f"texts of {len(a):,} and {len(b):,} words are too long for a common subsequence")
    from rapidfuzz.distance import LCSseq

    if len(a) * len(b) < _SHORT:
        return LCSseq.similarity(a, b)
    shared = {token: chr(number) for number, token in enumerate(set(a) & set(b))}
    first = "".join([shared[token] for token in a if token in shared])
    second = "".join([shared[token] for token in b if token in shared])
    return LCSseq.similarity(first, second)


def union_lcs(lines: Sequence[Sequence[str]], others: Iterable[Sequence[str]]) -> list[list[str]]:
    """Return, for each line, its tokens that belong to its longest common subsequence with some of the other lines.

    This is the union LCS of ROUGE-Lsum (Lin 2004, section 3.2). Where a longest common subsequence is not unique the
    result depends on the choice, so the choice of ``rouge-score`` is kept: it walks back from the ends through the
    table of lengths, takes equal tokens, else drops a token of the other line if that is strictly better, else one
    of the line.

    Args:
        lines: The lines of one text, as tokens.
        others: The lines of the other text.

    Raises:
        OverflowError: The texts have so many or so long lines that this could take minutes or gigabytes.
    """
    mine = list(dict.fromkeys(tuple(line) for line in lines))
    theirs = [(other, frozenset(other)) for other in dict.fromkeys(tuple(other) for other in others)]
    work = sum(map(len, mine)) * len(theirs) + sum(len(other) for other, _ in theirs) * len(mine)
    longest = max(map(len, mine), default=0) * max((len(other) for other, _ in theirs), default=0)
    if work > _TOO_MUCH or longest > _ROW_BITS:
        raise OverflowError(f"{len(mine):,} by {len(theirs):,} lines are too much for a common subsequence by lines")
    known: dict[tuple[str, ...], list[str]] = {}
    for line in mine:
        union: set[int] = set()
        for other, words in theirs:
            if not words.isdisjoint(line):
                union.update(_lcs_indices(line, other))
        known[line] = [line[index] for index in sorted(union)]
    return [known[tuple(line)] for line in lines]


def _lcs_indices(line: Sequence[str], other: Sequence[str]) -> list[int]:
    """Return the positions in ``line`` of the common subsequence that ``rouge-score`` chooses.

    Row i of the table of lengths is kept as one integer (Hyyrö 2004): bit j is 0 where the length grows from column
    j to j + 1. The length at column j is then the number of zeros below bit j.
    """
    places: dict[str, int] = {}
    for j, token in enumerate(other):
        places[token] = places.get(token, 0) | (1 << j)
    full = (1 << len(other)) - 1
    row = full
    rows = [row]
    for token in line:
        hit = row & places.get(token, 0)
        row = ((row + hit) | (row - hit)) & full
        rows.append(row)
    found = []
    i, j = len(line), len(other)
    while i and j:
        if line[i - 1] == other[j - 1]:
            found.append(i - 1)
            i -= 1
            j -= 1
        elif _length(rows[i], j - 1) > _length(rows[i - 1], j):
            j -= 1
        else:
            i -= 1
    return found


def _length(row: int, column: int) -> int:
    return column - (row & ((1 << column) - 1)).bit_count()
