"""Quotations of an answer, and the place of each in the retrieved contexts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

MOST_QUOTATIONS: Final = 500
"""Quotations of an answer that are looked for."""

LONGEST: Final = 2_000
"""Characters of a quotation."""

_QUOTED: Final = re.compile(
    "|".join(
        f"{opening}([^{inner}\\n]{{1,{LONGEST}}}){closing}"
        for opening, inner, closing in (
            ('"', '"', '"'),
            ("\u201c", "\u201c\u201d", "\u201d"),
            ("\u201e", "\u201e\u201c\u201d", "[\u201c\u201d]"),
            ("\u00ab", "\u00ab\u00bb", "\u00bb"),
            ("\u300c", "\u300c\u300d", "\u300d"),
        )
    )
)
_GAP: Final = re.compile(r"\[?(?:\u2026|\.{3,})\]?|\[[^\]\n]{0,60}\]")
_ALIKE: Final = str.maketrans(
    {
        "\u2018": "'",
        "\u2019": "'",
        "\u201c": '"',
        "\u201d": '"',
        "\u201e": '"',
        "\u2013": "-",
        "\u2014": "-",
        "\u2010": "-",
        "\u2011": "-",
        "\u00a0": " ",
    }
)
_EDGE: Final = " \t.,;:!?-'\""


@dataclass(frozen=True, slots=True)
class Quotation:
    """A quotation in an answer: its words without the marks, and their place."""

    text: str
    start: int
    end: int


class SearchedText:
    """A context in which quotations are looked for, without differences of case, white space and typography.

    Attributes:
        text: The context.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        folded, places = [], []
        blank = True
        for place, char in enumerate(text.translate(_ALIKE)):
            if char.isspace():
                if not blank:
                    folded.append(" ")
                    places.append(place)
                blank = True
                continue
            blank = False
            for letter in char.casefold():
                folded.append(letter)
                places.append(place)
        self._folded = "".join(folded)
        self._places = places

    def find(self, parts: Sequence[str]) -> tuple[int, int] | None:
        """Return where the parts of a quotation stand one after the other: from where to where in the context.

        Each part is taken where it stands first behind the one before, which finds all of them if that can be.
        """
        at, start = 0, -1
        for part in parts:
            at = self._folded.find(part, at)
            if at < 0:
                return None
            start = at if start < 0 else start
            at += len(part)
        return (self._places[start], self._places[at - 1] + 1) if start >= 0 else None

    def similarity(self, parts: Sequence[str]) -> float:
        """Return how near the least near part comes to some stretch of the context, from 0 to 1."""
        from rapidfuzz.fuzz import partial_ratio

        return min((partial_ratio(part, self._folded) / 100 for part in parts), default=0.0) if self._folded else 0.0


def folded_parts(quotation: str) -> tuple[str, ...]:
    """Return the parts of a quotation between its gaps (an ellipsis, or an editor's word in brackets), folded."""
    parts = (" ".join(part.translate(_ALIKE).casefold().split()).strip(_EDGE) for part in _GAP.split(quotation))
    return tuple(part for part in parts if part)


def quotations(answer: str, min_words: int) -> Iterator[Quotation]:
    """Yield the quotations of an answer, in order; at most :data:`MOST_QUOTATIONS`.

    Args:
        min_words: Shorter ones are names and words that the writer keeps at a distance, and are left out.
    """
    found = 0
    for match in _QUOTED.finditer(answer):
        number = match.lastindex or 0
        text = match[number]
        if len(text.split()) < min_words or not folded_parts(text):
            continue
        yield Quotation(text, match.start(number), match.end(number))
        found += 1
        if found == MOST_QUOTATIONS:
            return
