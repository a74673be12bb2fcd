"""Perturbations of words: stray commas, swapped neighbours, a keyboard with Y and Z exchanged.

Each takes a text, a random generator and the share of places to change, and returns the changed text, or the text
itself where there is nothing to change.
"""

from __future__ import annotations

import re
from random import Random
from typing import Final

from leadline.tasks.perturb.intensity import how_many

_WORD: Final = re.compile(r"\S+")
_CLOSED: Final = ",.;:!?…"
_OPENING: Final = "([{<«“"


def comma(text: str, random: Random, share: float) -> str:
    """Put commas behind words, but not behind punctuation, an opening bracket or the last word.

    Args:
        text: The text.
        random: Source of chance; the same state gives the same result.
        share: Share of the possible places to change, 0 to 1.
    """
    words = list(_WORD.finditer(text))[:-1]
    places = [word.end() for word in words if word[0][-1] not in _CLOSED + _OPENING]
    for place in sorted(random.sample(places, how_many(len(places), share)), reverse=True):
        text = f"{text[:place]},{text[place:]}"
    return text


def word_swap(text: str, random: Random, share: float) -> str:
    """Swap neighbouring words, unless the first ends in punctuation or both are equal; no word moves twice.

    Args:
        text: The text.
        random: Source of chance; the same state gives the same result.
        share: Share of the possible pairs to change, 0 to 1.
    """
    words = list(_WORD.finditer(text))
    pairs = [
        place
        for place in range(len(words) - 1)
        if words[place][0][-1] not in _CLOSED and words[place][0] != words[place + 1][0]
    ]
    wanted = how_many(len(pairs), share)
    random.shuffle(pairs)
    moved: set[int] = set()
    for place in pairs:
        if wanted and not moved & {place, place + 1}:
            moved |= {place, place + 1}
            wanted -= 1
    order = list(range(len(words)))
    for place in sorted(moved)[::2]:
        order[place], order[place + 1] = order[place + 1], order[place]
    return _reordered(text, words, order)


def _reordered(text: str, words: list[re.Match[str]], order: list[int]) -> str:
    """Return the text with the words in another order, and the white space where it was."""
    out, end = [], 0
    for place, word in enumerate(words):
        out += [text[end : word.start()], words[order[place]][0]]
        end = word.end()
    return "".join([*out, text[end:]])


def qwerty(text: str, random: Random, share: float) -> str:
    """Write z for y and y for z, as on a keyboard of the other kind.

    Args:
        text: The text.
        random: Source of chance; the same state gives the same result.
        share: Share of the letters y and z to change, 0 to 1.
    """
    places = [place for place, letter in enumerate(text) if letter in "yzYZ"]
    letters = list(text)
    for place in random.sample(places, how_many(len(places), share)):
        letters[place] = letters[place].translate(str.maketrans("yzYZ", "zyZY"))
    return "".join(letters)
