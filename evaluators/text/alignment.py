"""Alignment of two sequences of steps by dynamic programming: the fewest edits that turn one into the other."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

_SCALE: Final = 1_000_000
"""Similarities are compared to the sixth digit, as integers, so that ties are ties."""


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
