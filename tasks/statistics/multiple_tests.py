"""Corrections of p-values for several tests at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from leadline.tasks.statistics.bounded_mean import Floats


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
