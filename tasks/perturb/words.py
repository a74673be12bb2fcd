"""Perturbations of words: stray commas, swapped neighbours, a keyboard with Y and Z exchanged.

Each takes a text, a random generator and how many of the possible places to change, and returns the changed text, or
the text itself where there is nothing to change.
"""

from __future__ import annotations

import re
from random import Random
from typing import Final

from leadline.tasks.perturb.intensity import Amount

_WORD: Final = re.compile(r"\S+")
_CLOSED: Final = ",.;:!?…"
_OPENING: Final = "([{<«“"
_ENDS: Final = ".!?…"
_AROUND: Final = _CLOSED + _OPENING + ")]}>»”\"'"


def comma(text: str, random: Random, amount: Amount) -> str:
    """Put commas behind words, but not behind punctuation, an opening bracket or the last word.

    Args:
        random: Source of chance; the same state gives the same result.
        amount: How many of the possible places to change.
    """
    words = list(_WORD.finditer(text))[:-1]
    places = [word.end() for word in words if word[0][-1] not in _CLOSED + _OPENING]
    for place in sorted(random.sample(places, amount(len(places))), reverse=True):
        text = f"{text[:place]},{text[place:]}"
    return text


def word_swap(text: str, random: Random, amount: Amount) -> str:
    """Swap neighbouring words, unless the first ends in punctuation or both are equal; no word moves twice.

    Args:
        random: Source of chance; the same state gives the same result.
        amount: How many of the possible pairs to change.
    """
    words = list(_WORD.finditer(text))
    pairs = [
        place
        for place in range(len(words) - 1)
        if words[place][0][-1] not in _CLOSED and words[place][0] != words[place + 1][0]
    ]
    wanted = amount(len(pairs))
    random.shuffle(pairs)
    moved: set[int] = set()
    for place in pairs:
        if wanted and not moved & {place, place + 1}:
            moved |= {place, place + 1}
            wanted -= 1
    shown = [word[0] for word in words]
    for place in sorted(moved)[::2]:
        starts = not place or shown[place - 1][-1:] in _ENDS
        shown[place : place + 2] = _exchanged(shown[place], shown[place + 1], starts=starts)
    out, end = [], 0
    for word, new in zip(words, shown, strict=True):
        out += [text[end : word.start()], new]
        end = word.end()
    return "".join([*out, text[end:]])


def _exchanged(first: str, second: str, *, starts: bool) -> tuple[str, str]:
    """Return two words in the other order; punctuation stays in its place, and so does the capital of a sentence.

    Args:
        first: The first word.
        second: The second one.
        starts: Whether a sentence begins with the first.
    """
    (before, one, after), (later, other, last) = _parts(first), _parts(second)
    if starts and one.istitle() and len(one) > 1 and other.islower():
        one, other = one[:1].lower() + one[1:], other[:1].upper() + other[1:]
    return f"{before}{other}{after}", f"{later}{one}{last}"


def _parts(word: str) -> tuple[str, str, str]:
    """Return the punctuation before a word, the word, and the punctuation behind it; what is nothing else is a word."""
    core = word.strip(_AROUND)
    if not core:
        return "", word, ""
    start = word.index(core)
    return word[:start], core, word[start + len(core) :]


def qwerty(text: str, random: Random, amount: Amount) -> str:
    """Write z for y and y for z, as on a keyboard of the other kind.

    Args:
        random: Source of chance; the same state gives the same result.
        amount: How many of the letters y and z to change.
    """
    places = [place for place, letter in enumerate(text) if letter in "yzYZ"]
    letters = list(text)
    for place in random.sample(places, amount(len(places))):
        letters[place] = letters[place].translate(str.maketrans("yzYZ", "zyZY"))
    return "".join(letters)
