"""Means, intervals and verdicts: the formulas behind every number of an aggregate.

All intervals are two-sided with confidence 0.95. ``docs/statistics.md`` explains the choices to a reader of reports.

References:
    * Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22 (1927).
    * Student, "The probable error of a mean", Biometrika 6 (1908).
    * Hanley and Lippman-Hand, "If nothing goes wrong, is everything all right?", JAMA 249 (1983).
    * Cameron and Miller, "A practitioner's guide to cluster-robust inference", J. Human Resources 50 (2015).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final, Literal, TypeAlias

CONFIDENCE: Final = 0.95
Z: Final = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
ENOUGH_COVERAGE: Final = 0.95
"""Share of rows scored from which a verdict stands although what is missing cannot be bounded."""

Method: TypeAlias = Literal["wilson", "t", "rule_of_three", "bootstrap", "score"]
Verdict: TypeAlias = Literal["pass", "fail", "inconclusive"]


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95 % confidence interval and the method that gave it."""

    low: float
    high: float
    method: Method

    def excludes(self, value: float) -> bool:
        """Return whether a value lies outside."""
        return value < self.low or value > self.high


@dataclass(frozen=True, slots=True)
class Clusters:
    """The effect of copies of a case on the variance of a mean. A cluster is an original with its copies.

    Attributes:
        joined: Number of rows less number of clusters; 0 when all rows are independent.
        covariance: Sum over the clusters of (sum of deviations from the mean)² less the sum of their squares, that is
            twice the sum of the products of deviations within clusters.
    """

    joined: float
    covariance: float


@dataclass(frozen=True, slots=True)
class Sample:
    """The scored rows of one model on one metric, in sums.

    Attributes:
        n: Number of rows, at least 1.
        mean: Their mean, may be infinite.
        squares: Sum of squared deviations from the mean; not used when the mean is infinite.
        constant: Whether all values are equal.
        low: Least value of the metric's range.
        high: Greatest value of the metric's range.
        share: Whether rows are 0 or 1.
        clusters: Dependence between rows; ``None`` when all are independent.
    """

    n: int
    mean: float
    squares: float
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

        The numerator is the cluster-robust variance with the factor G / (G - 1) of Cameron and Miller, the denominator
        the variance for independent rows. It is not taken below 1: copies cannot be trusted to add precision. Where
        the values do not vary, or there is one cluster only, each cluster counts as one observation: n / G.
        """
        if self.clusters is None or self.n == self.independent:
            return 1.0
        groups = self.independent
        if groups < 2 or self.constant or self.squares <= 0 or not math.isfinite(self.mean):
            return self.n / groups
        robust = groups / (groups - 1) * (self.squares + self.clusters.covariance) / self.n**2
        plain = self.squares / (self.n - 1) / self.n
        return max(1.0, robust / plain)

    @property
    def effective(self) -> float:
        """The number of independent rows that would give a mean of this precision."""
        return self.n / self.design_effect


def wilson(share: float, n: float) -> tuple[float, float]:
    """Return Wilson's score interval of a share (Wilson 1927).

    Args:
        share: Observed share in [0, 1].
        n: Number of observations, > 0; may be fractional (an effective number).
    """
    z2 = Z * Z
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = Z / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    low = 0.0 if share <= 0 else max(0.0, centre - half)
    high = 1.0 if share >= 1 else min(1.0, centre + half)
    return low, high


def student_t(mean: float, std: float, n: float, df: int, *, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the interval ``mean ± t(df) · std / √n`` (Student 1908).

    Args:
        mean: Mean of the sample.
        std: Standard deviation with divisor n - 1.
        n: (Effective) number of observations.
        df: Degrees of freedom, >= 1.
        confidence: Two-sided confidence.
    """
    from scipy.special import stdtrit

    half = float(stdtrit(df, 0.5 + confidence / 2)) * std / math.sqrt(n)
    return mean - half, mean + half


def rule_of_three(
    value: float, n: float, low: float, high: float, *, confidence: float = CONFIDENCE
) -> tuple[float, float]:
    """Return the interval of a bounded mean when all ``n`` observations are equal.

    No spread was seen, so Student's interval would have width 0, which claims too much. If a share ``q`` of the
    population differed from ``value``, ``n`` equal observations would have probability ``(1 - q)^n``; with 95 %
    confidence ``q <= 1 - 0.05^(1/n)`` (about 3/n: the rule of three). The mean then lies between what it would be if
    that share were all at the lowest, and all at the highest value of the range.

    Args:
        value: The value of all observations.
        n: Number of observations.
        low: Least value of the range.
        high: Greatest value of the range.
        confidence: Two-sided confidence.
    """
    differing = 1 - (1 - confidence) ** (1 / n)
    return value - differing * (value - low), value + differing * (high - value)


@dataclass(frozen=True, slots=True)
class Differences:
    """Differences between two models on the cases that both answered, in sums over clusters (see :class:`Clusters`).

    Attributes:
        n: Number of cases.
        clusters: Number of clusters.
        total: Sum of the differences.
        total_total: Sum over clusters of the squared sum of a cluster's differences.
        n_total: Sum over clusters of its size times the sum of its differences.
        n_n: Sum over clusters of its squared size.
        constant: Whether all differences are equal.
        width: Width of the metric's range, may be infinite.
    """

    n: int
    clusters: int
    total: float
    total_total: float
    n_total: float
    n_n: float
    constant: bool
    width: float


def differ(pairs: Differences, *, comparisons: int = 1) -> bool:
    """Return whether two models differ by more than chance at 95 %, over ``comparisons`` such questions together.

    A paired comparison: the interval of the mean difference, with cluster-robust variance and Student's t (Cameron and
    Miller), excludes 0. The confidence is raised to 1 - 0.05 / comparisons (Bonferroni). Differences that are all equal
    are bounded by the rule of three.

    Args:
        pairs: The differences, in sums.
        comparisons: Number of such questions asked together.
    """
    if pairs.clusters < 2:
        return False
    mean = pairs.total / pairs.n
    confidence = 1 - (1 - CONFIDENCE) / comparisons
    if pairs.constant:
        if mean == 0 or not math.isfinite(pairs.width):
            return mean != 0
        low, high = rule_of_three(mean, pairs.clusters, -pairs.width, pairs.width, confidence=confidence)
    else:
        squares = pairs.total_total - 2 * mean * pairs.n_total + mean * mean * pairs.n_n
        variance = pairs.clusters / (pairs.clusters - 1) * max(squares, 0.0) / pairs.n**2
        low, high = student_t(mean, math.sqrt(variance), 1, pairs.clusters - 1, confidence=confidence)
    return low > 0 or high < 0


def mean_interval(sample: Sample) -> Interval | None:
    """Return the 95 % interval of a mean, or ``None`` where the data do not determine one.

    Wilson for shares; for a bounded metric with no spread the rule of three; Student's t otherwise, clipped to the
    metric's range. One row of a metric that is no share, one cluster, and infinite values have no interval.
    """
    if not math.isfinite(sample.mean):
        return None
    if sample.share:
        return Interval(*wilson(min(1.0, max(0.0, sample.mean)), sample.effective), "wilson")
    if sample.independent < 2 or sample.std is None:
        return None
    if sample.constant and math.isfinite(sample.low) and math.isfinite(sample.high):
        low, high = rule_of_three(sample.mean, sample.effective, sample.low, sample.high)
        return Interval(low, high, "rule_of_three")
    low, high = student_t(sample.mean, sample.std, sample.effective, sample.independent - 1)
    return Interval(max(low, sample.low), min(high, sample.high), "t")


def bounds(
    value: float | None, scored: int, unscored: int, worst: float, best: float
) -> tuple[float | None, float | None]:
    """Return the mean if every unscored row had the worst value of the range, and if it had the best.

    A bound is ``None`` where rows are missing and that end of the range is infinite, or nothing was to be scored.

    Args:
        value: Mean of the scored rows.
        scored: Number of scored rows.
        unscored: Number of unscored rows.
        worst: Worst value of the range.
        best: Best value of the range.
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

    Args:
        judged: The value with its interval, bounds and coverage.
        threshold: The threshold, if there is one.
        higher_is_better: The metric's direction.
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
