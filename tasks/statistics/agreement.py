"""Agreement of a judge with people, of people with each other, and the threshold that fits their labels best."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from leadline.tasks.statistics.statistics import Z, effective_number, wilson

if TYPE_CHECKING:
    from leadline.tasks.statistics.bounded_mean import Booleans, Floats, Ints


SAMPLES: Final = 1_000
"""Bootstrap samples of an interval."""
SEED: Final = 20_011


@dataclass(frozen=True, slots=True)
class Share:
    """A share with Wilson's 95 % interval.

    Attributes:
        value: The share in [0, 1]; not a number where nothing was counted.
        n: Number counted, effective where rows have weights.
    """

    value: float
    low: float
    high: float
    n: float


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement of a judge's passes and fails with labels.

    Attributes:
        recall_pass: Share of the good answers that the judge passes.
        recall_fail: Share of the bad answers that it fails: what it catches.
        precision_pass: Share of good answers among those that it passes.
        precision_fail: Share of bad answers among those that it fails.
        kappa: Cohen's κ: agreement beyond that of two who guess with the same shares; not a number where either side
            has one value only.
        kappa_low: Lower end of its 95 % interval.
        kappa_high: Upper end of its 95 % interval.
        ac1: Gwet's AC1, which keeps its sense where nearly all rows pass.
        alpha: Krippendorff's alpha for nominal values.
    """

    n: int
    accuracy: Share
    recall_pass: Share
    recall_fail: Share
    precision_pass: Share
    precision_fail: Share
    kappa: float
    kappa_low: float
    kappa_high: float
    ac1: float
    alpha: float


def agreement(labels: Floats, judge: Floats, weights: Floats | None = None, clusters: Ints | None = None) -> Agreement:
    """Return the agreement of two raters who pass or fail rows.

    κ's standard error is that of Fleiss, Cohen and Everitt (Psychological Bulletin 72, 1969); AC1 is Gwet's (British J.
    of Mathematical and Statistical Psychology 61, 2008).

    Args:
        labels: 1 for good, 0 for bad, for each row.
        judge: 1 where the judge passes the row, 0 where it fails it.
        weights: How many rows each labelled row stands for; all alike when left out.
        clusters: The original of each row, whose copies tell little more; each row is its own when left out.
    """
    n = len(labels)
    weight = np.ones(n) if weights is None else np.asarray(weights, dtype=float)
    effective = float(weight.sum() ** 2 / (weight**2).sum())
    if clusters is not None:
        effective *= effective_number((labels == judge).astype(float), clusters) / n
    cell = np.array([[weight[(labels == i) & (judge == j)].sum() for j in (0, 1)] for i in (0, 1)]) / weight.sum()
    agreed, people, judged = float(np.trace(cell)), cell.sum(axis=1), cell.sum(axis=0)
    chance = float((people * judged).sum())
    kappa = error = math.nan
    if chance < 1:
        kappa = (agreed - chance) / (1 - chance)
        error = _kappa_error(cell, kappa, chance) / math.sqrt(effective)
    half = (people + judged) / 2
    by_chance = 2 * float(half[0] * half[1])
    ones = float(half[1]) * 2 * effective
    disagreed = 2 * ones * (2 * effective - ones) / (2 * effective * (2 * effective - 1))

    def share(hits: float, of: float) -> Share:
        counted = float(of) * effective
        value = float(hits / of) if of > 0 else math.nan
        return Share(value, *wilson(value if of > 0 else 0.5, counted), counted)

    return Agreement(
        n=n,
        accuracy=share(agreed, 1.0),
        recall_pass=share(cell[1, 1], people[1]),
        recall_fail=share(cell[0, 0], people[0]),
        precision_pass=share(cell[1, 1], judged[1]),
        precision_fail=share(cell[0, 0], judged[0]),
        kappa=kappa,
        kappa_low=max(-1.0, kappa - Z * error),
        kappa_high=min(1.0, kappa + Z * error),
        ac1=(agreed - by_chance) / (1 - by_chance),
        alpha=1 - (1 - agreed) / disagreed if disagreed > 0 else math.nan,
    )


def _kappa_error(cell: Floats, kappa: float, chance: float) -> float:
    """Return κ's standard error times the square root of the number of rows."""
    people, judged = cell.sum(axis=1), cell.sum(axis=0)
    same = sum(float(cell[i, i]) * (1 - float(people[i] + judged[i]) * (1 - kappa)) ** 2 for i in (0, 1))
    apart = sum(float(cell[i, 1 - i]) * float(judged[i] + people[1 - i]) ** 2 for i in (0, 1))
    variance = same + (1 - kappa) ** 2 * apart - (kappa - chance * (1 - kappa)) ** 2
    return math.sqrt(max(0.0, variance)) / (1 - chance)


def weighted_kappa(ones: Floats, others: Floats) -> float:
    """Return Cohen's κ with quadratic weights for scales: 1 - mean squared difference / that by chance.

    Args:
        ones: One rater's values.
        others: The other's values of the same rows.
    """
    by_chance = ones.var() + others.var() + (ones.mean() - others.mean()) ** 2
    return float(1 - ((ones - others) ** 2).mean() / by_chance) if by_chance > 0 else math.nan


def krippendorff_alpha(values: Floats, level: Literal["nominal", "interval"] = "nominal") -> float:
    """Return Krippendorff's alpha of any number of raters, 1 - observed / expected disagreement.

    Args:
        values: A row for each rater, a column for each unit; not a number where a rater said nothing.
        level: Whether values are names or numbers.

    Returns:
        Alpha, or not a number where all values are equal or nobody rated a unit twice.
    """
    pairable = (~np.isnan(values)).sum(axis=0) >= 2
    values = values[:, pairable]
    rated = ~np.isnan(values)
    if not rated.any():
        return math.nan

    def disagreement(units: Floats) -> Floats:
        """Return the sum over all ordered pairs of each unit."""
        given = (~np.isnan(units)).sum(axis=0)
        if level == "interval":
            return np.asarray(2 * (given * np.nansum(units**2, axis=0) - np.nansum(units, axis=0) ** 2), float)
        names = np.unique(units[~np.isnan(units)])
        return np.asarray(given**2 - sum((units == name).sum(axis=0) ** 2 for name in names), float)

    observed = float((disagreement(values) / (rated.sum(axis=0) - 1)).sum())
    every = values[rated]
    expected = float(disagreement(every[:, np.newaxis])[0]) / (len(every) - 1)
    return 1 - observed / expected if expected > 0 else math.nan


def spearman(ones: Floats, others: Floats) -> float:
    """Return Spearman's rank correlation; not a number where either side is constant.

    Args:
        ones: One rater's values.
        others: The other's values of the same rows.
    """
    if len(ones) < 2 or ones.min() == ones.max() or others.min() == others.max():
        return math.nan
    return float(np.corrcoef(_ranks(ones), _ranks(others))[0, 1])


def _ranks(values: Floats) -> Floats:
    """Return the place of each value from 1, equal ones sharing the mean of theirs."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[place], float)


def bootstrap(statistic: Callable[[Ints], float], groups: Ints, *, samples: int = SAMPLES) -> tuple[float, float]:
    """Return the 95 % percentile interval of a statistic over samples of whole groups.

    Args:
        statistic: Takes row numbers, with repeats.
        groups: Group of each row, from 0: an original with its copies.
        samples: Number of samples; those whose statistic is not a number do not count.
    """
    order = np.argsort(groups, kind="stable")
    rows_of = np.split(order, np.cumsum(np.bincount(groups))[:-1])
    draw = np.random.default_rng(SEED)
    values = np.array(
        [
            statistic(np.concatenate([rows_of[group] for group in draw.integers(0, len(rows_of), len(rows_of))]))
            for _ in range(samples)
        ]
    )
    values = values[~np.isnan(values)]
    return (math.nan, math.nan) if not len(values) else tuple(map(float, np.quantile(values, [0.025, 0.975])))  # type: ignore[return-value]


LEAST_OF_CLASS: Final = 20
THRESHOLD_SEED: Final = 5_011


@dataclass(frozen=True, slots=True)
class ThresholdAdvice:
    """The threshold that labels advise.

    Attributes:
        threshold: The value with the greatest F1 of failing answers.
        low: Lower end of its 95 % interval over samples of the labels.
        f1: F1 of failing answers that it has on rows it was not chosen on (out of bag).
        f1_low: Lower end of the 95 % interval of that.
        present_f1: F1 of failing answers at the present threshold.
        keep: Whether the present threshold does as well: its F1 is not below the interval.
    """

    threshold: float
    low: float
    high: float
    f1: float
    f1_low: float
    f1_high: float
    present: float
    present_f1: float
    keep: bool


def advise_threshold(
    labels: Floats, scores: Floats, groups: Ints, present: float, *, higher_is_better: bool
) -> ThresholdAdvice | None:
    """Return the threshold that separates good from bad answers best, with what it is worth on other rows.

    Samples are drawn by groups; each chooses its threshold, which is measured on the rows that it left out.

    Args:
        labels: 1 for good and 0 for bad.
        scores: The metric's values of the same rows.
        groups: Group of each row: an original with its copies.

    Returns:
        The advice, or ``None`` with under 20 labels of either class.
    """
    good = labels > 0.5
    if min(good.sum(), (~good).sum()) < LEAST_OF_CLASS:
        return None
    values, limit = (scores, present) if higher_is_better else (-scores, -present)
    _, group = np.unique(groups, return_inverse=True)
    count = int(group.max()) + 1
    draw = np.random.default_rng(THRESHOLD_SEED)
    chosen, worth = [], []
    for _ in range(SAMPLES):
        times = np.bincount(draw.integers(0, count, count), minlength=count)[group]
        inside, outside = np.repeat(np.arange(len(group)), times), np.flatnonzero(times == 0)
        if good[inside].all() or not good[inside].any() or not len(outside):
            continue
        threshold = _best(good[inside], values[inside])
        chosen.append(threshold)
        worth.append(_f1(good[outside], values[outside], threshold))
    best = _best(good, values)
    low, high = np.quantile(chosen, [0.025, 0.975])
    f1_low, f1_high = np.quantile(worth, [0.025, 0.975])
    present_f1 = _f1(good, values, limit)
    sign = 1.0 if higher_is_better else -1.0
    ends = sorted((sign * float(low), sign * float(high)))
    return ThresholdAdvice(
        threshold=sign * best,
        low=ends[0],
        high=ends[1],
        f1=float(np.mean(worth)),
        f1_low=float(f1_low),
        f1_high=float(f1_high),
        present=present,
        present_f1=present_f1,
        keep=present_f1 >= f1_low,
    )


def _best(good: Booleans, values: Floats) -> float:
    """Return the value from which answers pass at which F1 of failing answers is greatest."""
    limits, place = np.unique(values, return_inverse=True)
    bad_at = np.bincount(place, ~good, len(limits))
    all_at = np.bincount(place, minlength=len(limits))
    caught = np.concatenate([[0.0], np.cumsum(bad_at)[:-1]])  # failing below each limit
    failed = np.concatenate([[0.0], np.cumsum(all_at)[:-1]])
    score = 2 * caught / np.maximum(1, failed + bad_at.sum())
    return float(limits[int(np.argmax(score))])


def _f1(good: Booleans, values: Floats, threshold: float) -> float:
    """Return F1 of failing answers; 1 where nothing fails and nothing is failed."""
    failed = values < threshold
    both = int(failed.sum() + (~good).sum())
    return 2 * int((failed & ~good).sum()) / both if both else 1.0
