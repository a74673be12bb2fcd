"""Perturbations of characters: what fingers, scanners and broken copies do to a text.

Each takes a text, a random generator and the share of characters to change, and returns the changed text, or the text
itself where there is nothing to change.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from leadline.tasks.perturb.intensity import how_many

_ANY: Final = string.ascii_letters + string.digits + string.punctuation
_ROWS: Final = ("1234567890", "qwertyuiop", "asdfghjkl", "zxcvbnm")
_OCR: Final[Mapping[str, str]] = {
    "0": "oOD", "1": "lI", "2": "zZ", "3": "8", "4": "A", "5": "sS", "6": "bG", "7": "T", "8": "B3", "9": "gq",
    "a": "o", "b": "6h", "c": "e", "e": "c", "f": "t", "g": "9q", "h": "b", "i": "l1", "l": "1I", "m": "n", "n": "r",
    "o": "0", "q": "g9", "r": "n", "s": "5", "t": "f", "u": "v", "v": "u", "w": "v", "y": "v", "z": "2",
    "A": "4", "B": "8", "C": "G", "D": "O0", "E": "F", "F": "E", "G": "6C", "I": "1l", "M": "N", "N": "M", "O": "0Q",
    "P": "R", "Q": "O", "R": "P", "S": "5", "T": "7", "U": "V", "V": "U", "Z": "2",
}  # fmt: skip
"""Characters that optical character recognition takes for each other."""


def _neighbours() -> dict[str, str]:
    """Return for each key of a US keyboard those around it; rows are shifted by half a key."""
    out = {}
    for line, row in enumerate(_ROWS):
        for place, key in enumerate(row):
            near = [(line, place - 1), (line, place + 1), (line - 1, place), (line - 1, place + 1),
                    (line + 1, place - 1), (line + 1, place)]  # fmt: skip
            out[key] = "".join(_ROWS[y][x] for y, x in near if 0 <= y < len(_ROWS) and 0 <= x < len(_ROWS[y]))
    return out


_KEYS: Final = _neighbours()


def _replaced(text: str, random: Random, share: float, other: Callable[[str], str]) -> str:
    """Replace a share of the characters for which ``other`` returns something else."""
    places = [place for place, character in enumerate(text) if not character.isspace() and other(character)]
    letters = list(text)
    for place in random.sample(places, how_many(len(places), share)):
        letters[place] = other(letters[place])
    return "".join(letters)


def replacement(text: str, random: Random, share: float) -> str:
    """Replace characters by random letters, digits and punctuation.

    Args:
        text: The text.
        random: Source of chance; the same state gives the same result.
        share: Share of the characters to change, 0 to 1.
    """
    return _replaced(text, random, share, lambda old: random.choice(_ANY.replace(old, "")))


def typo(text: str, random: Random, share: float) -> str:
    """Hit neighbouring keys of a US keyboard; upper case stays upper case.

    Args:
        text: The text.
        random: Source of chance; the same state gives the same result.
        share: Share of the characters to change, 0 to 1.
    """

    def slipped(key: str) -> str:
        near = _KEYS.get(key.lower(), "")
        hit = random.choice(near) if near else ""
        return hit.upper() if key.isupper() else hit

    return _replaced(text, random, share, slipped)


def ocr(text: str, random: Random, share: float) -> str:
    """Confuse characters as a scanner does.

    Args:
        text: The text.
        random: Source of chance; the same state gives the same result.
        share: Share of the characters to change, 0 to 1.
    """
    return _replaced(text, random, share, lambda old: random.choice(_OCR[old]) if old in _OCR else "")


def insertion(text: str, random: Random, share: float) -> str:
    """Put random characters before some.

    Args:
        text: The text.
        random: Source of chance; the same state gives the same result.
        share: Share of the characters to change, 0 to 1.
    """
    chosen = set(random.sample(range(len(text)), how_many(len(text), share)))
    return "".join((random.choice(_ANY) if place in chosen else "") + character for place, character in enumerate(text))


def deletion(text: str, random: Random, share: float) -> str:
    """Leave characters out; at least one that is no white space stays.

    Args:
        text: The text.
        random: Source of chance; the same state gives the same result.
        share: Share of the characters to change, 0 to 1.
    """
    places = [place for place, character in enumerate(text) if not character.isspace()]
    chosen = set(random.sample(places, min(how_many(len(places), share), max(0, len(places) - 1))))
    return "".join(character for place, character in enumerate(text) if place not in chosen)
