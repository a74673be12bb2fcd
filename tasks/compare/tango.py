"""Tango's score interval for the difference of two shares that were seen on the same rows.

Of ``n`` pairs of 0 or 1, ``wins`` are 0 then 1, ``losses`` are 1 then 0. Under a true difference ``d`` the score
statistic is ``(wins - losses - n d) / sqrt(n (2 q + d (1 - d)))``, with q the most likely share of losses given d.
Unlike the interval from the normal distribution it keeps its level for few rows and few changes, it has a width where
nothing changed, and at d = 0 it is McNemar's statistic.

Source: Tango, "Equivalence test and confidence interval for the difference in proportions for the paired-sample
design", Statistics in Medicine 17 (1998), 891-908.
"""

from __future__ import annotations

import math
from typing import Final

from leadline.tasks.analyse.statistics import Z

_FAR: Final = 10.0  # standard errors


def score_interval(wins: int, losses: int, n: int) -> tuple[float, float]:
    """Return the 95 % interval of (wins - losses) / n."""
    effect = (wins - losses) / n
    low = -1.0 if effect <= -1 else _where(wins, losses, n, (-1.0, effect), Z)
    high = 1.0 if effect >= 1 else _where(wins, losses, n, (effect, 1.0), -Z)
    return low, high


def score_statistic(wins: int, losses: int, n: int, difference: float) -> float:
    """Return how many standard errors what was seen is from a true difference in (-1, 1)."""
    distance = wins - losses - n * difference
    linear = (2 * n - wins + losses) * difference - wins - losses
    constant = -losses * difference * (1 - difference)
    lost = max(0.0, (math.sqrt(max(linear * linear - 8 * n * constant, 0.0)) - linear) / (4 * n))
    variance = n * (2 * lost + difference * (1 - difference))
    if variance <= 0:
        return math.copysign(math.inf, distance) if distance else 0.0
    return distance / math.sqrt(variance)


def _where(wins: int, losses: int, n: int, within: tuple[float, float], wanted: float) -> float:
    """Return the difference at which the statistic, which falls as the difference grows, has a value."""
    from scipy.optimize import brentq

    def excess(difference: float) -> float:  # bounded, since the statistic is infinite at -1 and 1
        return max(-_FAR, min(_FAR, score_statistic(wins, losses, n, difference) - wanted))

    return float(brentq(excess, *within, xtol=1e-15))
