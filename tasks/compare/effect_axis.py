"""The axis on which a page draws effects: how far it reaches, and where an effect with its interval lies on it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from leadline.tasks.compare.results import MetricComparison

_LEAST_REACH: Final = 0.1
"""Smallest share of a metric's range that the axis shows, so that small effects do not look large."""


@dataclass(frozen=True, slots=True)
class EffectMark:
    """The position of one effect on the axis, in percent from the left; ``None`` where there is nothing to draw.

    Attributes:
        low: The interval's bad end.
        high: Its good end.
        margin: The largest tolerated worsening; 50, no distance from 0, where nothing was compared.
        cut: Whether the interval reaches beyond the axis.
    """

    effect: float | None
    low: float | None
    high: float | None
    margin: float
    cut: bool


def _scale(found: MetricComparison) -> float:
    """Return what counts as 1 on the axis: the metric's range, or where it has no end the baseline's value."""
    width = found.metric.high - found.metric.low
    if math.isfinite(width):
        return width
    return abs(found.baseline) if found.baseline and math.isfinite(found.baseline) else 1.0


def axis_reach(metrics: Sequence[MetricComparison]) -> float:
    """Return how far the axis reaches to either side of 0."""
    ends = [
        abs(end) / _scale(found)
        for found in metrics
        for end in (found.effect, found.ci_low, found.ci_high, found.margin)
        if end is not None and math.isfinite(end)
    ]
    return min(1.0, max([_LEAST_REACH, *ends]) * 1.05)


def effect_mark(found: MetricComparison, reach: float) -> EffectMark:
    """Return where an effect lies on an axis.

    Args:
        reach: How far the axis reaches to either side of 0, from :func:`axis_reach`.
    """

    def place(value: float | None) -> float | None:
        if value is None or math.isnan(value):
            return None
        return 50 + 50 * max(-1.0, min(1.0, value / _scale(found) / reach))

    ends = [end for end in (found.ci_low, found.ci_high, found.effect) if end is not None]
    cut = any(abs(end) / _scale(found) > reach for end in ends)
    return EffectMark(
        place(found.effect), place(found.ci_low), place(found.ci_high), place(-(found.margin or 0.0)) or 0.0, cut
    )
