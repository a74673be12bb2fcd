"""The 95 % intervals of paired differences: Tango's for shares, Student's and Hall's for means.

**Tango's score interval**, for the difference of two shares on the same rows. Of ``n`` pairs of 0 or 1, ``wins`` are 0
then 1, ``losses`` are 1 then 0. Under a true difference ``d`` the score statistic is ``(wins - losses - n d) /
sqrt(n (2 q + d (1 - d)))``, with q the most likely share of losses given d. Unlike the interval from the normal
distribution it keeps its level for few rows and few changes, it has a width where nothing changed, and at d = 0 it is
McNemar's statistic.

**Student's interval** of a mean, and Hall's too where the differences are skewed. A candidate that is rarely but badly
worse gives differences that are mostly 0 and sometimes very negative. Student's interval then says "not worse" too
often: with 100 cases of which 2 % lose half the range, 12 % of the time instead of 2.5 %. Hall's transformation of t
takes the skew out, but where few cases differ at all it overestimates the skew. The interval is therefore the wider of
both at either end, which keeps either error below about 4 %.

Sources: Tango, "Equivalence test and confidence interval for the difference in proportions for the paired-sample
design", Statistics in Medicine 17 (1998), 891-908. Student, Biometrika 6 (1908). Hall, "On the removal of skewness by
transformation", J. R. Statist. Soc. B 54 (1992), 221-228: g(T) = T + a T² / 3 + a² T³ / 27 + a / 6 is near normal, with
a = skewness / √n.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from leadline.tasks.analyse.statistics import CONFIDENCE, Z

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_FAR: Final = 10.0  # standard errors


def score_interval(wins: int, losses: int, n: int) -> tuple[float, float]:
    """Return Tango's 95 % interval of (wins - losses) / n.

    Args:
        wins: Pairs that are 0 then 1.
        losses: Pairs that are 1 then 0.
        n: All pairs.
    """
    effect = (wins - losses) / n
    low = -1.0 if effect <= -1 else _difference_at(wins, losses, n, (-1.0, effect), Z)
    high = 1.0 if effect >= 1 else _difference_at(wins, losses, n, (effect, 1.0), -Z)
    return low, high


def score_statistic(wins: int, losses: int, n: int, difference: float) -> float:
    """Return the distance of the observed difference from a true one, in standard errors.

    Args:
        wins: Pairs that are 0 then 1.
        losses: Pairs that are 1 then 0.
        n: All pairs.
        difference: The true difference, in (-1, 1).
    """
    distance = wins - losses - n * difference
    linear = (2 * n - wins + losses) * difference - wins - losses
    constant = -losses * difference * (1 - difference)
    lost = max(0.0, (math.sqrt(max(linear * linear - 8 * n * constant, 0.0)) - linear) / (4 * n))
    variance = n * (2 * lost + difference * (1 - difference))
    if variance <= 0:
        return math.copysign(math.inf, distance) if distance else 0.0
    return distance / math.sqrt(variance)


def _difference_at(wins: int, losses: int, n: int, within: tuple[float, float], wanted: float) -> float:
    """Return the difference at which the statistic, which falls as the difference grows, has the wanted value."""
    from scipy.optimize import brentq

    def excess(difference: float) -> float:  # bounded, since the statistic is infinite at -1 and 1
        return max(-_FAR, min(_FAR, score_statistic(wins, losses, n, difference) - wanted))

    return float(brentq(excess, *within, xtol=1e-15))


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean and the values that its interval needs.

    Attributes:
        value: The mean.
        error: Its standard error, > 0.
        df: Degrees of freedom, >= 1.
        skew: Skewness of the mean's parts, divided by the root of their number: Hall's a.
    """

    value: float
    error: float
    df: int
    skew: float = 0.0

    def interval(self) -> tuple[float, float]:
        """Return the 95 % interval."""
        from scipy.special import stdtrit

        reach = float(stdtrit(self.df, 0.5 + CONFIDENCE / 2))
        low = max(reach, self._back(reach))
        high = min(-reach, self._back(-reach))
        return self.value - low * self.error, self.value - high * self.error

    def p(self, expected: float) -> float:
        """Return the two-sided p-value of a true mean, the greater of both methods."""
        from scipy.special import stdtr

        t = (self.value - expected) / self.error
        return min(1.0, 2 * float(stdtr(self.df, -min(abs(t), abs(self._forth(t))))))

    def _forth(self, t: float) -> float:
        a = self.skew
        return t + a * t**2 / 3 + a * a * t**3 / 27 + a / 6

    def _back(self, x: float) -> float:
        a = self.skew
        return x if abs(a) < 1e-6 else 3 / a * (math.cbrt(1 + a * (x - a / 6)) - 1)


def mean_of_clusters(sums: npt.NDArray[np.float64], sizes: npt.NDArray[np.float64]) -> Mean | None:
    """Return the mean over rows of clusters, with the cluster-robust standard error; ``None`` without any spread.

    Args:
        sums: Sum of the values of each cluster, at least two of them.
        sizes: Number of rows of each cluster.
    """
    n, groups = float(sizes.sum()), len(sums)
    value = float(sums.sum()) / n
    deviations = sums - value * sizes
    square = float(deviations @ deviations)
    if square <= 0:
        return None
    third = float((deviations * deviations) @ deviations)
    skew = third / groups / (square / groups) ** 1.5 / math.sqrt(groups)
    return Mean(value, math.sqrt(groups / (groups - 1) * square) / n, groups - 1, skew)
