"""Severity of problems: high, medium or low, by how surely and how far what was asked for is missed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from leadline.evaluators.data import Severity

_POOR_COVERAGE: Final = 0.8
_GOOD_COVERAGE: Final = 0.95


def graded(surely: bool, seemingly: bool = True) -> Severity:
    """Return how bad a problem is: high where it surely fails what is asked, medium where it seems to, else low."""
    if surely:
        return Severity.HIGH
    return Severity.MEDIUM if seemingly else Severity.LOW


def passes(metric: Mapping[str, Any], value: float) -> bool:
    """Return whether a value is on the good side of a metric's threshold, which is itself good; false without one."""
    if metric["threshold"] is None:
        return False
    return bool(value >= metric["threshold"] if metric["higher_is_better"] else value <= metric["threshold"])


def misses(metric: Mapping[str, Any], aggregate: Mapping[str, Any]) -> bool:
    """Return whether a model's value, in its line of ``aggregates``, is on the bad side of a metric's threshold."""
    if aggregate["value"] is None or metric["threshold"] is None:
        return False
    return not passes(metric, aggregate["value"])


def how_bad(value: float, metric: Mapping[str, Any]) -> Severity:
    """Return ``high`` for a value at least half of the way from the threshold to the worst value of the range.

    For a metric in [0, 1] that is better when higher this is the reference's rule, ``medium`` only above half of the
    threshold; the same distance counts for one that is better when lower. Where the worst value is infinite, ``high``
    begins at twice the threshold (for a threshold of 0, at any value that misses it). The distance
    to an infinite threshold is not defined: ``medium``.

    Args:
        value: A value that misses the threshold.
    """
    threshold, higher = metric["threshold"], metric["higher_is_better"]
    worst = metric["low"] if higher else metric["high"]
    allowed = abs(threshold) if abs(worst) == float("inf") else abs(worst - threshold) / 2
    distance = abs(value - threshold)
    far = distance >= allowed or math.isclose(distance, allowed, rel_tol=1e-9)
    return graded(far and allowed < float("inf"))


def by_coverage(coverage: float) -> Severity:
    """Return how bad it is that only a share of the rows could be scored."""
    return graded(coverage < _POOR_COVERAGE, coverage < _GOOD_COVERAGE)
