"""Numbers as people write them: signs, thousands separators, exponents, percent, words of scale, units.

``-1,234.5``, ``1.5e-3``, ``$3 million``, ``12 %`` and ``5 km`` are read; numbers in words ("twelve") are not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Decimal: TypeAlias = Literal["point", "comma"]

_SPACES: Final = "\u0020\u00a0\u2009\u202f"
_MINUS: Final = "-\u2212"
_SCALES: Final = {
    "thousand": 1e3,
    "k": 1e3,
    "million": 1e6,
    "millions": 1e6,
    "mn": 1e6,
    "M": 1e6,
    "billion": 1e9,
    "billions": 1e9,
    "bn": 1e9,
    "B": 1e9,
    "trillion": 1e12,
    "tn": 1e12,
}
_UNITS: Final[dict[str, dict[str, float]]] = {
    "length": {
        "nm": 1e-9, "µm": 1e-6, "mm": 1e-3, "cm": 1e-2, "m": 1.0, "km": 1e3, "in": 0.0254, "ft": 0.3048, "yd": 0.9144,
        "mi": 1609.344, "inch": 0.0254, "inches": 0.0254, "foot": 0.3048, "feet": 0.3048, "mile": 1609.344,
        "miles": 1609.344, "metre": 1.0, "metres": 1.0, "meter": 1.0, "meters": 1.0, "kilometre": 1e3,
        "kilometres": 1e3, "kilometer": 1e3, "kilometers": 1e3,
    },
    "mass": {
        "µg": 1e-9, "mg": 1e-6, "g": 1e-3, "kg": 1.0, "t": 1e3, "oz": 0.028349523125, "lb": 0.45359237,
        "lbs": 0.45359237, "gram": 1e-3, "grams": 1e-3, "kilogram": 1.0, "kilograms": 1.0, "tonne": 1e3, "tonnes": 1e3,
    },
    "time": {
        "ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "min": 60.0, "h": 3600.0, "hr": 3600.0,
        "hrs": 3600.0, "second": 1.0, "seconds": 1.0, "minute": 60.0, "minutes": 60.0, "hour": 3600.0,
        "hours": 3600.0, "day": 86400.0, "days": 86400.0, "week": 604800.0, "weeks": 604800.0,
    },
    "volume": {"ml": 1e-3, "mL": 1e-3, "cl": 1e-2, "l": 1.0, "L": 1.0, "litre": 1.0, "litres": 1.0, "liter": 1.0,
               "liters": 1.0},
    "data": {"kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30,
             "TiB": 2.0**40},
}  # fmt: skip
"""Units by what they measure, each with its size in the first whole unit; an inch is 0.0254 m by definition."""

_KIND_OF: Final = {unit: (kind, size) for kind, units in _UNITS.items() for unit, size in units.items()}
_FRACTION: Final = {"%": 1e-2, "percent": 1e-2, "per cent": 1e-2, "‰": 1e-3}


def _pattern(thousands: str, decimal: str) -> re.Pattern[str]:
    group = rf"\d{{1,3}}(?:[{thousands}]\d{{3}})+(?!\d)|\d+"
    words = "|".join(sorted(map(re.escape, (*_SCALES, *_KIND_OF, *_FRACTION)), key=len, reverse=True))
    return re.compile(
        rf"(?=[{_MINUS}+$€£¥\d.,])(?<![\w{decimal}])(?P<sign>[{_MINUS}+])?(?P<coin>[$€£¥]?)(?P<sign2>[{_MINUS}]?)"
        rf"(?P<whole>{group})?(?P<part>(?:(?<=\d)|(?<!\w)){decimal}\d+)?(?:[eE](?P<exponent>[-+]?\d{{1,4}}))?(?<=\d)"
        rf"(?:[{_SPACES}]?(?P<word>{words})(?!\w))?(?:[{_SPACES}](?P<word2>{words})(?!\w))?",
    )


_PATTERNS: Final[dict[Decimal, re.Pattern[str]]] = {
    "point": _pattern(rf",'\u2019{_SPACES}", r"\."),
    "comma": _pattern(rf".'\u2019{_SPACES}", ","),
}


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number that stands in a text.

    Attributes:
        value: The number; a percentage is its number of hundredths (12 for "12 %"), a word of scale is multiplied in.
        fraction: What one of it is worth as a share: 0.01 for a percentage, ``None`` for a plain number.
        kind: What its unit measures, ``""`` without a known unit.
        size: The size of its unit.
        start: First character.
        end: One past the last character.
    """

    value: float
    fraction: float | None
    kind: str
    size: float
    start: int
    end: int

    def within(self, expected: Quantity, *, relative: float, absolute: float, units: bool) -> bool:
        """Return whether this is the expected quantity: ``|a - e| <= max(relative * |e|, absolute)``.

        A percentage equals the plain number that it is written with, and the share that it is.

        Args:
            expected: What it should be.
            relative: Tolerance as a share of the expected number.
            absolute: Tolerance in the expected number's unit.
            units: Whether known units count: 5 km are 5000 m and no 5 miles.
        """
        ours = [self.value]
        theirs = [expected.value]
        if units and self.kind and expected.kind:
            if self.kind != expected.kind:
                return False
            ours = [self.value * self.size / expected.size]
        if self.fraction and not expected.fraction:
            ours.append(self.value * self.fraction)
        if expected.fraction and not self.fraction:
            theirs.append(expected.value * expected.fraction)
        elif expected.fraction and self.fraction:
            ours = [self.value * self.fraction / expected.fraction]
        return any(abs(a - e) <= max(relative * abs(e), absolute) for a in ours for e in theirs)


def quantities(text: str, decimal: Decimal = "point") -> Iterator[Quantity]:
    """Yield the numbers of a text in order.

    Args:
        text: Any text.
        decimal: What stands before the decimals: a ``point``, so that commas, apostrophes and spaces may set thousands
            apart; or a ``comma``, so that points may.
    """
    for found in _PATTERNS[decimal].finditer(text):
        digits = re.sub(r"\D", "", found["whole"] or "0")
        part = (found["part"] or "")[1:]
        try:
            value = float(f"{digits}.{part or 0}e{found['exponent'] or 0}")
        except (OverflowError, ValueError):
            continue
        words = [word for word in (found["word"], found["word2"]) if word]
        if any(sign and sign in _MINUS for sign in (found["sign"], found["sign2"])):
            value = -value
        fraction, kind, size, end = None, "", 1.0, found.end()
        for place, word in enumerate(words):
            if word in _SCALES and place == 0:
                value *= _SCALES[word]
            elif word in _FRACTION and fraction is None and not kind:
                fraction = _FRACTION[word]
            elif word in _KIND_OF and fraction is None and not kind:
                kind, size = _KIND_OF[word]
            else:
                break
        if math.isfinite(value):
            yield Quantity(value, fraction, kind, size, found.start(), end)
