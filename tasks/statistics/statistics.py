"""Intervals of means and shares, comparisons and verdicts: the formulas behind every number of an aggregate.

All intervals are two-sided with confidence 0.95. Means have those of :mod:`leadline.tasks.statistics.bounded_mean`,
shares of independent rows the exact one. ``docs/mechanisms/statistics.md`` explains the choices to a reader of reports.

References:
    * Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the case of the binomial",
      Biometrika 26 (1934).
    * MacKinnon, Nielsen and Webb, "Cluster-robust inference: a guide to empirical practice", J. of Econometrics 232
      (2023).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np
import scipy

from leadline.tasks.statistics.bounded_mean import CONFIDENCE, TAIL, Mean, intervals, mean_of_influences

if TYPE_CHECKING:
    from leadline.tasks.statistics.bounded_mean import Floats, Ints


ENOUGH_COVERAGE: Final = 0.95
"""Share of rows scored from which a verdict stands although what is missing cannot be bounded."""

ENOUGH_SEEN: Final = 72
"""Independent rows of which at least one has what one row in twenty has, with 97.5 %: 1 - 0.95^72."""

Method: TypeAlias = Literal[
    "exact", "bounded", "t", "trusting", "score", "bootstrap", "ranks", "posterior", "jackknife", "always valid"
]
"""How an interval was found: of a share; of a mean in a range with two ends; of a mean in an open range; of one that
fewer than 72 rows tell, which trusts that no outlier was missed, so that stating a range would help; of a difference of
two shares; by resampling; of a percentile, by order statistics; of averages over labels, by a posterior; by leaving out
one cluster at a time; by e-processes, whenever judging stopped."""
TRUSTING: Final = "trusting"
FEW_SEEN: Final = f"fewer than {ENOUGH_SEEN} independent rows of a metric without a range"
"""Says why such an interval decides nothing on its open side."""
Verdict: TypeAlias = Literal["pass", "fail", "inconclusive"]


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95 % confidence interval and the method that gave it."""

    low: float
    high: float
    method: Method

    def surely(self, low: float, high: float) -> Interval:
        """Return the interval that decides: one that trusts the values seen has no end where the range has none."""
        if self.method != TRUSTING:
            return self
        ends = low if math.isinf(low) else self.low, high if math.isinf(high) else self.high
        return Interval(*ends, self.method)


@dataclass(frozen=True, slots=True)
class Clusters:
    """The effect of copies of a case on a mean. A cluster is an original with its copies.

    The influence of a cluster is the sum of its deviations from the mean, divided by the share of the rows that are not
    in it.

    Attributes:
        joined: Number of rows less number of clusters; 0 when all rows are independent.
        sizes: Sum over the clusters of its squared size less its size.
        covariance: Sum over the clusters of its squared influence less those that its rows would have as clusters.
        coskewness: Sum over the clusters of its cubed influence less those that its rows would have as clusters.
        within: Sum of squared deviations of the rows from their cluster's mean.
    """

    joined: float
    sizes: float
    covariance: float
    coskewness: float
    within: float


@dataclass(frozen=True, slots=True)
class Sample:
    """The scored rows of one model on one metric, in sums.

    Attributes:
        n: Number of rows, at least 1.
        mean: Their mean, may be infinite.
        squares: Sum of squared deviations from the mean; not used when the mean is infinite.
        cubes: Sum of cubed deviations from the mean; not used when the mean is infinite.
        low: Least value of the metric's range.
        high: Greatest value of the metric's range.
        share: Whether rows are 0 or 1.
        clusters: Dependence between rows; ``None`` when all are independent.
    """

    n: int
    mean: float
    squares: float
    cubes: float
    constant: bool
    low: float
    high: float
    share: bool = False
    clusters: Clusters | None = None

    @property
    def std(self) -> float | None:
        """The sample's standard deviation (divisor n - 1); ``None`` for one row or an infinite mean."""
        if self.n < 2 or not math.isfinite(self.mean):
            return None
        return 0.0 if self.constant else math.sqrt(max(self.squares, 0.0) / (self.n - 1))

    @property
    def independent(self) -> int:
        """Number of clusters, or of rows when every row is on its own."""
        return self.n if self.clusters is None else max(1, round(self.n - self.clusters.joined))

    @property
    def design_effect(self) -> float:
        """By how much copies of the same case inflate the variance of the mean (Kish), at least 1.

        It is never below 1: copies cannot be trusted to add precision. Where the values do not vary, or there is one
        cluster only, each cluster counts as one observation: n / G.
        """
        groups = self.independent
        if self.clusters is None or self.n == groups:
            return 1.0
        if groups < 2 or self.constant or self.squares <= 0 or not math.isfinite(self.mean):
            return self.n / groups
        return design_effect(
            self.n, self.squares, self._alike(), sizes=self.n + self.clusters.sizes, error=self._over_clusters().error
        )

    @property
    def effective(self) -> float:
        """The number of independent rows that would give a mean of this precision."""
        return self.n / self.design_effect

    def estimate(self) -> Mean:
        """Return the mean with what its interval depends on; there must be two clusters and a finite mean."""
        mean = self._over_clusters()
        if self.constant or self.squares <= 0:
            return mean
        effect = 1 + self._alike() * (self.clusters.sizes / self.n if self.clusters else 0.0)
        error = max(mean.error, math.sqrt(self.squares / (self.n - effect) * effect / self.n))
        return Mean(mean.value, error, mean.skew, mean.df, mean.draws, mean.low, mean.high)

    def _alike(self) -> float:
        if self.clusters is None or self.independent == self.n:
            return 0.0
        return alike(
            self.n,
            self.squares,
            self.clusters.within,
            sizes=self.n + self.clusters.sizes,
            clusters=self.independent,
            share=self.share,
        )

    def _over_clusters(self) -> Mean:
        clusters = self.clusters or Clusters(0, 0, 0, 0, 0)
        alone = self.n / (self.n - 1)  # the influence of a row of its own, per deviation
        return mean_of_influences(
            self.mean,
            self.n,
            self.independent,
            sizes=self.n + clusters.sizes,
            squares=0.0 if self.constant else alone**2 * self.squares + clusters.covariance,
            cubes=0.0 if self.constant else alone**3 * self.cubes + clusters.coskewness,
            low=self.low,
            high=self.high,
        )


def clopper_pearson(share: float, n: float) -> tuple[float, float]:
    """Return Clopper and Pearson's exact interval of a share: either end is wrong at most 2.5 % of the time.

    Args:
        share: Observed share in [0, 1].
        n: Number of observations, > 0; may be fractional (an effective number).
    """
    hits, misses = share * n, (1 - share) * n
    low = 0.0 if share <= 0 else float(scipy.special.betaincinv(hits, misses + 1, TAIL))
    high = 1.0 if share >= 1 else float(scipy.special.betaincinv(hits + 1, misses, 1 - TAIL))
    return low, high


def binomial_test(hits: int, n: int, share: float) -> float:
    """Return the chance of at least so many hits among ``n`` if each is one with the chance ``share``.

    Args:
        n: All; without any the chance is 1.
        share: The chance of a hit.
    """
    return float(scipy.special.bdtrc(hits - 1, n, share)) if hits else 1.0


def fisher_exact(hits: int, drawn: int, marked: int, n: int) -> float:
    """Return the chance of at least so many marked ones among those drawn: Fisher's exact test, one-sided."""
    ways, more = math.comb(marked, hits) * math.comb(n - marked, drawn - hits), 0
    for found in range(hits, min(drawn, marked) + 1):
        more += ways
        ways = ways * (marked - found) * (drawn - found) // ((found + 1) * (n - marked - drawn + found + 1))
    return more / math.comb(n, drawn)


@dataclass(frozen=True, slots=True)
class Differences:
    """Differences between two models on the cases that both answered, in sums over clusters (see :class:`Clusters`).

    Attributes:
        sizes: Sum over clusters of its squared size.
        squares: Sum over clusters of its squared influence; ``None`` where there is one cluster only.
        cubes: Sum over clusters of its cubed influence; ``None`` where there is one cluster only.
    """

    n: int
    clusters: int
    mean: float
    sizes: float
    squares: float | None
    cubes: float | None
    constant: bool


def differ(pairs: Differences, *, comparisons: int = 1) -> bool:
    """Return whether two models differ by more than chance at 95 %, over ``comparisons`` such questions together.

    A paired test of "no difference": the interval of the mean difference excludes 0. If both are equally good, which
    value is whose is a matter of chance, and differences on G clusters are all of one sign with the chance 2^(1 - G);
    that must be small too. What was not seen does not count here, since chance treats it alike. The level is 0.05 /
    comparisons (Bonferroni).
    """
    level = (1 - CONFIDENCE) / comparisons
    if pairs.clusters < 2 or 2.0 ** (1 - pairs.clusters) > level:
        return False
    if pairs.constant:
        return pairs.mean != 0
    mean = mean_of_influences(
        pairs.mean, pairs.n, pairs.clusters, sizes=pairs.sizes, squares=pairs.squares or 0.0, cubes=pairs.cubes or 0.0
    )
    low, high = mean.interval(confidence=1 - level)
    return low > 0 or high < 0


def mean_interval(sample: Sample) -> Interval | None:
    """Return the 95 % interval of a mean, or ``None`` where the data do not determine one.

    Clopper and Pearson's for shares of independent rows, :class:`Mean`'s otherwise. One row of a metric that is no
    share, one cluster, and infinite values have no interval. It takes about a tenth of a millisecond.
    """
    return mean_intervals([sample])[0]


def mean_intervals(samples: Sequence[Sample]) -> list[Interval | None]:
    """Return the intervals of :func:`mean_interval` of many samples, which takes a tenth of the time for each."""
    found: list[Interval | None] = [None] * len(samples)
    places, means = [], []
    for place, sample in enumerate(samples):
        if not math.isfinite(sample.mean):
            continue
        if sample.share and sample.independent in (1, sample.n):
            share = clopper_pearson(min(1.0, max(0.0, sample.mean)), sample.independent)
            found[place] = Interval(*share, "exact")
        elif sample.independent > 1:
            places.append(place)
            means.append(sample.estimate())
    for place, mean, ends in zip(places, means, intervals(means), strict=True):
        bounded = math.isfinite(mean.low) and math.isfinite(mean.high)
        found[place] = Interval(*ends, "bounded" if bounded else "t" if mean.draws >= ENOUGH_SEEN else TRUSTING)
    return found


def bounds(
    value: float | None, scored: int, unscored: int, worst: float, best: float
) -> tuple[float | None, float | None]:
    """Return the mean if every unscored row had the worst value of the range, and if it had the best.

    A bound is ``None`` where rows are missing and that end of the range is infinite, or nothing was to be scored.
    """
    if unscored == 0:
        return value, value

    def if_all(end: float) -> float | None:
        if not math.isfinite(end):
            return None
        return ((value or 0.0) * scored + end * unscored) / (scored + unscored)

    return if_all(worst), if_all(best)


@dataclass(frozen=True, slots=True)
class Judged:
    """The numbers that decide a verdict.

    Attributes:
        value: The mean or dataset-level value; ``None`` when nothing was scored.
        interval: Its interval, if there is one.
        if_worst: The value if the unscored rows were all worst, ``None`` if unbounded.
        if_best: The value if they were all best, ``None`` if unbounded.
        coverage: Scored rows / (scored + unscored rows).
    """

    value: float | None
    interval: Interval | None
    if_worst: float | None
    if_best: float | None
    coverage: float


def verdict(judged: Judged, threshold: float | None, *, higher_is_better: bool) -> Verdict | None:
    """Return the side of a threshold on which a model stands; ``None`` without a threshold.

    ``pass`` needs all of the interval on the good side (the threshold itself is good) and the value still good if all
    unscored rows were worst; ``fail`` needs all of the interval on the bad side and the value still bad if all unscored
    rows were best. Everything else is ``inconclusive``. An infinite mean has no interval and needs none: no number of
    further rows would make it finite.
    """
    if threshold is None:
        return None
    if judged.value is None:
        return "inconclusive"

    def good(value: float) -> bool:
        return value >= threshold if higher_is_better else value <= threshold

    def still(bound: float | None, wanted: bool) -> bool:
        return judged.coverage >= ENOUGH_COVERAGE if bound is None else good(bound) is wanted

    if math.isinf(judged.value):
        ends = [judged.value]
    elif judged.interval is None:
        return "inconclusive"
    else:
        ends = [judged.interval.low, judged.interval.high]
    if all(good(end) for end in ends) and still(judged.if_worst, True):
        return "pass"
    if not any(good(end) for end in ends) and still(judged.if_best, False):
        return "fail"
    return "inconclusive"


Z: Final = 1.959963984540054
"""The 97.5 % point of the normal distribution."""


def wilson(share: float, n: float, z: float = Z) -> tuple[float, float]:
    """Return Wilson's score interval of a share.

    Args:
        share: Observed share in [0, 1].
        n: Number of observations, may be an effective one; nothing is known without any.
        z: Normal quantile, 1.96 for 95 %.
    """
    if n <= 0:
        return 0.0, 1.0
    scale = 1 + z * z / n
    centre = (share + z * z / (2 * n)) / scale
    reach = z / scale * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return 0.0 if share <= 0 else max(0.0, centre - reach), 1.0 if share >= 1 else min(1.0, centre + reach)


def difference(one: float, ones: tuple[float, float], other: float, others: tuple[float, float]) -> tuple[float, float]:
    """Return the interval of ``one - other`` from the intervals of both (MOVER; Zou and Donner, Stat. Med. 27, 2008).

    Args:
        other: An independent estimate.
    """
    value = one - other
    return (value - math.hypot(one - ones[0], others[1] - other), value + math.hypot(ones[1] - one, other - others[0]))


def alike(n: float, squares: float, within: float, *, sizes: float, clusters: float, share: bool) -> float:
    """Return how alike rows of one cluster are, 0 to 1: their correlation, by how far they differ from each other.

    Unlike the spread of the clusters' means it does not hang on one cluster that outweighs the others (analysis of
    variance; Donner, Int. Statistical Review 54, 1986). A few ones among zeros say little of it: of shares, half a
    row is added whose copies are all alike.

    Args:
        n: Number of rows, more than clusters.
        squares: Sum of squared deviations from the mean, > 0.
        within: Sum of squared deviations from the cluster's mean.
        sizes: Sum of the squared sizes of the clusters.
        clusters: Number of clusters, at least 2.
        share: Whether rows are 0 or 1.
    """
    part = within / (n - clusters) / squares
    scale = 1 - part * (sizes / n - 1)
    found = min(1.0, max(0.0, (1 - part * (n - 1)) / scale)) if scale > 0 else 0.0
    return (squares * found + 0.5) / (squares + 0.5) if share else found


def design_effect(n: float, squares: float, correlation: float, *, sizes: float, error: float) -> float:
    """Return by how much copies inflate the variance of a mean, 1 to n: the larger of two that may fall short.

    One is Kish's, from how alike copies are and how unequal the clusters; the other is that at which the mean would
    have the jackknife's standard error.

    Args:
        n: Number of rows, more than 1.
        squares: Sum of squared deviations from the mean, > 0.
        correlation: How alike rows of one cluster are (:func:`alike`).
        sizes: Sum of the squared sizes of the clusters.
        error: The jackknife's standard error of the mean.
    """
    spread = error**2 * n / squares
    return max(1.0, 1 + correlation * (sizes / n - 1), n * spread / (1 + spread))


def effective_number(values: Floats, clusters: Ints) -> float:
    """Return how many independent values say as much of their mean as these.

    Args:
        values: The values, at least one.
    """
    group = np.unique(clusters, return_inverse=True)[1]
    sizes, deviations, n = np.bincount(group).astype(float), values - values.mean(), float(len(values))
    spread, groups = float(deviations @ deviations), len(sizes)
    if groups in (1, len(values)) or np.ptp(values) <= 0:
        return float(groups)
    sums, squared = np.bincount(group, deviations), float(sizes @ sizes)
    within, share = max(0.0, spread - float((sums**2 / sizes).sum())), bool(np.isin(values, (0, 1)).all())
    influences = sums / (n - sizes)
    error = math.sqrt((groups - 1) / groups * float(influences @ influences))
    correlation = alike(n, spread, within, sizes=squared, clusters=groups, share=share)
    return n / design_effect(n, spread, correlation, sizes=squared, error=error)


def holm(p_values: list[float]) -> list[float]:
    """Return Holm's adjusted p-values, in the order given (Holm, Scand. J. Statist. 6, 1979)."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted, greatest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(order):
        greatest = max(greatest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = greatest
    return adjusted


def benjamini_hochberg(p_values: Floats) -> Floats:
    """Return q-values: the least rate of false discoveries at which each p-value is a discovery.

    Benjamini and Hochberg, J. R. Statist. Soc. B 57 (1995).
    """
    n = len(p_values)
    if not n:
        return p_values
    order = np.argsort(p_values)
    scaled = p_values[order] * n / np.arange(1, n + 1)
    q_values = np.empty(n)
    q_values[order] = np.minimum(1.0, np.minimum.accumulate(scaled[::-1])[::-1])
    return q_values
