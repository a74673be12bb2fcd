"""The confidence interval of a mean, from a few sums: Student's, made wider for skew and for what was not seen.

Student's interval takes the values seen for all the values there are. Of 30 answers of which 90 % deserve 1 and the
others anything, it lies wholly above the truth one time in eight: the few bad answers that decide the mean are missing
or lie close together. Each end of the interval is therefore the farthest of

* **Student's end, corrected for skew.** Where the tail is long, a mean further out comes with a larger variance. In an
  exponential family the variance grows by third / second moment per unit of the mean (Morris 1982); solving
  ``distance² = t² · variance at that end`` gives ``distance = (a t² / 2 + t √(1 + a² t² / 4)) · standard error`` with a
  the skewness of the mean. For counts of rare events this is Wilson's and Rao's score interval. Skew only ever widens.
* **The mean with a share unseen.** If a share q of all cases were at the end of the range, n draws would miss all of
  them with the chance ``c = (1 - q)^n``. What the draws then show is the mean of the others, whose end at the level
  ``0.04 / c`` is mixed with q of the range's end. The most distant q counts. Without any spread, q is ``1 -
  0.04^(1/n)``, about 3.2 / n: the rule of three (Hanley and Lippman-Hand 1983) at 4 %. With much spread, q is 0.

Both change steadily with the values, so 20 ones and 19 ones with one 0.999 give nearly the same interval. In a range
without end nothing bounds what was not seen; the skewness, which few rows understate, is then taken for larger.

**Copies.** Rows of one case and its perturbed copies form a cluster. The standard error is the jackknife's over
clusters (CV3), which leaves out one cluster at a time and so is not fooled by one that outweighs the others; the
degrees of freedom are the effective number of clusters less one (Carter, Schnepel and Steigerwald 2017).

References:
    * Student, "The probable error of a mean", Biometrika 6 (1908).
    * Morris, "Natural exponential families with quadratic variance functions", Ann. Statist. 10 (1982).
    * Rao, "Large sample tests of statistical hypotheses", Proc. Cambridge Phil. Soc. 44 (1948).
    * Hanley and Lippman-Hand, "If nothing goes wrong, is everything all right?", JAMA 249 (1983).
    * MacKinnon, Nielsen and Webb, "Cluster-robust inference: a guide to empirical practice", J. of Econometrics 232
      (2023).
    * Carter, Schnepel and Steigerwald, "Asymptotic behavior of a t-test robust to cluster heterogeneity", Review of
      Economics and Statistics 99 (2017).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import scipy

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats: TypeAlias = npt.NDArray[np.float64]
    Ints: TypeAlias = npt.NDArray[np.int64]
    Booleans: TypeAlias = npt.NDArray[np.bool_]

CONFIDENCE: Final = 0.95
TAIL: Final = (1 - CONFIDENCE) / 2
UNSEEN: Final = 0.04
"""Chance that either end is wrong where what was not seen is at the end of the range."""
_LEVELS: Final = 48
_MOST_UNEVEN: Final = 1.5
"""By how much at most skewness over clusters of unequal sizes is taken for larger than measured."""
_MOST_ROWS: Final = 1e9


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean and what its interval depends on.

    Attributes:
        error: Its standard error; 0 where all values are equal.
        skew: Skewness of the mean: that of the values, divided by the root of their number.
        df: Degrees of freedom of the standard error, at least 1.
        draws: Number of independent draws among which something unseen could have been, at least 1.
        low: Least value of the range.
        high: Greatest value of the range.
    """

    value: float
    error: float
    skew: float
    df: float
    draws: float
    low: float = -math.inf
    high: float = math.inf

    def interval(self, *, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Return the interval."""
        return intervals([self], confidence=confidence)[0]

    def reach(self, *, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Return how far the interval reaches below and above the mean, before it is clipped to the range."""
        return _reaches([self], confidence)[0]

    def of_more(self, times: float) -> Mean:
        """Return the mean as it would be with ``times`` as many cases of the same kind."""
        root = math.sqrt(times)
        return replace(
            self,
            error=self.error / root,
            skew=self.skew / root,
            df=max(1.0, float(f"{(self.df + 1) * times - 1:.2g}")),  # few distinct ones, whose quantiles are remembered
            draws=max(1.0, self.draws * times),
        )


def intervals(means: Sequence[Mean], *, confidence: float = CONFIDENCE) -> list[tuple[float, float]]:
    """Return the intervals of means, all at once."""
    found = zip(means, _reaches(means, confidence), strict=True)
    return [(max(mean.low, mean.value - below), min(mean.high, mean.value + above)) for mean, (below, above) in found]


def _reaches(means: Sequence[Mean], confidence: float) -> list[tuple[float, float]]:
    """Return how far the intervals of means reach below and above them."""
    if not means:
        return []
    tail = (1 - confidence) / 2
    below = [(mean.error, -mean.skew, mean.draws, mean.value - mean.low) for mean in means]
    above = [(mean.error, mean.skew, mean.draws, mean.high - mean.value) for mean in means]
    error, skew, draws, room = np.array(below + above, dtype=np.float64).T[:, :, np.newaxis]
    t = np.array([_quantiles(tail, min(mean.df, _MOST_ROWS)) for mean in means] * 2)
    open_ended = ~np.isfinite(room)
    if open_ended.any():  # the factor was found by simulation of lognormal values
        skew = np.where(open_ended, skew * (1 + 40 / np.maximum(draws, 20.0)), skew)
    a = np.maximum(0.0, skew)
    reach = error * (a / 2 * t * t + t * np.sqrt(1 + a * a / 4 * t * t))
    unseen = np.where(open_ended, 0.0, -np.expm1(np.log(_chances(tail)) / draws))
    distances = reach + unseen * (np.where(open_ended, 0.0, np.maximum(0.0, room)) - reach)
    ends = np.where(open_ended[:, 0], distances[:, 0], distances.max(axis=1)).tolist()
    return list(zip(ends[: len(means)], ends[len(means) :], strict=True))


@cache
def _chances(tail: float) -> Floats:
    """Return chances that a share stays unseen, 1 first."""
    return np.concatenate([[1.0], np.geomspace(1.0, UNSEEN * tail / TAIL, _LEVELS)])


@lru_cache(maxsize=4096)
def _quantiles(tail: float, df: float) -> Floats:
    """Return Student's quantiles that go with :func:`_chances`."""
    levels = np.minimum(UNSEEN * tail / TAIL / _chances(tail), 1 - 1e-9)
    levels[0] = tail
    return np.asarray(scipy.special.stdtrit(df, 1 - levels), dtype=np.float64)


def mean_of_influences(
    value: float,
    rows: float,
    clusters: float,
    *,
    sizes: float,
    squares: float,
    cubes: float,
    low: float = -math.inf,
    high: float = math.inf,
) -> Mean:
    """Return a mean from sums over its clusters; a row without copies is a cluster of its own.

    The influence of a cluster is the sum of its deviations from the mean, divided by the share of the rows that are
    not in it: how far the mean moves without it, times the number of rows.

    Args:
        clusters: Number of clusters, at least 1.
        sizes: Sum of the squared sizes of the clusters.
        squares: Sum of the squared influences.
        cubes: Sum of the cubed influences.
    """
    even = rows * rows / sizes  # the effective number of clusters
    error = math.sqrt((clusters - 1) / clusters * max(0.0, squares)) / rows
    skew = cubes / squares / math.sqrt(squares) if squares > 0 else 0.0
    skew = skew if math.isfinite(skew) else 0.0
    skew = max(-1.0, min(1.0, skew)) * min(_MOST_UNEVEN, clusters / even)  # rounding may exceed what is possible
    return Mean(value, error, skew, max(1.0, even - 1), max(1.0, math.sqrt(clusters * even)), low, high)


def mean_of_clusters(sums: Floats, sizes: Floats, *, low: float = -math.inf, high: float = math.inf) -> Mean | None:
    """Return the mean over the rows of clusters; ``None`` where they are too few to tell its spread.

    Args:
        sums: Sum of the values of each cluster.
    """
    n, clusters = float(sizes.sum()), len(sums)
    means = sums / sizes
    squares = cubes = 0.0
    value = float(sums.sum()) / n
    if float(np.ptp(means)) > 0:
        influences = (sums - value * sizes) * (n / (n - sizes))
        squares, cubes = float(influences @ influences), float((influences * influences) @ influences)
    elif clusters:
        value = float(means[0])
    if squares <= 0 and (clusters < 1 or not (math.isfinite(low) and math.isfinite(high))):
        return None
    return mean_of_influences(
        value, n, clusters, sizes=float(sizes @ sizes), squares=squares, cubes=cubes, low=low, high=high
    )
