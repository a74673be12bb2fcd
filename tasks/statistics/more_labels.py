"""The number of further labels that would decide what those that there are leave open."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

SECONDS_A_LABEL: Final = 6
"""Time that a person takes for one label, roughly."""
MOST_TIMES: Final = 20
"""Times the labels that there are, beyond which no number is told."""


def more_until(labels: int, is_decided: Callable[[float], bool]) -> int | None:
    """Return about how many labels more decide a question if they go on saying what these say.

    Args:
        labels: Labels that there are.
        is_decided: Says whether so many times the present labels would decide it.

    Returns:
        The number, rounded up to tens, or ``None`` where it is more than :data:`MOST_TIMES` what there is.
    """
    times = 1.1
    while not is_decided(times):
        times *= 1.1
        if times > MOST_TIMES:
            return None
    return 10 * math.ceil(labels * (times - 1) / 10)


def more_for_value(labels: int, value: float, end: float, wanted: float) -> int | None:
    """Return about how many labels more would take an interval's end off what is wanted.

    Args:
        labels: Labels that there are.
        value: The corrected value.
        end: The end of its interval on the side of what is wanted.
        wanted: What is wanted, between these two.
    """
    far, reach = abs(value - wanted), abs(end - value)
    return more_until(labels, lambda times: far >= reach / math.sqrt(times))


def in_words(more: int | None) -> str:
    """Return ``about 80 labels more, some 10 minutes``.

    Args:
        more: How many; ``None`` if they would be too many.
    """
    if more is None:
        return "many times as many labels"
    return f"about {more:,} labels more, {time_of_person(more)}"


def time_of_person(labels: int) -> str:
    """Return ``some 10 minutes of a person``.

    Args:
        labels: How many labels are to be given.
    """
    minutes = max(5, 5 * round(labels * SECONDS_A_LABEL / 300))
    return f"some {f'{minutes} minutes' if minutes < 90 else f'{round(minutes / 60)} hours'} of a person"
