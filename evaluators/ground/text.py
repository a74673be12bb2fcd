"""Texts for people: numbers with their nouns, shares, lists of names, and hostile characters made visible."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_CONTROL: Final = "\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2028\u2029\u2066-\u2069\ud800-\udfff"
"""Control characters but tab and line feed, overrides of the writing direction, line separators, lone surrogates."""

_ACTING: Final = re.compile(f"[{_CONTROL}]")
_NOT_ON_A_LINE: Final = re.compile(f"[\t\n{_CONTROL}]")


def count(n: int, what: str, plural: str = "") -> str:
    """Return a number with its noun: "1 row", "1,200 rows", "2 replies".

    Args:
        n: The number.
        what: The noun for one.
        plural: The noun for several; by default with an s.
    """
    return f"{n:,} {nouns(n, what, plural)}"


def nouns(n: int, what: str, plural: str = "") -> str:
    """Return the noun alone, for sentences with the number elsewhere.

    Args:
        n: The number.
        what: The noun for one.
        plural: The noun for several; by default with an s.
    """
    return what if n == 1 else plural or f"{what}s"


def number(value: float | None) -> str:
    """Return a value for a sentence: four digits after the point at most, two of a value below 0.001."""
    if value is None:
        return "no value"
    if 1e-7 <= abs(value) < 1e-3:
        return f"{value:.2g}"
    return f"{value:.4f}".rstrip("0").rstrip(".") if abs(value) < 1e6 else f"{value:.4g}"


def percent(share: float) -> str:
    """Return a share as a percentage with one decimal; never 0 or 100 % unless it is."""
    shown = f"{100 * share:.1f}".removesuffix(".0")
    if shown == "100" and share < 1:
        return ">99.9 %"
    return "<0.1 %" if shown == "0" and share > 0 else f"{shown} %"


def signed_percent(share: float) -> str:
    """Return a share that may be negative as a percentage with one decimal, with a proper sign."""
    return f"\N{MINUS SIGN}{percent(-share)}" if share < 0 else percent(share)


def listing(names: Iterable[str], *, most: int = 8) -> str:
    """Return names as a list in a sentence: "a, b and c".

    Args:
        names: At least one name.
        most: Beyond this number the last names are only counted.
    """
    found = list(names)
    if len(found) > most:
        found = [*found[: most - 1], f"{len(found) - most + 1} more"]
    return found[0] if len(found) == 1 else f"{', '.join(found[:-1])} and {found[-1]}"


def quoted(text: str | None, *, most: int = 160) -> str:
    """Return a text of the dataset for a sentence: in quotes, on one line, shortened.

    Args:
        text: The text; ``None`` counts as empty.
        most: Characters at most.
    """
    line = " ".join((text or "").split())
    return f'"{line}"' if len(line) <= most else f'"{line[: most - 1]}…"'


def one_line(text: str) -> str:
    r"""Return a text on one line, with hostile characters escaped as in Python (``\n``, ``\x1b``)."""
    return _NOT_ON_A_LINE.sub(lambda match: repr(match[0])[1:-1], text)


def visible(text: str) -> str:
    """Return a text with hostile characters as pictures: NUL as ␀, others as ``[U+202E]``, lone surrogates as ``?``."""
    return _ACTING.sub(_picture, text)


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    if 0xD800 <= code <= 0xDFFF:
        return "?"
    return chr(0x2400 + code) if code < 0x20 else f"[U+{code:04X}]"


def in_bytes(count: float) -> str:
    """Return a number of bytes for people."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:,.0f} {unit}" if unit == "bytes" else f"{count:,.1f} {unit}"
        count /= 1000
    return ""
