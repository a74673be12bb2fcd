"""Position bias: how much a judge's verdicts depend on the order in which two answers stand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from leadline.evaluators.data.pair_outcomes import Order
from leadline.tasks.analyse.pair_records import JudgedPair
from leadline.tasks.statistics.bounded_mean import mean_of_clusters

LEAST_BIAS: Final = 0.05
"""A judge is biased where the interval of its bias lies beyond this share of the pairs."""

LEAST_INCONSISTENT: Final = 0.25
"""A judge contradicts itself where the interval of the share of pairs on which it does lies above this."""


@dataclass(frozen=True, slots=True)
class ShareOfPairs:
    """A share of the pairs that were asked, with its 95 % interval over cases."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class PositionBias:
    """Counts of how a judge's two verdicts on each pair go together; trials count in shares.

    Attributes:
        asked: Pairs that were asked in both orders.
        first: Pairs of which the answer that stood first was preferred in both.
        second: Pairs of which the one that stood second was.
        mixed: Pairs with a tie in one order only.
        bias: Share of the pairs decided by the first place, less the share decided by the second.
        inconsistent: Share of the pairs whose two verdicts contradict each other.
    """

    asked: float
    first: float
    second: float
    mixed: float
    bias: ShareOfPairs
    inconsistent: ShareOfPairs

    @property
    def preferred(self) -> str:
        """``"first"`` or ``"second"`` where the place decides significantly often, else ``""``."""
        if self.bias.low > LEAST_BIAS:
            return "first"
        return "second" if self.bias.high < -LEAST_BIAS else ""

    @property
    def contradicts(self) -> bool:
        """True where the judge contradicts itself in significantly many pairs."""
        return self.inconsistent.low > LEAST_INCONSISTENT


def position_bias(pairs: Sequence[JudgedPair]) -> PositionBias | None:
    """Measure how a judge's verdicts depend on the order; ``None`` where too few pairs were asked to tell.

    Args:
        pairs: The comparisons of all models.
    """
    asked = [pair for pair in pairs if pair.asked > 0]
    bias = _share(asked, lambda pair: pair.orders.get(Order.FIRST, 0.0) - pair.orders.get(Order.SECOND, 0.0), -1.0)
    inconsistent = _share(asked, lambda pair: pair.inconsistent, 0.0)
    if bias is None or inconsistent is None:
        return None
    return PositionBias(
        asked=sum(pair.asked for pair in asked),
        first=sum(pair.orders.get(Order.FIRST, 0.0) for pair in asked),
        second=sum(pair.orders.get(Order.SECOND, 0.0) for pair in asked),
        mixed=sum(pair.orders.get(Order.MIXED, 0.0) for pair in asked),
        bias=bias,
        inconsistent=inconsistent,
    )


def _share(pairs: Sequence[JudgedPair], count: Callable[[JudgedPair], float], low: float) -> ShareOfPairs | None:
    """Return a mean over pairs with its interval over cases, ``None`` where there are fewer than two of these."""
    sums: defaultdict[int, float] = defaultdict(float)
    sizes: defaultdict[int, float] = defaultdict(float)
    for pair in pairs:
        sums[pair.cluster] += count(pair)
        sizes[pair.cluster] += pair.asked
    if len(sizes) < 2:
        return None
    mean = mean_of_clusters(np.array([sums[case] for case in sizes]), np.array(list(sizes.values())), low=low, high=1.0)
    return None if mean is None else ShareOfPairs(mean.value, *mean.interval())
