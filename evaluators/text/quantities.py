"""Numbers as people write them, alone and in texts: digits, words, separators, fractions, percent, scales, units.

``-1,234.5``, ``12,34,567``, ``1.5e-3``, ``10^3``, ``$3 million``, ``½``, ``1/2``, ``12 %``, ``5 km`` and "twelve" are
read.
"""

from __future__ import annotations

import math
import re
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from heapq import merge
from pathlib import Path
from typing import Final, Literal, TypeAlias

from leadline.evaluators.text.content_words import ONLY_ALONE, spelt_on, value_of_word

Decimal: TypeAlias = Literal["point", "comma"]

NEARLY: Final = 1e-6
"""Share of the expected number by which another may differ that is not whole, where nobody says how much."""
_MOST_DIGITS: Final = 300
MOST_DECIMALS: Final = 1200

_SPACES: Final = "\u0020\u00a0\u2009\u202f"
_MINUS: Final = "-\u2212"
_VULGAR: Final = "¼-¾⅐-⅞"
_RAISED: Final = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻\u2212", "0123456789--")
_TABLES: Final = tomllib.loads(Path(__file__).with_name("units.toml").read_text(encoding="utf-8"))
_EITHER: Final[dict[str, list[str]]] = _TABLES["either"]
_LONG_WORD: Final = 4
"""Letters from which on a word is read in capitals too."""

_WORD: Final = re.compile(r"[^\W\d_]+")
_LONGEST_WORD: Final = 20
_LARGEST: Final = Fraction(10) ** 308
_NO_ONE: Final = re.compile(r"(?i)\b(?:no|any|every|each|this|that|the|which|some)\s$")
_ONE_OF: Final = re.compile(r"(?i)\s(?:of|who|that|another|day)\b")
"""What makes "one" no number."""

_DENIED: Final = re.compile(
    r"(?i)(?:\b(?:not|never|nicht|keine?|pas|niet|rather than|instead of)|n['\u2019]t"
    r"|\b(?:no|non|não)\s(?:es|son|è|sono|é|são))\s(?:equal to |exactly |be )?[^\w\s.,;]{0,3}$"
)
_POWER: Final = rf"\^[{_MINUS}]?\d{{1,3}}|[⁰¹²³⁴-⁹⁻]{{1,4}}"
_OVER: Final = re.compile(rf"(?:[{_SPACES}](?P<top>\d{{1,3}}))?/(?P<below>[1-9]\d{{0,3}})(?![/\d])")
_EXPONENT: Final = re.compile(
    rf"[eE](?P<e>[-+]?\d{{1,4}})|(?P<power>{_POWER})|[{_SPACES}]?[x\u00d7·*][{_SPACES}]?10(?P<times>{_POWER})"
)
_MOST_NUMBERS: Final = 5_000
"""Numbers of a text that are read."""

_MOST_DIGITS_IN_TEXT: Final = 30
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


def _by_word(lines: list[str]) -> dict[str, str]:
    return {word: line.split()[0] for line in lines for word in line.split()[1:]}


_SCALES: Final = {word: Fraction(size) for word, size in _by_word(_TABLES["scales"]).items()}
_SHARES: Final = {word: float(size) for word, size in _by_word(_TABLES["shares"]).items()}
_COINS: Final = _by_word(_TABLES["currencies"])
_UNITS: Final = {
    word: (kind, *(float(part) for part in f"{size}+0".split("+")[:2]))
    for kind, lines in _TABLES["units"].items()
    for word, size in _by_word(lines).items()
} | {word: (kind, 1.0, 0.0) for word, kind in (*_COINS.items(), *((unit, unit) for unit in _EITHER))}


def _any_of(words: Iterable[str]) -> str:
    ordered = sorted(words, key=len, reverse=True)
    return "|".join(f"(?i:{re.escape(word)})" if len(word) >= _LONG_WORD else re.escape(word) for word in ordered)


_AFTER: Final = re.compile(
    rf"(?:(?P<scale>(?<=\d)K|[{_SPACES}-]?(?:{_any_of([word for word in _SCALES if word != 'K'])}))(?!\w))?"
    rf"(?:[{_SPACES}-]?(?:°[{_SPACES}](?=[CF]\b)|(?i:degrees?|grad|degrés)[{_SPACES}])?"
    rf"(?:(?P<unit>in(?![{_SPACES}]\w)|{_any_of([word for word in (*_SHARES, *_UNITS) if word != 'in'])})"
    r"|(?P<odd>[^\W\d_]{0,6}[/°²³·][^\W\d_]{0,6}[²³]?|[A-Z]{2,6}|[a-z]{1,2}[A-Z][A-Za-z]{0,3}"
    r"|(?!st|nd|rd|th|vs)[bcdfghj-np-tvwxz]{2,4}))(?!\w))?"
)
"""What may stand after a number; ``odd`` are signs that look like units."""


def _core(thousands: str, decimal: str) -> re.Pattern[str]:
    indian = r"\d{1,2}(?:,\d{2})+,\d{3}(?!\d)|" if "," in thousands else ""
    coins = "|".join(re.escape(word) for word in sorted(_COINS, key=len, reverse=True) if len(word) < _LONG_WORD)
    return re.compile(
        rf"(?<![\w{decimal}])(?P<sign>[{_MINUS}+])?(?:(?P<coin>{coins})[{_SPACES}]?)?(?P<sign2>[{_MINUS}]?)"
        rf"(?=[\d.,{_VULGAR}])(?P<whole>{indian}\d{{1,3}}(?:[{thousands}]\d{{3}})+(?!\d)|\d+)?"
        rf"(?P<part>(?:(?<=\d)|(?<!\w)){decimal}\d+)?(?P<vulgar>(?:(?<=\d)[{_SPACES}]?)?[{_VULGAR}])?"
        rf"(?<=[\d{_VULGAR}])"
    )


_CORES: Final[dict[Decimal, re.Pattern[str]]] = {
    "point": _core(rf",'\u2019{_SPACES}", r"\."),
    "comma": _core(rf".'\u2019{_SPACES}", ","),
}


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number that stands in a text.

    Attributes:
        value: The number; a percentage is its number of hundredths (12 for "12 %"), a word of scale is multiplied in.
        fraction: What one of it is worth as a share: 0.01 for a percentage, ``None`` for a plain number.
        kind: What its unit measures, its currency, or a unit that is not known; ``""`` without a unit.
        size: The size of its unit.
        start: First character.
        end: One past the last character.
        zero: Where its unit begins to count: 273.15 for °C.
        whole: The number if it is whole, to the last digit.
        spelt: Whether it is written in words.
    """

    value: float
    fraction: float | None = None
    kind: str = ""
    size: float = 1.0
    start: int = 0
    end: int = 0
    zero: float = 0.0
    whole: int | None = None
    spelt: bool = False

    def within(self, expected: Quantity, *, relative: float | None, absolute: float, units: bool) -> bool:
        """Return whether this is the expected quantity: ``|a - e| <= max(relative * |e|, absolute)``.

        A percentage equals the plain number that it is written with, and the share that it is.

        Args:
            expected: What it should be.
            relative: Tolerance as a share of the expected number; with ``None`` whole numbers are equal or not, and
                others may differ by :data:`NEARLY`.
            absolute: Tolerance in the expected number's unit.
            units: Whether units count: 5 km are 5000 m and no 5 miles.
        """
        ours = [self.value]
        theirs = [expected.value]
        if units and self.kind and expected.kind:
            pairs = [(one, other) for one in self._meant() for other in expected._meant() if one[0] == other[0]]
            if not pairs:
                return False
            ours = [(self.value * one[1] + one[2] - other[2]) / other[1] for one, other in pairs]
        if self.fraction and not expected.fraction:
            ours.append(self.value * self.fraction)
        if expected.fraction and not self.fraction:
            theirs.append(expected.value * expected.fraction)
        elif expected.fraction and self.fraction:
            ours = [self.value * self.fraction / expected.fraction]
        if relative is None and not absolute and None not in (self.whole, expected.whole) and ours == [self.value]:
            return self.whole == expected.whole or (len(theirs) > 1 and self.value == theirs[1])
        share = NEARLY if relative is None else relative
        return any(abs(a - e) <= max(share * abs(e), absolute) for a in ours for e in theirs)

    def _meant(self) -> list[tuple[str, float, float]]:
        """Return what its unit may be, with sizes and zeros: pounds are money or a mass."""
        return [_UNITS[unit] for unit in _EITHER.get(self.kind, ())] or [(self.kind, self.size, self.zero)]


def quantities(text: str, decimal: Decimal = "point") -> Iterator[Quantity]:
    """Yield the numbers of a text in order.

    Args:
        decimal: What stands before the decimals: a ``point``, so that commas, apostrophes and spaces may set thousands
            apart; or a ``comma``, so that points may.
    """
    return merge(_in_digits(text, decimal), _in_words(text), key=lambda one: one.start)


def is_denied(text: str, quantity: Quantity) -> bool:
    """Return whether a text says "not" right before a number."""
    return bool(_DENIED.search(text, max(0, quantity.start - 30), quantity.start))


def _in_digits(text: str, decimal: Decimal) -> Iterator[Quantity]:
    position = 0
    while found := _CORES[decimal].search(text, position):
        position = found.end()
        value, end = _value(text, found)
        if value is None:
            continue
        if any(sign and sign in _MINUS for sign in (found["sign"], found["sign2"])):
            value = -value
        quantity = _with_unit(text, value, found.start(), end, found["coin"])
        if quantity is not None:
            position = quantity.end
            yield quantity


def _value(text: str, found: re.Match[str]) -> tuple[Fraction | None, int]:
    """Return what digits say without their sign, and where they end."""
    digits, part, end = re.sub(r"\D", "", found["whole"] or ""), (found["part"] or "")[1:MOST_DECIMALS], found.end()
    if len(digits) > _MOST_DIGITS:
        return None, end
    value = Fraction(int((digits + part) or 0), 10 ** len(part))
    if found["vulgar"]:
        return value + Fraction(unicodedata.numeric(found["vulgar"].strip())).limit_denominator(10), end
    over = None if part or text[: found.start()].endswith("/") else _OVER.match(text, end)
    if over and value < 1000:
        whole, top = (Fraction(0), value) if over["top"] is None else (value, Fraction(over["top"]))
        return whole + top / int(over["below"]), over.end()
    power = _EXPONENT.match(text, end)
    if power is None or (power["power"] and value != 10):
        return value, end
    exponent = int(next(filter(None, power.groups())).lstrip("^").translate(_RAISED))
    if abs(exponent) > _MOST_DIGITS:
        return None, power.end()
    return (Fraction(1) if power["power"] else value) * Fraction(10) ** exponent, power.end()


def _in_words(text: str) -> Iterator[Quantity]:
    """Yield numbers in words: "twelve", "twenty-five", "two hundred and one"."""
    alone = len(text) < 40 and len(text.split()) <= 2
    runs: list[tuple[float, int, int]] = []
    for word in _WORD.finditer(text):
        number = _value_of(word[0], alone) if len(word[0]) <= _LONGEST_WORD else None
        if number is None or (number == 1 and _is_pronoun(text, word)):
            continue
        if runs and text[runs[-1][2] : word.start()].strip(" -\u00a0") in ("", "and"):
            longer = spelt_on(runs[-1][0], number, spelt=True)
            if longer is not None:
                runs[-1] = (longer, runs[-1][1], word.end())
                continue
        runs.append((number, word.start(), word.end()))
    for value, start, end in runs:
        quantity = _with_unit(text, Fraction(value), start, end, None)
        if quantity is not None and (value < 100 or " " in text[start:end]):
            yield replace(quantity, spelt=True)


def _is_pronoun(text: str, word: re.Match[str]) -> bool:
    return bool(_ONE_OF.match(text, word.end()) or _NO_ONE.search(text, max(0, word.start() - 9), word.start()))


def _value_of(word: str, alone: bool) -> float | None:
    plain = word.lower()
    if not plain.isascii():
        plain = "".join(c for c in unicodedata.normalize("NFKD", plain.replace("ß", "ss")) if c.isalpha())
    if plain in ONLY_ALONE:
        return ONLY_ALONE[plain] if alone else None
    return value_of_word(plain, ordinals=False)


def _with_unit(text: str, value: Fraction, start: int, end: int, coin: str | None) -> Quantity | None:
    """Return a number with the words after it taken in; ``None`` if it is too large for a float."""
    after = _AFTER.match(text, end)
    scale, unit, odd = after.group("scale", "unit", "odd") if after else (None, None, None)
    if scale:
        value *= _SCALES.get(scale.strip(" -"), _SCALES.get(scale.strip(" -").lower(), 1))
    fraction, kind, size, zero = None, "", 1.0, 0.0
    if coin:
        kind = _COINS[coin]
        value *= 10**6 if unit == "m" else 1
    elif unit and (unit in _SHARES or unit.lower() in _SHARES):
        fraction = _SHARES.get(unit) or _SHARES[unit.lower()]
    elif unit:
        kind, size, zero = _UNITS.get(unit) or _UNITS[unit.lower()]
    elif odd:
        kind = odd
    number = float(value) if abs(value) < _LARGEST else math.inf
    if math.isinf(number):
        return None
    whole = int(value) if value.denominator == 1 else None
    return Quantity(number, fraction, kind, size, start, after.end() if after else end, zero, whole)


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
        text: Any text; of a long one the first :data:`_MOST_NUMBERS` numbers.
        marks: Read the marks of lists and citations too.
    """
    plain = text if marks else without_marks(text)
    found: list[Number] = []
    for token in _TOKEN.finditer(plain):
        if len(found) >= _MOST_NUMBERS:
            break
        number = _number(token)
        if number is None:  # 714.338.6790, 2024.03.05 and the like: each part is one
            parts = _PART.finditer(token[0]) if token[0][0].isdigit() and len(token[0]) <= _MOST_DIGITS_IN_TEXT else ()
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
    if len(text) > _MOST_DIGITS_IN_TEXT or not text.isascii():
        return None
    if _GROUPED.fullmatch(text):
        text = text.replace(",", "").replace("'", "")
    elif _EUROPEAN.fullmatch(text):
        text = text.replace(".", "").replace(",", ".")
    whole, point, decimals = text.partition(".")
    if not whole.isdigit() or (point and not decimals.isdigit()):
        return None
    return Number(float(text), token.start(), token.start() + len(token[0].rstrip(".,'")), len(decimals))
