"""When enough rows are judged: e-processes for a mean, which may be looked at after every row.

An e-process is the wealth of a bettor who bets against a hypothesis; under the hypothesis it exceeds 1 / level with a
chance of at most that level, whenever one looks (Ville). Bets are those of Waudby-Smith and Ramdas, "Estimating means
of bounded random variables by betting" (JRSS-B 86, 2024).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from leadline.tasks.statistics.bounded_mean import Floats

MOST_OF_WEALTH: Final = 0.5
"""Share of the wealth that a single value may lose."""
_BISECTIONS: Final = 30
ALWAYS_VALID: Final = "always valid"
"""Method of an interval that holds whenever one stops."""


def log_wealth(values: Floats, limit: float, population: int | None = None) -> Floats:
    """Return the logarithm of the e-process against "the mean is at most ``limit``", after each value.

    Args:
        values: Values in [0, 1], in an order drawn at random.
        limit: The hypothesis' greatest mean, in [0, 1].
        population: Number of all values where the question is for the mean of just these, drawn without replacement;
            left out, the mean is that of what the values were drawn from.

    Returns:
        As many numbers as values; infinite from where the rest cannot bring the mean down to the limit.
    """
    steps = np.arange(len(values))
    before = np.cumsum(values) - values
    limits = (population * limit - before) / (population - steps) if population else np.full(len(values), limit)
    mean = (before + 0.5) / (steps + 1)
    squares = (values - mean) ** 2
    variance = (np.cumsum(squares) - squares + 0.25) / (steps + 1)
    rest = np.clip(limits, 1e-12, 1.0)
    ahead = mean - rest
    bet = np.clip(ahead / (variance + ahead**2), 0, MOST_OF_WEALTH / rest)
    wealth = np.cumsum(np.log1p(bet * (values - rest)))
    wealth[np.maximum.accumulate(limits < -1e-9)] = np.inf
    return wealth


def log_wealth_at_once(values: Floats, limit: float, population: int) -> float:
    """Return the logarithm of the e-value of a bettor who stakes all on each value: their product over the limits.

    It grows fastest where all values are near 1, and a single 0 ends it.

    Args:
        values: Values in [0, 1], in an order drawn at random.
        limit: The hypothesis' greatest mean, in (0, 1].
    """
    rest = population * limit - (np.cumsum(values) - values)
    if (rest <= 0).any():
        return math.inf
    if not values.all():
        return -math.inf
    return float(np.log(values * (population - np.arange(len(values))) / rest).sum())


def adjusted(e_values: Sequence[float]) -> list[float]:
    """Return each e-value adjusted for the others, so that all decisions together keep their level.

    Closed testing with means of e-values: the least mean over the sets that hold the value (Vovk and Wang,
    "E-values: calibration, combination and applications", Ann. Statist. 49, 2021).
    """
    out = []
    for number, own in enumerate(e_values):
        others = sorted([*e_values[:number], *e_values[number + 1 :]])
        total, least = own, own
        for count, other in enumerate(others, start=2):
            total += other
            least = min(least, total / count)
        out.append(least)
    return out


def always_valid_interval(
    sums: Floats, counts: Floats, population: int | None = None, *, largest: float, level: float = 0.05
) -> tuple[float, float]:
    """Return the interval of a mean that holds whenever one stops: the limits that neither e-process refutes.

    It is the mean of all rows of clusters, which are drawn as a whole.

    Args:
        sums: Sum of each cluster's values in [0, 1], in an order drawn at random.
        population: Number of all clusters, as for :func:`log_wealth`.
        largest: Most values that a cluster can have.
        level: Chance that the mean is ever outside.
    """
    enough = math.log(2 / level)

    def refuted(limit: float, totals: Floats) -> bool:
        return float(log_wealth(cluster_units(totals, counts, limit, largest), limit, population).max()) >= enough

    if not counts.sum():
        return 0.0, 1.0
    low = greatest(lambda limit: refuted(limit, sums), _BISECTIONS) or 0.0
    high = 1 - (greatest(lambda limit: refuted(limit, counts - sums), _BISECTIONS) or 0.0)
    return low, high


def cluster_units(sums: Floats, counts: Floats, limit: float, largest: float) -> Floats:
    """Return one value in [0, 1] per cluster, whose mean is above the limit exactly if that of all rows is.

    Args:
        sums: Sum of each cluster's values in [0, 1].
        limit: The limit of the mean, in [0, 1].
        largest: Most values that a cluster can have.
    """
    return (sums - limit * counts) / largest + limit


def log_e_value(values: Floats, limit: float, population: int | None = None) -> float:
    """Return the logarithm of the e-process after the last value; infinite if the rest cannot undo what was seen.

    Args:
        values: Values in [0, 1], in an order drawn at random; 0 for none.
        limit: The hypothesis' greatest mean, in [0, 1].
    """
    if not len(values):
        return 0.0
    if population and float(values.sum()) > population * limit + 1e-9:
        return math.inf
    return float(log_wealth(values, limit, population)[-1])


def greatest(holds: Callable[[float], bool], bisections: int = 40) -> float | None:
    """Return the greatest number in [0, 1] for which something holds that holds for lesser ones, ``None`` for none."""
    if not holds(0.0):
        return None
    low, high = 0.0, 1.0
    for _ in range(bisections):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
