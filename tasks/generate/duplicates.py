"""Repeated questions: which of them ask the same as an earlier one.

Overlapping chunks and documents that say the same bring the same questions. Two are the same

* exactly, if they differ in case, punctuation and white space only;
* nearly, if they have the same words apart from the order, from words that say little, and from endings: the same
  numbers, and for every other word one that begins alike and is alike to 85 % by its letters;
* by meaning, where an embedder is given: if the cosine of their vectors reaches a threshold, with the same numbers.

How alike two questions are letter by letter is not asked: "How deep is berth 3?" and "How deep is berth 4?" are alike
to 95 % and two questions.
"""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from rapidfuzz import fuzz

if TYPE_CHECKING:
    import numpy.typing as npt

ALIKE: Final = 85.0
"""Likeness of two words, in per cent, from which on one is taken for a form of the other."""

SIMILARITY: Final = 0.95
"""Cosine from which on two questions mean the same."""

_STEM: Final = 3
_LAST: Final = 50
"""Earlier questions of words that begin alike, with which one is compared; more would take quadratic time."""

_BLOCK: Final = 256
_WORD: Final = re.compile(r"\w+(?:[.,]\d+)*")
_DIGIT: Final = re.compile(r"\d")
_LITTLE: Final = frozenset(
    "a an the of in on at for by with and is are was were be been being do does did has have had what which it its "
    "this that these those there please tell me i you we one "
    "der die das des dem den ein eine einer eines einem einen und ist sind war waren wird im am an auf von vom zum "
    "zur für was welche welcher welches es "
    "le la les l un une des du de d et est sont que quel quelle quels quelles quoi".split()
)
"""Words that say little in English, German or French. Who, when, where, why and how are none, nor are can and must."""


def normalised(question: str) -> str:
    """Return a question in lower case, its words alone with one space between."""
    return " ".join(_WORD.findall(unicodedata.normalize("NFKC", question).casefold()))


class Repeats:
    """Remembers questions, and tells whether a new one asks the same as one of them."""

    def __init__(self) -> None:
        self._exact: set[str] = set()
        self._near: dict[frozenset[str], deque[list[str]]] = {}

    def seen(self, question: str) -> bool:
        """Return whether a question was there before; if not, it is now."""
        name = normalised(question)
        if name in self._exact:
            return True
        self._exact.add(name)
        words = sorted(word for word in name.split() if word not in _LITTLE)
        bucket = self._near.setdefault(frozenset(map(_stem, words)), deque(maxlen=_LAST))
        if any(_same(words, other) for other in bucket):
            return True
        bucket.append(words)
        return False


def _stem(word: str) -> str:
    """Return what forms of a word have in common: its beginning; numbers and words with digits have no forms."""
    return word if _DIGIT.search(word) else word[:_STEM]


def _same(words: Sequence[str], others: Sequence[str]) -> bool:
    """Return whether sorted words are the same but for their endings."""
    if len(words) != len(others):
        return False
    return all(
        word == other or (not _DIGIT.search(word + other) and fuzz.ratio(word, other) >= ALIKE)
        for word, other in zip(words, others, strict=True)
    )


def numbers_of(question: str) -> tuple[str, ...]:
    """Return the words of a question that contain digits, sorted."""
    return tuple(sorted(word for word in normalised(question).split() if _DIGIT.search(word)))


def repeated_by_meaning(
    questions: Sequence[str], embed: Callable[[Sequence[str]], npt.NDArray[np.float32]], least: float = SIMILARITY
) -> set[int]:
    """Return the places of questions that mean the same as an earlier one that is kept.

    Args:
        embed: Returns unit vectors, one row per text.
        least: Cosine from which on two mean the same.
    """
    vectors = embed(questions)
    numbers = [numbers_of(question) for question in questions]
    dropped: set[int] = set()
    for begin in range(0, len(questions), _BLOCK):
        block = vectors[begin : begin + _BLOCK]
        near = block @ vectors[: begin + len(block)].T >= least
        for row, places in enumerate(near):
            place = begin + row
            earlier = (int(other) for other in np.flatnonzero(places[:place]))
            if any(other not in dropped and numbers[other] == numbers[place] for other in earlier):
                dropped.add(place)
    return dropped
