"""The threshold of a metric that fits people's labels best, and whether the present one does as well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats: TypeAlias = npt.NDArray[np.float64]
    Ints: TypeAlias = npt.NDArray[np.int64]

LEAST_OF_CLASS: Final = 20
SAMPLES: Final = 1_000
SEED: Final = 5_011


@dataclass(frozen=True, slots=True)
class ThresholdAdvice:
    """The threshold that labels advise.

    Attributes:
        threshold: The value with the greatest F1 of failing answers.
        low: Lower end of its 95 % interval over samples of the labels.
        high: Upper end of that interval.
        f1: F1 of failing answers that it has on rows it was not chosen on (out of bag).
        f1_low: Lower end of the 95 % interval of that.
        f1_high: Upper end of it.
        present: The present threshold.
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
        present: The present threshold.
        higher_is_better: The metric's direction.

    Returns:
        The advice, or ``None`` with under 20 labels of either class.
    """
    good = labels > 0.5
    if min(good.sum(), (~good).sum()) < LEAST_OF_CLASS:
        return None
    values, limit = (scores, present) if higher_is_better else (-scores, -present)
    _, group = np.unique(groups, return_inverse=True)
    count = int(group.max()) + 1
    draw = np.random.default_rng(SEED)
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


def _best(good: npt.NDArray[np.bool_], values: Floats) -> float:
    """Return the value from which answers pass at which F1 of failing answers is greatest."""
    limits, place = np.unique(values, return_inverse=True)
    bad_at = np.bincount(place, ~good, len(limits))
    all_at = np.bincount(place, minlength=len(limits))
    caught = np.concatenate([[0.0], np.cumsum(bad_at)[:-1]])  # failing below each limit
    failed = np.concatenate([[0.0], np.cumsum(all_at)[:-1]])
    score = 2 * caught / np.maximum(1, failed + bad_at.sum())
    return float(limits[int(np.argmax(score))])


def _f1(good: npt.NDArray[np.bool_], values: Floats, threshold: float) -> float:
    """Return F1 of failing answers; 1 where nothing fails and nothing is failed."""
    failed = values < threshold
    both = int(failed.sum() + (~good).sum())
    return 2 * int((failed & ~good).sum()) / both if both else 1.0
