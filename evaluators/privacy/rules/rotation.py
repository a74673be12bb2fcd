"""ROT13: decides by the frequency of letters whether a text or its rotation reads like a language.

A letter's weight is the logarithm of how much more frequent it is in English than the letter that it is rotated to.
The sum over a text is the evidence that the text stands as it was written; that of its rotation is the same with the
other sign. Letters of French, German or Spanish text lean the same way.
"""

from __future__ import annotations

import codecs
import math
import re
from string import ascii_lowercase
from typing import Final

_A_TO_M: Final = (8.167, 1.492, 2.782, 4.253, 12.702, 2.228, 2.015, 6.094, 6.966, 0.153, 0.772, 4.025, 2.406)
_N_TO_Z: Final = (6.749, 7.507, 1.929, 0.095, 5.987, 6.327, 9.056, 2.758, 0.978, 2.360, 0.150, 1.974, 0.074)
"""Per cent of the letters of English text: R. E. Lewand, Cryptological Mathematics (2000)."""

_WEIGHTS: Final = {
    form: sign * math.log(early / late)
    for place, (early, late) in enumerate(zip(_A_TO_M, _N_TO_Z, strict=True))
    for letter, sign in ((ascii_lowercase[place], 1), (ascii_lowercase[place + 13], -1))
    for form in (letter, letter.upper())
}

SURE: Final = 10.0
"""Evidence that counts as clear, as a natural logarithm: 1 to 22,000. English has it in some 13 letters."""

CODE: Final = 8
"""Least characters of codes, whose letters are no evidence, for which a text is rotated in any case."""

_WORD: Final = re.compile(r"[A-Za-z0-9]+")


def rotated(text: str) -> str:
    """Return a text with each ASCII letter replaced by the one 13 places on; doing it again undoes it."""
    return codecs.encode(text, "rot13")


def lean(text: str) -> float:
    """Return the evidence that a text is not rotated: above 0, or below 0 if it looks rotated."""
    return sum(_WEIGHTS.get(char, 0.0) for char in text)


def may_be_rotated(text: str) -> bool:
    """Return whether a text has letters, and some of them may be rotated.

    That is so if it is short, has a stretch of words that is clearly rotated, or has codes in it.
    """
    total = stretch = 0.0
    codes = 0
    words = [word for word in _WORD.findall(text) if not word.isdigit()]
    for word in words:
        if not _is_word(word):
            codes += len(word)
            continue
        evidence = lean(word)
        total += evidence
        stretch = max(0.0, stretch - evidence)  # the strongest evidence of a rotation that ends here
        if stretch >= SURE:
            return True
    return bool(words) and (total < SURE or codes >= CODE)


def _is_word(token: str) -> bool:
    """Return whether a token is no code: letters only, with capitals where words have them."""
    return token.isalpha() and (token.islower() or token.isupper() or token[1:].islower())
