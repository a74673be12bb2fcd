"""Words and syllables of a text."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Any, Final

_VOWELS: Final = re.compile(r"[aeiouy]+")
_SILENT: Final = re.compile(r"(?:[^aeiouyl]e|[aeiouy]le|[bdfkmnprtvw]es|[aeiouy]les|[^aeiouytdl]ed|[aeiouy]led)$")
"""Endings whose e is not spoken."""
_APART: Final = re.compile(
    r"(?<![cst])i(?:a|e(?=t|nc|nt)|um)|(?<![cstgln])io|[aeouy]ing|(?<=[aeiouy]\w)ea$|crea(?=t)|eo(?=$|l|g)|(?<!q)ua(?=l|t)"
    r"|uou|uel|[^aeiouy]sm$"
)
"""Vowels side by side that are usually spoken apart, and an ending with a syllable but no vowel."""


@cache
def _word() -> Any:
    import regex

    return regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}]|[\p{L}\p{M}\p{N}]+(?:['’‑.,·-][\p{L}\p{M}\p{N}]+)*")  # noqa: RUF001


def words(text: str) -> list[str]:
    """Return the words of a text.

    A word is a run of letters and digits; one apostrophe, hyphen, point or comma between two of them belongs to it, so
    that "don't", "well-known" and "3.5" are one word each. Each character of Chinese and each kana is a word.
    """
    return list(_word().findall(text))


@lru_cache(100_000)
def syllables(word: str) -> int:
    """Return about how many syllables an English word has, at least 1.

    Groups of vowels are counted; a silent e near the end is left out, and vowels that are usually spoken apart count
    twice. A number is one syllable for each digit.
    """
    plain = "".join(letter for letter in word.lower() if letter.isalnum())
    digits = sum(map(str.isdigit, plain))
    if digits:
        return digits
    groups = len(_VOWELS.findall(plain))
    if len(plain) > 3:
        groups -= bool(_SILENT.search(plain))
        groups += sum(1 for _ in _APART.finditer(plain))
    return max(1, groups)
