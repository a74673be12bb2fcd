"""Numbers of a text with their places, in digits or in words, as far as they state something."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Final

from leadline.evaluators.text.content_words import spelt_on, value_of_word

MOST_NUMBERS: Final = 5_000
"""Numbers of a text that are read."""
MOST_DIGITS: Final = 30
"""Digits of a number that is read; a longer one is an identifier or noise."""

_MARKS: Final = re.compile(
    r"(?m)^[ \t*_#>-]{0,20}\(?\d{1,2}(?:[.):\]]+(?=[\s*_]|$)|[ \t]*$)"
    r"|\[\s?\d{1,3}(?:\s?[,;\u2013-]\s?\d{1,3}){0,20}\s?\]"
)
"""Marks of lists, and citations."""
_MARKS_IN_LINE: Final = re.compile(r"(?<=\s)\(?\d{1,2}[.)](?=\s)")
_LIST_IN_LINE: Final = re.compile(r"(?s)(?<!\S)\(?1[.)]\s.{1,400}?\s\(?2[.)]\s")
"""A list within a line: "1. Low quality 2. Drugs 3. …"."""
_TOKEN: Final = re.compile(r"(?<![^\W_])\d[\d,.']*|[^\W\d_]+")
_PART: Final = re.compile(r"[0-9]+")
_GROUPED: Final = re.compile(r"\d{1,3}(?:[,']\d{3})+(?:\.\d+)?|\d{1,2}(?:,\d{2})+,\d{3}(?:\.\d+)?")
_EUROPEAN: Final = re.compile(r"\d{1,3}(?:\.\d{3})+(?:,\d+)?|\d+,\d+")


@dataclass(frozen=True, slots=True)
class Number:
    """A number of a text.

    Attributes:
        start: First character, in code points.
        end: One past the last character.
        decimals: Digits after its point.
        spelt: Whether it is written in words.
    """

    value: float
    start: int
    end: int
    decimals: int = 0
    spelt: bool = False


def read_numbers(text: str, *, marks: bool = False) -> list[Number]:
    """Return the numbers of a text; digits within names ("MP3") are none.

    ``1,234.5``, ``1.234,5``, ``1'234.5`` and ``1,00,000`` are read, and ``1.5 million``, "twenty-five" and "third".

    Args:
        text: Any text; of a long one the first :data:`MOST_NUMBERS` numbers.
        marks: Read the marks of lists and citations too.
    """
    plain = text if marks else without_marks(text)
    found: list[Number] = []
    for token in _TOKEN.finditer(plain):
        if len(found) >= MOST_NUMBERS:
            break
        number = _number(token)
        if number is None:  # 714.338.6790, 2024.03.05 and the like: each part is one
            parts = _PART.finditer(token[0]) if token[0][0].isdigit() and len(token[0]) <= MOST_DIGITS else ()
            found += [
                Number(float(part[0]), token.start() + part.start(), token.start() + part.end()) for part in parts
            ]
            continue
        last = found[-1] if found else None
        if last and number.spelt and not plain[last.end : number.start].strip(" -\u00a0"):
            value = spelt_on(last.value, number.value, spelt=last.spelt)
            if value is not None:
                found[-1] = Number(value, last.start, number.end, 0, last.spelt)
                continue
        found.append(number)
    return [number for number in found if not (number.spelt and number.value >= 100)] if found else found


def without_marks(text: str) -> str:
    """Return a text with blanks in the place of citations and of the marks of lists."""
    plain = _MARKS.sub(_blank, text)
    return _MARKS_IN_LINE.sub(_blank, plain) if _LIST_IN_LINE.search(text) else plain


def _blank(mark: re.Match[str]) -> str:
    return " " * len(mark[0])


def _number(token: re.Match[str]) -> Number | None:
    text = token[0]
    if not text[0].isdigit():
        if len(text) > 20:
            return None
        value = value_of_word("".join(c for c in unicodedata.normalize("NFKD", text.lower()) if c.isalpha()))
        return None if value is None else Number(value, token.start(), token.end(), spelt=True)
    text = unicodedata.normalize("NFKC", text).rstrip(".,'")
    if len(text) > MOST_DIGITS or not text.isascii():
        return None
    if _GROUPED.fullmatch(text):
        text = text.replace(",", "").replace("'", "")
    elif _EUROPEAN.fullmatch(text):
        text = text.replace(".", "").replace(",", ".")
    whole, point, decimals = text.partition(".")
    if not whole.isdigit() or (point and not decimals.isdigit()):
        return None
    return Number(float(text), token.start(), token.start() + len(token[0].rstrip(".,'")), len(decimals))
