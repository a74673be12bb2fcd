"""The intensity of a perturbation, in six steps."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
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


Shares: TypeAlias = Mapping[Intensity, tuple[float, float]]
"""The range from which the share of characters or words to change is drawn, for each step."""


def _shares(*ranges: tuple[float, float]) -> Shares:
    return dict(zip(Intensity, ranges, strict=True))


OF_CHARACTERS: Final = _shares((0.025, 0.055), (0.1, 0.1), (0.25, 0.3), (0.45, 0.6), (0.7, 0.8), (0.9, 1.0))
OF_WORDS: Final = _shares((0.05, 0.05), (0.1, 0.1), (0.3, 0.3), (0.5, 0.5), (0.7, 0.7), (1.0, 1.0))
OF_LETTERS: Final = _shares((0.1, 0.1), (0.3, 0.3), (0.5, 0.5), (0.8, 0.8), (0.9, 0.9), (1.0, 1.0))
OF_SYNONYMS: Final = _shares((0.1, 0.1), (0.3, 0.3), (0.5, 0.5), (0.7, 0.7), (0.9, 0.9), (1.0, 1.0))
OF_ANTONYMS: Final = _shares((0.1, 0.1), (0.5, 0.5), (0.7, 0.7), (0.9, 0.9), (0.95, 0.95), (1.0, 1.0))


def how_many(places: int, share: float) -> int:
    """Return how many of some places to change: at least one where there is one.

    Args:
        places: Number of places.
        share: Share of them to change, 0 to 1.
    """
    return min(places, max(1, round(places * share)))


def draw(shares: Shares, intensity: Intensity, random: Random) -> float:
    """Draw the share of a step.

    Args:
        shares: Range of each step.
        intensity: The step.
        random: Source of chance.
    """
    low, high = shares[intensity]
    return random.uniform(low, high)
