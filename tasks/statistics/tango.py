"""The 95 % interval of the difference of two shares on the same rows: Tango's score interval.

Of ``n`` pairs of 0 or 1, ``wins`` are 0 then 1, ``losses`` are 1 then 0. Under a true difference ``d`` the score
statistic is ``(wins - losses - n d) / sqrt(n (2 q + d (1 - d)))``, with q the most likely share of losses given d.
Unlike the interval from the normal distribution it keeps its level for few rows and few changes, it has a width where
nothing changed, and at d = 0 it is McNemar's statistic.

Source: Tango, "Equivalence test and confidence interval for the difference in proportions for the paired-sample
design", Statistics in Medicine 17 (1998), 891-908.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING, Final

import numpy as np

from leadline.tasks.statistics.bounded_mean import CONFIDENCE, TAIL

if TYPE_CHECKING:
    import numpy.typing as npt

Z: Final = NormalDist().inv_cdf(1 - TAIL)

_PARTS: Final = 128
_ROUNDS: Final = 8  # as exact as a float


def score_interval(wins: int, losses: int, n: int, *, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return Tango's interval of (wins - losses) / n.

    Args:
        wins: Pairs that are 0 then 1.
        losses: Pairs that are 1 then 0.
        n: All pairs.
        confidence: Two-sided confidence.
    """
    effect, z = (wins - losses) / n, NormalDist().inv_cdf((1 + confidence) / 2)
    low = -1.0 if effect <= -1 else _difference_at(wins, losses, n, (-1.0, effect), z)
    high = 1.0 if effect >= 1 else _difference_at(wins, losses, n, (effect, 1.0), -z)
    return low, high


def score_statistic(
    wins: npt.ArrayLike, losses: npt.ArrayLike, n: int, difference: float | npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return the distance of the observed difference from a true one, in standard errors.

    Args:
        wins: Pairs that are 0 then 1, one number or many.
        losses: Pairs that are 1 then 0, as many numbers.
        n: All pairs.
        difference: The true difference, in (-1, 1), one number or many.
    """
    won, lost = np.asarray(wins, dtype=np.float64), np.asarray(losses, dtype=np.float64)
    distance = won - lost - n * difference
    linear = (2 * n - won + lost) * difference - won - lost
    constant = -lost * difference * (1 - difference)
    likely = np.maximum(0.0, (np.sqrt(np.maximum(linear * linear - 8 * n * constant, 0.0)) - linear) / (4 * n))
    variance = np.maximum(0.0, n * (2 * likely + difference * (1 - difference)))
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = np.where(distance == 0, 0.0, distance / np.sqrt(variance))
    return np.asarray(statistic)


def _difference_at(wins: int, losses: int, n: int, within: tuple[float, float], wanted: float) -> float:
    """Return the difference at which the statistic, which falls as the difference grows, has the wanted value."""
    low, high = within
    for _ in range(_ROUNDS):
        places = np.linspace(low, high, _PARTS + 1)
        above = int((score_statistic(wins, losses, n, places[1:-1]) >= wanted).sum())
        low, high = float(places[above]), float(places[above + 1])
    return (low + high) / 2
