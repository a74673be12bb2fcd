"""The interval of a mean difference: Student's, and where the differences are skewed, Hall's too.

A candidate that is rarely but badly worse gives differences that are mostly 0 and sometimes very negative. Student's
interval then says "not worse" too often: with 100 cases of which 2 % lose half the range, 12 % of the time instead of
2.5 %. Hall's transformation of t takes the skew out, but where few cases differ at all it trusts the skew that it sees
too much. The interval is therefore the wider of both at either end, which keeps either error below about 4 %.

Source: Student, Biometrika 6 (1908); Hall, "On the removal of skewness by transformation", J. R. Statist. Soc. B 54
(1992), 221-228: g(T) = T + a T² / 3 + a² T³ / 27 + a / 6 is near normal, with a = skewness / √n.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leadline.tasks.analyse.statistics import CONFIDENCE

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean with what its interval needs.

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
