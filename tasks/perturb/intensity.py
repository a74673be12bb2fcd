"""The intensity of a perturbation, in six steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial
from random import Random
from typing import Final, TypeAlias


class Intensity(StrEnum):
    """The steps, weakest first."""

    VERY_LOW = "very_low"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    VERY_HIGH = "very_high"
    EXTREME = "extreme"


Amount: TypeAlias = Callable[[int], int]
"""Returns how many of a number of places to change."""

Scale: TypeAlias = Callable[[str, Intensity, Random], Amount]
"""Returns how much of a text to change at an intensity."""

Shares: TypeAlias = Mapping[Intensity, tuple[float, float]]
"""The range from which the share of characters or words to change is drawn, for each step."""

_LONG: Final = 15
"""Characters of what counts as one word; longer texts without blanks count as several."""


def _shares(*ranges: tuple[float, float]) -> Shares:
    return dict(zip(Intensity, ranges, strict=True))


OF_CHARACTERS: Final = _shares((0.025, 0.055), (0.1, 0.1), (0.25, 0.3), (0.45, 0.6), (0.7, 0.8), (0.9, 1.0))
OF_WORDS: Final = _shares((0.05, 0.05), (0.1, 0.1), (0.3, 0.3), (0.5, 0.5), (0.7, 0.7), (1.0, 1.0))
OF_LETTERS: Final = _shares((0.1, 0.1), (0.3, 0.3), (0.5, 0.5), (0.8, 0.8), (0.9, 0.9), (1.0, 1.0))
OF_SYNONYMS: Final = _shares((0.1, 0.1), (0.3, 0.3), (0.5, 0.5), (0.7, 0.7), (0.9, 0.9), (1.0, 1.0))
OF_ANTONYMS: Final = _shares((0.1, 0.1), (0.5, 0.5), (0.7, 0.7), (0.9, 0.9), (0.95, 0.95), (1.0, 1.0))

_SLIPS: Final = dict(zip(Intensity, (0.5, 1.0, 2.0, 4.0, 6.0, 10.0), strict=True))


def drawn(shares: Shares) -> Scale:
    """Return a scale on which a share of the places is changed, drawn from the range of the step."""

    def amount(text: str, intensity: Intensity, random: Random) -> Amount:
        low, high = shares[intensity]
        return partial(how_many, share=random.uniform(low, high))

    return amount


def slips(words: int = 1) -> Scale:
    """Return a scale on which 1, 2 or 4 words in ten go wrong at low, medium or high intensity.

    Args:
        words: Words that one change puts wrong; two, for example, where words change places.
    """

    def amount(text: str, intensity: Intensity, random: Random) -> Amount:
        count = sum(1 + len(word) // _LONG for word in text.split())
        return partial(min, max(1, round(count * _SLIPS[intensity] / 10 / words)))

    return amount


def how_many(places: int, share: float) -> int:
    """Return how many of some places to change: at least one where there is one.

    Args:
        places: Number of places.
        share: Share of them to change, 0 to 1.
    """
    return min(places, max(1, round(places * share)))
