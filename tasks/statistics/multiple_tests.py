"""Corrections of p-values for several tests at once."""

from __future__ import annotations


def holm(p_values: list[float]) -> list[float]:
    """Return Holm's adjusted p-values, in the order given (Holm, Scand. J. Statist. 6, 1979)."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted, greatest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(order):
        greatest = max(greatest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = greatest
    return adjusted
