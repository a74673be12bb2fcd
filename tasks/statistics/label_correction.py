"""Means as people would have judged them, from few labels and all scores; and how many labels would decide.

What is estimated is the mean of *all such rows*, of which a run's are a random part, as for every other interval of a
run; so the run's rows being few counts too, however many of them have labels.

A judge errs, and more rows do not help: the interval of its mean shrinks around the wrong place. Labels of some rows,
drawn at random, say how it errs.

* Pass or fail: :func:`post_stratified`. The rows that the judge passes and those that it fails are two strata; labels
  give the share of good answers in each (Tenenbein, "A double sampling scheme for estimating from binomial data with
  misclassifications", JASA 65, 1970). It keeps its level where failures are rare, which normal intervals do not.
* Numbers: :func:`prediction_powered`, PPI++ (Angelopoulos, Duchi and Zrnic, "PPI++: efficient prediction-powered
  inference", arXiv 2311.01453, 2023) with one λ, Student's t and clusters.
* Strata of a sample that was drawn unevenly: :func:`stratified` (Fisch et al., "Stratified prediction-powered
  inference", arXiv 2406.04291, 2024); single rows drawn with known chances: :func:`actively_sampled` (Zrnic and Candès,
  "Active statistical inference", arXiv 2403.03208, 2024).
* Labels of another dataset or model: :func:`rogan_gladen`, which assumes that the judge errs alike there (Rogan and
  Gladen 1978; interval of Lang and Reiczigel, Preventive Veterinary Medicine 113, 2014).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np
import scipy

from leadline.tasks.statistics.statistics import Z, wilson

if TYPE_CHECKING:
    from leadline.tasks.statistics.bounded_mean import Floats, Ints


Correction: TypeAlias = Literal["post-stratified", "ppi++", "stratified ppi++", "active", "rogan-gladen"]

LEAST_YOUDEN: Final = 0.1
"""Sensitivity + specificity - 1 that a judge must exceed before borrowed labels can correct it."""
LEAST_OF_STRATUM: Final = 10
"""Labels from which a stratum has a λ of its own."""

_SECONDS_A_LABEL: Final = 6
"""Time that a person takes for one label, roughly."""

_MOST_TIMES: Final = 20
"""Times the labels that there are, beyond which no number is told."""


@dataclass(frozen=True, slots=True)
class Corrected:
    """A mean as people would have judged it.

    Attributes:
        low: Lower end of its 95 % interval.
        high: Upper end of its 95 % interval.
        weight: λ, the share of the judge's scores that is used, in [0, 1]; ``None`` where the method has none.
    """

    value: float
    low: float
    high: float
    method: Correction
    weight: float | None = None

    def words(self, *, share: bool) -> str:
        """Return the value with its interval: ``76.3 % (66.0 % to 82.4 %)``, or numbers where it is no share."""
        value, low, high = (
            f"{100 * end:.1f} %" if share else f"{end:.3f}" for end in (self.value, self.low, self.high)
        )
        return f"{value} ({low} to {high})"


@dataclass(frozen=True, slots=True)
class PassFailLabels:
    """Labels of rows that a judge passed or failed, as counts.

    Attributes:
        passed_good: Labels "good" among the rows that the judge passed.
        passed: All labels among these.
        failed_good: Labels "good" among the rows that the judge failed.
        failed: All labels among these.
        judged_passed: Rows that the judge passed, of all rows.
        judged: All rows that it judged; of copies of a case, the independent rows that they are worth.
    """

    passed_good: float
    passed: float
    failed_good: float
    failed: float
    judged_passed: float
    judged: float


def post_stratified(labels: PassFailLabels) -> Corrected:
    """Return the share of good answers among all rows that were judged.

    It is s · g₁ + (1 - s) · g₀, s the share of rows that the judge passes, g₁ and g₀ the shares of good ones among the
    labelled rows that it passes and fails. Wilson's intervals of the three are joined by the method of variance
    estimates recovery (Zou and Donner 2008). A side without a label may hold anything.

    Args:
        labels: The counts, which may be effective ones.
    """
    share = labels.judged_passed / labels.judged
    good = labels.passed_good / labels.passed if labels.passed else 0.5
    missed = labels.failed_good / labels.failed if labels.failed else 0.5
    good_low, good_high = wilson(good, labels.passed)
    missed_low, missed_high = wilson(missed, labels.failed)
    share_low, share_high = wilson(share, labels.judged)
    value, gain = share * good + (1 - share) * missed, good - missed
    down, up = share - share_low, share_high - share
    if gain < 0:
        down, up = up, down
    below = math.hypot(share * (good - good_low), (1 - share) * (missed - missed_low), abs(gain) * down)
    above = math.hypot(share * (good_high - good), (1 - share) * (missed_high - missed), abs(gain) * up)
    return Corrected(value, max(0.0, value - below), min(1.0, value + above), "post-stratified")


def prediction_powered(
    labels: Floats,
    judge_on_labels: Floats,
    judge_on_rest: Floats,
    groups: Ints | None = None,
    groups_of_rest: Ints | None = None,
) -> Corrected | None:
    """Return the mean label of all rows by PPI++: the labels' mean, moved by what the judge says of the other rows.

    λ is the covariance of labels and judge over the judge's variance, shrunk by n / N, within [0, 1]: a judge that says
    nothing of the labels is left out.

    Args:
        labels: Labels of ``n`` rows, any range.
        judge_on_labels: The judge's scores of these rows.
        judge_on_rest: Its scores of the rows without labels.
        groups: Group of each labelled row (an original with its copies); each row is one when left out.
        groups_of_rest: The same of the rows without labels.

    Returns:
        The estimate with Student's interval over the groups, or ``None`` with fewer than two groups.
    """
    n, rest = len(labels), len(judge_on_rest)
    group = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1]
    count = int(group.max()) + 1 if n else 0
    if count < 2:
        return None
    spread = float(np.var(np.concatenate([judge_on_labels, judge_on_rest]))) if rest else 0.0
    weight = 0.0
    if spread > 0:
        together = float(np.mean((labels - labels.mean()) * (judge_on_labels - judge_on_labels.mean())))
        weight = min(1.0, max(0.0, together / ((1 + n / rest) * spread)))
    errors = labels - weight * judge_on_labels
    value = float(errors.mean()) + (weight * float(judge_on_rest.mean()) if rest else 0.0)
    variance = _variance_of_mean(errors, group) + weight**2 * _variance_of_mean(judge_on_rest, groups_of_rest)
    reach = _student(count - 1) * math.sqrt(variance)
    return Corrected(value, value - reach, value + reach, "ppi++", weight)


@dataclass(frozen=True, slots=True)
class Stratum:
    """The rows of one stratum: those with labels were drawn at random from it.

    Attributes:
        labels: Labels of ``n`` of its rows, at least 2.
        judge_on_all: The judge's scores of all its rows.
    """

    labels: Floats
    judge_on_labels: Floats
    judge_on_all: Floats


def stratified(strata: Sequence[Stratum]) -> Corrected | None:
    """Return the mean label of all rows from strata that were labelled to different shares.

    Each stratum's mean is its labels' mean, corrected by λ times the judge's difference between labelled and all rows;
    the means are weighted by the strata's sizes, their variances add, each with its finite share, and to them that of
    the mean of so many rows (double sampling; Cochran 1977, 12.2). Degrees of freedom are Satterthwaite's.
    Strata of under :data:`LEAST_OF_STRATUM` labels take the λ of all.

    Args:
        strata: The strata, which together are all rows.

    Returns:
        The estimate, or ``None`` where a stratum has fewer than two labels.
    """
    if not strata or any(len(stratum.labels) < 2 for stratum in strata):
        return None
    rows = sum(len(stratum.judge_on_all) for stratum in strata)
    pooled = _pooled_slope(strata)
    value = variance = freedom = used = squares = 0.0
    for stratum in strata:
        n, size = len(stratum.labels), len(stratum.judge_on_all)
        slope = _slope(stratum.labels, stratum.judge_on_labels) if n >= LEAST_OF_STRATUM else pooled
        share = size / rows
        moved = float(stratum.judge_on_labels.mean() - stratum.judge_on_all.mean())
        mean = float(stratum.labels.mean()) - slope * moved
        value += share * mean
        errors = stratum.labels - slope * stratum.judge_on_labels
        part = share**2 * float(errors.var(ddof=1)) / n * max(0.0, 1 - n / size)
        variance += part
        freedom += part**2 / (n - 1)
        used += share * slope
        squares += share * (float(stratum.labels.var(ddof=1)) + mean**2)
    of_rows = max(0.0, squares - value**2) / rows
    variance += of_rows
    freedom += of_rows**2 / max(1, rows - 1)
    degrees = variance**2 / freedom if freedom > 0 else math.inf
    reach = _student(degrees) * math.sqrt(variance)
    return Corrected(value, value - reach, value + reach, "stratified ppi++", used)


def actively_sampled(
    labels: Floats,
    judge_on_labels: Floats,
    chances: Floats,
    judge_on_all: Floats,
    groups: Ints | None = None,
    groups_of_all: Ints | None = None,
) -> Corrected | None:
    """Return the mean label of all rows where each row was drawn for labelling with a chance of its own.

    It is the mean of λ f over all rows and that of y - λ f over the labelled ones, each weighted by 1 / π. Weights are
    scaled to a sum of one (Hájek), so that chances need only be right up to a factor: labels that nobody gave yet do
    not make the rest count for less. λ is shrunk by the share of rows that have labels.

    Args:
        chances: The chance with which each of these was drawn, in (0, 1].
        groups: Group of each labelled row (an original with its copies); each row is one when left out.
        groups_of_all: The same of all rows.

    Returns:
        The estimate with Student's interval over the effective number of groups, or ``None`` with fewer than two.
    """
    n, rows = len(labels), len(judge_on_all)
    group = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1]
    count = int(group.max()) + 1 if n else 0
    if count < 2:
        return None
    weights = 1 / chances / (1 / chances).sum()
    slope = _slope(labels, judge_on_labels, weights) * max(0.0, 1 - n / rows)
    errors = labels - slope * judge_on_labels
    of_labels = float(weights @ errors)
    sums = np.bincount(group, weights * (errors - of_labels))
    variance = float((sums**2).sum()) * count / (count - 1)
    variance += slope**2 * _variance_of_mean(judge_on_all, groups_of_all)
    effective = 1 / float((np.bincount(group, weights) ** 2).sum())
    reach = _student(max(1.0, effective - 1)) * math.sqrt(variance)
    value = of_labels + slope * float(judge_on_all.mean())
    return Corrected(value, value - reach, value + reach, "active", slope)


@dataclass(frozen=True, slots=True)
class ErrorRates:
    """Error rates of a judge on labels that were borrowed from elsewhere.

    Attributes:
        sensitivity: Share of the good answers that it passes.
        specificity: Share of the bad answers that it fails.
    """

    sensitivity: float
    good: float
    specificity: float
    bad: float


def rogan_gladen(passed: float, judged: float, rates: ErrorRates) -> Corrected | None:
    """Return the share of good answers by the error rates that a judge had elsewhere.

    (p + Sp - 1) / (Se + Sp - 1), within [0, 1], with the interval of Lang and Reiczigel.

    Args:
        passed: Share of rows that the judge passes.
        rates: Its error rates on the borrowed labels.

    Returns:
        The estimate, or ``None`` where the judge hardly tells good from bad (:data:`LEAST_YOUDEN`).
    """
    youden = rates.sensitivity + rates.specificity - 1
    if youden <= LEAST_YOUDEN:
        return None
    value = (passed + rates.specificity - 1) / youden
    n, share = judged + Z * Z, (judged * passed + Z * Z / 2) / (judged + Z * Z)
    good, bad = rates.good + 2, rates.bad + 2
    hit, rejected = (rates.good * rates.sensitivity + 1) / good, (rates.bad * rates.specificity + 1) / bad
    span = hit + rejected - 1
    centre = (share + rejected - 1) / span
    of_hits, of_rejected = hit * (1 - hit) / good, rejected * (1 - rejected) / bad
    shift = 2 * Z * Z * (centre * of_hits - (1 - centre) * of_rejected)
    variance = share * (1 - share) / n + (1 - centre) ** 2 * of_rejected + centre**2 * of_hits
    reach = Z * math.sqrt(variance) / abs(span)
    value, low, high = (min(1.0, max(0.0, end)) for end in (value, centre + shift - reach, centre + shift + reach))
    return Corrected(value, low, high, "rogan-gladen")


def _slope(labels: Floats, judge: Floats, weights: Floats | None = None) -> float:
    """Return the slope of labels on the judge's scores, within [0, 1]."""
    spread = np.cov(judge, aweights=weights) if len(judge) > 2 else 0.0
    if spread <= 0:
        return 0.0
    return min(1.0, max(0.0, float(np.cov(labels, judge, aweights=weights)[0, 1] / spread)))


def _variance_of_mean(values: Floats, groups: Ints | None) -> float:
    """Return the variance of a mean of values that hang together in groups; 0 where one group cannot tell."""
    sums = values - values.mean() if len(values) else values
    if groups is not None:
        sums = np.bincount(np.unique(groups, return_inverse=True)[1], sums)
    count = len(sums)
    return float((sums**2).sum()) / len(values) ** 2 * count / (count - 1) if count > 1 else 0.0


def _pooled_slope(strata: Sequence[Stratum]) -> float:
    """Return the slope within strata, all strata together."""
    labels = np.concatenate([stratum.labels - stratum.labels.mean() for stratum in strata])
    judge = np.concatenate([stratum.judge_on_labels - stratum.judge_on_labels.mean() for stratum in strata])
    return _slope(labels, judge)


def _student(degrees: float) -> float:
    """Return the 97.5 % point of Student's t."""
    return Z if math.isinf(degrees) else float(scipy.special.stdtrit(degrees, 0.975))


def more_until(labels: int, is_decided: Callable[[float], bool]) -> int | None:
    """Return about how many labels more decide a question if they go on saying what these say.

    Args:
        is_decided: Says whether so many times the present labels would decide it.

    Returns:
        The number, rounded up to tens, or ``None`` where it is more than :data:`_MOST_TIMES` what there is.
    """
    times = 1.1
    while not is_decided(times):
        times *= 1.1
        if times > _MOST_TIMES:
            return None
    return 10 * math.ceil(labels * (times - 1) / 10)


def more_for_value(labels: int, value: float, end: float, wanted: float) -> int | None:
    """Return about how many labels more would take an interval's end off what is wanted.

    Args:
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
    """Return ``some 10 minutes of a person``."""
    minutes = max(5, 5 * round(labels * _SECONDS_A_LABEL / 300))
    return f"some {f'{minutes} minutes' if minutes < 90 else f'{round(minutes / 60)} hours'} of a person"
