"""Steps of procedures: found in a text by regular expressions, and aligned with the fewest edits.

A procedure is an enumeration: lines that begin with a number, "Step 2", a letter or Roman number in brackets, or a
bullet; numbers within a line ("1) open it, 2) start it"); or, in a text without any of these, sentences and clauses
that begin with a word of sequence in English ("First ..., then ..., finally ..."). Nested enumerations are part of
the one around them. Every expression is anchored and without nested repetition: time grows with the text's length.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

MOST_STEPS: Final = 10_000
"""Steps that are taken from a text, at most."""

_MARK: Final = re.compile(
    r"""
    (?P<indent>[ \t]*)
    (?:>[ \t]?)?
    (?:\#{1,6}[ \t]+)?
    (?:[*_]{2})?
    (?:
        (?:step|stage|phase|schritt|[eé]tape|paso|passo|fase|passaggio|шаг|этап|stap|steg|krok|第)
            [ \t]*\#?
            (?P<word>\d{1,3}|(?:[a-z]|one|two|three|four|five|six|seven|eight|nine|ten)(?=[*_]{0,2}[ \t]*[.:)\-\u2013]))
            (?:[ \t]*步)?[ \t]*(?:[*_]{2})?[ \t]*[.:)\-\u2013\u2014\uff1a、]?
      | \(?(?P<number>\d{1,3})[.)\]:、\uff0e](?!\d)
      | (?P<nested>\d{1,3}(?:\.\d{1,3}){1,3})[.)]?(?=[ \t]+[^\W\d_])
      | \(?(?P<letter>[a-z]|[ivxl]{2,6})\)
      | (?P<bullet>[-*+•‣▪◦●○\u2013\u2014✓✔☐☑→])(?=[ \t])(?:[ \t]*\[[ x]\])?
    )
    """,
    re.VERBOSE | re.IGNORECASE,
)
_INLINE: Final = re.compile(r"(?<![^\s,;:])\(?(\d{1,2})[.)](?=\s+[^\W\d_])")
_WORDS: Final = {
    word: number for number, word in enumerate("one two three four five six seven eight nine ten".split(), start=1)
}
_SEQUENCE: Final = (
    r"first(?:ly)?(?: of all)?|second(?:ly)?|third(?:ly)?|fourth(?:ly)?|fifth(?:ly)?|sixth(?:ly)?|to begin with|"
    r"to start|next|then|after that|afterwards|after this|subsequently|once (?:that is )?done|finally|lastly|"
    r"at last|in the end"
)
_CLAUSE: Final = re.compile(rf"\b(?:{_SEQUENCE})\b[ \t]{{0,9}},?[ \t]{{0,9}}(?=[^\W\d_])", re.IGNORECASE)
_BEFORE: Final = re.compile(r"(?:[.!?:\n]\s{0,9}|[,;]\s{1,9})(?:(?:and|but)\s{1,9})?\Z", re.IGNORECASE)
_BEFORE_LENGTH: Final = 24
"""Characters that stand between two clauses, at most."""

_DECORATION: Final = re.compile(r"[*_]{2}|`")
_EDGES: Final = " \t\r\n.,;:"


class Step(NamedTuple):
    """One step.

    Attributes:
        text: Its text, without its mark.
        start: Where it stands in the text, mark included; -1 when that is not known.
        end: One past its last character.
        number: Number of the outermost enumeration's item that it belongs to, ``None`` without numbers.
    """

    text: str
    start: int = -1
    end: int = -1
    number: int | None = None


@dataclass(frozen=True)
class Procedure:
    """Steps in order."""

    steps: tuple[Step, ...]

    @property
    def text(self) -> str:
        """All steps as one text."""
        return ". ".join(step.text for step in self.steps)


def procedures(text: str) -> list[Procedure]:
    """Return the procedures of a text, in its order.

    A single bullet or letter is no enumeration; a single numbered step is.
    """
    found = [steps for steps in _enumerations(text) if len(steps) > 1 or steps[0].number is not None]
    if not found:
        found = [steps for steps in [_sequence(text)] if len(steps) > 1]
    return [Procedure(tuple(steps)) for steps in found]


def joined(chunks: Sequence[Sequence[Procedure]]) -> list[Procedure]:
    """Return the procedures of several texts; one that goes on in another text is put together.

    A procedure that begins with number n > 1 continues the one of another text that reached n - 1, or n and more where
    texts overlap; the steps that both have are taken once.
    """
    every = [procedure for chunk in chunks for procedure in chunk]
    complete = [procedure for procedure in every if (procedure.steps[0].number or 1) <= 1]
    rest = [procedure for procedure in every if (procedure.steps[0].number or 1) > 1]
    for part in sorted(rest, key=lambda procedure: procedure.steps[0].number or 0):
        first = part.steps[0].number or 0
        for at, head in enumerate(complete):
            reached = head.steps[-1].number
            if reached is not None and first - 1 <= reached and _agree(head, part):
                new = tuple(step for step in part.steps if (step.number or 0) > reached)
                complete[at] = Procedure(head.steps + new)
                break
        else:
            complete.append(part)
    return complete


def _agree(head: Procedure, part: Procedure) -> bool:
    """Return whether the steps of equal number have equal texts."""
    known = {step.number: step.text for step in reversed(head.steps)}
    mine = {step.number: step.text for step in reversed(part.steps)}
    return all(known[number] == text for number, text in mine.items() if number in known)


def _enumerations(text: str) -> list[list[Step]]:
    """Return the enumerations whose items begin a line or carry numbers within one."""
    out: list[_Enumeration] = []
    current: _Enumeration | None = None
    blank = False
    count = 0
    for start, line in _lines(text):
        if not line.strip():
            blank = True
            continue
        mark = _MARK.match(line)
        body = _clean(line[mark.end() :]) if mark else ""
        if mark and any(map(str.isalnum, body)) and not _is_amount(mark, body):
            if count == MOST_STEPS:
                break
            count += 1
            item = _Item(mark, body, start, start + len(line.rstrip()))
            if current is None or current.ended_by(item):
                current = _Enumeration()
                out.append(current)
            current.add(item)
        elif current is not None:
            indented = line[:1] in " \t"
            if (blank and not indented) or line.lstrip().startswith("#"):
                current.broken = True
            elif not current.broken:
                current.extend(_clean(line), start + len(line.rstrip()))
        blank = False
    return [enumeration.steps() for enumeration in out]


class _Item:
    """One marked line."""

    def __init__(self, mark: re.Match[str], body: str, start: int, end: int) -> None:
        self.indent = len(mark["indent"].expandtabs(4))
        self.kind = next(name for name in ("word", "number", "nested", "letter", "bullet") if mark[name])
        self.place = _place(mark)
        self.text = [body]
        self.start = start + len(mark["indent"])
        self.end = end


class _Enumeration:
    """Items that belong together; ``broken`` once a paragraph stands after them."""

    def __init__(self) -> None:
        self.items: list[_Item] = []
        self.places: list[tuple[int, ...]] = []
        self.broken = False

    def ended_by(self, item: _Item) -> bool:
        """Return whether an item begins another enumeration."""
        if item.place and self.items[0].place and self._is_outer(item):
            reached = self.places[-1]
            return item.place <= reached or (self.broken and item.place[0] > reached[0] + 1)
        return self.broken

    def add(self, item: _Item) -> None:
        """Take an item."""
        outer = not self.items or self._is_outer(item)
        self.places.append(item.place if outer or not self.places[-1] else self.places[-1])
        self.items.append(item)
        self.broken = False

    def _is_outer(self, item: _Item) -> bool:
        return item.kind == self.items[0].kind and item.indent <= self.items[0].indent

    def extend(self, line: str, end: int) -> None:
        """Let a line go on with the last item."""
        self.items[-1].text.append(line)
        self.items[-1].end = end

    def steps(self) -> list[Step]:
        """Return the steps."""
        return [
            Step(" ".join(item.text).strip(_EDGES), item.start, item.end, place[0] if place else None)
            for item, place in zip(self.items, self.places, strict=True)
        ]


def _is_amount(mark: re.Match[str], body: str) -> bool:
    """Return whether a line begins with an amount ("3.5 million people") and no section number ("3.5 Open")."""
    return bool(mark["nested"]) and mark[0].endswith(tuple("0123456789")) and body[:1].islower()


def _place(mark: re.Match[str]) -> tuple[int, ...]:
    """Return the number of a marked line, with its parts ("2.1"); nothing for a letter or a bullet."""
    if mark["nested"]:
        return tuple(map(int, mark["nested"].split(".")))
    written = (mark["word"] or mark["number"] or "").lower()
    if not written:
        return ()
    return (_WORDS.get(written) or (int(written) if written.isdigit() else ord(written) - ord("a") + 1),)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines with their places; a line that counts 1), 2), ... within itself is broken before each number."""
    at = 0
    for line in text.splitlines(keepends=True):
        cuts = [0, *_inline(line), len(line)]
        for start, end in itertools.pairwise(cuts):
            yield at + start, line[start:end].rstrip("\r\n")
        at += len(line)


def _inline(line: str) -> list[int]:
    """Return where numbers stand in a line that counts from 1, or goes on counting from the number it begins with."""
    marks = [(int(mark[1]), mark.start()) for mark in _INLINE.finditer(line)]
    chain: list[tuple[int, int]] = []
    for number, place in marks:
        if number == (chain[-1][0] + 1 if chain else 1) or (not chain and not line[:place].strip()):
            chain.append((number, place))
    return [place for _, place in chain if place] if len(chain) > 1 else []


def _sequence(text: str) -> list[Step]:
    """Return the clauses that begin with a word of sequence, each with what follows it."""
    marks = []
    for mark in _CLAUSE.finditer(text):
        lead = text[max(0, mark.start() - _BEFORE_LENGTH) : mark.start()]
        before = _BEFORE.search(lead if mark.start() > len(lead) else f"\n{lead}")
        if before is not None:
            marks.append((mark.start(), mark.end(), mark.start() - len(before[0])))
    ends = [*(end for _, _, end in marks[1:]), len(text)]
    steps = []
    for (start, begin, _), end in zip(marks[:MOST_STEPS], ends, strict=False):
        body = _clean(text[begin:end]).strip(_EDGES)
        if any(map(str.isalnum, body)):
            steps.append(Step(body, start, begin + len(text[begin:end].rstrip())))
    return steps


def _clean(text: str) -> str:
    return _DECORATION.sub("", text).strip()


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
