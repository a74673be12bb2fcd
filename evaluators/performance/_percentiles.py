"""Percentiles of a model's rows, with exact intervals from order statistics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import numpy as np

from leadline.evaluators.core import INF, Metric, RowEvaluator
from leadline.evaluators.data import Json, Reason, RowScore

if TYPE_CHECKING:
    import numpy.typing as npt

LEVELS: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
"""The percentiles, by the end of their metrics' keys."""

TAIL: Final = 0.025
"""Chance that either end of an interval is wrong."""

_ROUNDING: Final = 1e-9
"""Relative error up to which a cumulated weight counts as reached: weights may be thirds."""


class Sorted(NamedTuple):
    """The values of one quantity, in ascending order.

    Attributes:
        values: The distinct values.
        places: Where each stands among the payloads.
    """

    values: npt.NDArray[np.float64]
    places: npt.NDArray[np.intp]


def ascending(values: Sequence[float | None]) -> Sorted:
    """Return the values that there are in ascending order.

    Args:
        values: One for each payload; ``None`` for a payload without one.
    """
    places = np.array([place for place, value in enumerate(values) if value is not None], dtype=np.intp)
    found = np.array([value for value in values if value is not None], dtype=np.float64)
    order = np.argsort(found, kind="stable")
    return Sorted(found[order], places[order])


def percentile(data: Sorted, weights: npt.NDArray[np.float64], level: float) -> npt.NDArray[np.float64]:
    """Return the least value that a share of the rows does not exceed (the inverse of the distribution function).

    That is the first of the nine definitions of Hyndman and Fan (1996), NumPy's ``inverted_cdf``: always a value that
    was measured.

    Args:
        data: The values.
        weights: Array of shape ``(b, n)``: how often each payload counts.
        level: The share, in (0, 1).

    Returns:
        Array of shape ``(b,)``; NaN where nothing counts.
    """
    reached = np.cumsum(weights[:, data.places], axis=1)
    if not reached.shape[1]:
        return np.full(len(weights), np.nan)
    total = reached[:, -1]
    place = (reached < (level * total * (1 - _ROUNDING))[:, np.newaxis]).sum(axis=1)
    return np.where(total > 0, data.values[np.minimum(place, len(data.values) - 1)], np.nan)


def ranks(level: float, n: int) -> tuple[int, int]:
    """Return the ranks, from 1, of the order statistics that enclose a percentile with a chance of 95 % or more.

    How many of ``n`` independent values lie below the true percentile follows a binomial distribution, whatever the
    values are distributed like. Either rank is the one nearest to the middle that is wrong at most 2.5 % of the time; 0
    and ``n + 1`` stand for none, as the greatest of 50 values may well lie below the 95th percentile.

    Args:
        level: The percentile as a share, in (0, 1).
        n: Number of values, at least 1.
    """
    return _quantile(TAIL, n, level), _quantile(1 - TAIL, n, level) + 1


def _quantile(chance: float, n: int, level: float) -> int:
    """Return the least number that a binomial variable does not exceed with some chance."""
    from scipy.special import bdtr, bdtrik

    number: int = min(n, max(0, math.ceil(bdtrik(chance, n, level))))
    while number and bdtr(number - 1, n, level) >= chance:
        number -= 1
    while number < n and bdtr(number, n, level) < chance:
        number += 1
    return number


def interval(data: Sorted, weights: npt.NDArray[np.float64], level: float, size: float) -> tuple[float, float] | None:
    """Return the 95 % interval of a percentile; an end that the rows cannot show is 0 or infinite.

    Args:
        data: The values, none below 0.
        weights: Array of shape ``(n,)``: how many rows have each payload.
        level: The percentile as a share.
        size: How many independent rows they are worth; ranks are stretched where that is fewer than there are.

    Returns:
        The two ends, ``None`` without a value.
    """
    reached = np.cumsum(weights[data.places])
    if not len(reached):
        return None
    total = float(reached[-1])
    independent = max(1, round(min(size, total)))
    low, high = (rank * total / independent for rank in ranks(level, independent))

    def at(rank: float) -> float:
        place = int(np.searchsorted(reached, rank * (1 - _ROUNDING)))
        return float(data.values[place]) if place < len(data.values) else INF

    return 0.0 if low <= 0 else at(low), at(high)


def mean_metric(quantity: str, text: str, *, primary: bool = False) -> Metric:
    """Return the metric of a quantity's mean, of which less is better."""
    return Metric.lower(quantity, text, range=(0.0, INF), threshold=None, primary=primary)


def percentile_metrics(quantity: str, name: str, what: str) -> tuple[Metric, ...]:
    """Return the dataset-level metrics of a quantity's percentiles.

    Args:
        quantity: Beginning of the keys.
        name: Beginning of the names.
        what: What is measured, as it reads after "the".
    """
    texts = {
        "p50": f"Median of the {what}.",
        "p95": f"95th percentile of the {what}: one in twenty answers takes more.",
        "p99": f"99th percentile of the {what}: one in a hundred answers takes more.",
    }
    return tuple(
        Metric.lower(
            f"{quantity}_{end}", text, name=f"{name} {end}", range=(0.0, INF), threshold=None, dataset_level=True
        )
        for end, text in texts.items()
    )


class PercentileEvaluator(RowEvaluator):
    """The base of evaluators that have percentiles of one or more quantities; a payload holds one number for each."""

    quantities: tuple[str, ...]
    """Beginnings of the metrics' keys, in the order of a payload's numbers."""

    def measured(self, value: float | None, what: str) -> RowScore:
        """Return the score of a row with one quantity; a negative or infinite one is unscorable.

        Args:
            what: What it is called in a message.
        """
        if value is None or not math.isfinite(value) or value < 0:
            return RowScore.unscored(self.row_metrics, Reason.UNSCORABLE, f"{value} is no {what}.")
        return RowScore({self.quantities[0]: float(value)}, payload=[float(value)])

    def prepare(self, payloads: Sequence[Json]) -> Mapping[str, Sorted]:
        """Return each quantity's values in ascending order."""
        numbers = cast("Sequence[Sequence[float | None]]", payloads)
        return {quantity: ascending([one[place] for one in numbers]) for place, quantity in enumerate(self.quantities)}

    def aggregate(
        self, payloads: Mapping[str, Sorted], weights: npt.NDArray[np.float64]
    ) -> dict[str, npt.NDArray[np.float64]]:
        """Return the percentiles for each weighting of the rows."""
        return {
            f"{quantity}_{end}": percentile(data, weights, level)
            for quantity, data in payloads.items()
            for end, level in LEVELS.items()
        }

    def intervals(
        self, prepared: Mapping[str, Sorted], weights: npt.NDArray[np.float64], size: float
    ) -> dict[str, tuple[float, float] | None]:
        """Return the exact intervals of the percentiles."""
        return {
            f"{quantity}_{end}": interval(data, weights, level, size)
            for quantity, data in prepared.items()
            for end, level in LEVELS.items()
        }
