"""Intervals of shares, and of what is made of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats: TypeAlias = npt.NDArray[np.float64]
    Ints: TypeAlias = npt.NDArray[np.int64]

Z: Final = 1.959963984540054
"""The 97.5 % point of the normal distribution."""


def wilson(share: float, n: float, z: float = Z) -> tuple[float, float]:
    """Return Wilson's score interval of a share.

    Args:
        share: Observed share in [0, 1].
        n: Number of observations, may be an effective one; nothing is known without any.
        z: Normal quantile, 1.96 for 95 %.
    """
    if n <= 0:
        return 0.0, 1.0
    scale = 1 + z * z / n
    centre = (share + z * z / (2 * n)) / scale
    reach = z / scale * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return 0.0 if share <= 0 else max(0.0, centre - reach), 1.0 if share >= 1 else min(1.0, centre + reach)


def difference(one: float, ones: tuple[float, float], other: float, others: tuple[float, float]) -> tuple[float, float]:
    """Return the interval of ``one - other`` from the intervals of both (MOVER; Zou and Donner, Stat. Med. 27, 2008).

    Args:
        one: An estimate.
        ones: Its interval.
        other: An independent estimate.
        others: Its interval.
    """
    value = one - other
    return (
        value - math.hypot(one - ones[0], others[1] - other),
        value + math.hypot(ones[1] - one, other - others[0]),
    )


def alike(n: float, squares: float, within: float, *, sizes: float, clusters: float, share: bool) -> float:
    """Return how alike rows of one cluster are, 0 to 1: their correlation, by how far they differ from each other.

    Unlike the spread of the clusters' means it does not hang on one cluster that outweighs the others (analysis of
    variance; Donner, Int. Statistical Review 54, 1986). A few ones among zeros say little of it: of shares, half a
    row is added whose copies are all alike.

    Args:
        n: Number of rows, more than clusters.
        squares: Sum of squared deviations from the mean, > 0.
        within: Sum of squared deviations from the cluster's mean.
        sizes: Sum of the squared sizes of the clusters.
        clusters: Number of clusters, at least 2.
        share: Whether rows are 0 or 1.
    """
    part = within / (n - clusters) / squares
    scale = 1 - part * (sizes / n - 1)
    found = min(1.0, max(0.0, (1 - part * (n - 1)) / scale)) if scale > 0 else 0.0
    return (squares * found + 0.5) / (squares + 0.5) if share else found


def design_effect(n: float, squares: float, correlation: float, *, sizes: float, error: float) -> float:
    """Return by how much copies inflate the variance of a mean, 1 to n: the larger of two that may fall short.

    One is Kish's, from how alike copies are and how unequal the clusters; the other is that at which the mean would
    have the jackknife's standard error.

    Args:
        n: Number of rows, more than 1.
        squares: Sum of squared deviations from the mean, > 0.
        correlation: How alike rows of one cluster are (:func:`alike`).
        sizes: Sum of the squared sizes of the clusters.
        error: The jackknife's standard error of the mean.
    """
    spread = error**2 * n / squares
    return max(1.0, 1 + correlation * (sizes / n - 1), n * spread / (1 + spread))


def effective_number(values: Floats, clusters: Ints) -> float:
    """Return how many independent values say as much of their mean as these.

    Args:
        values: The values, at least one.
    """
    group = np.unique(clusters, return_inverse=True)[1]
    sizes, deviations, n = np.bincount(group).astype(float), values - values.mean(), float(len(values))
    spread, groups = float(deviations @ deviations), len(sizes)
    if groups in (1, len(values)) or np.ptp(values) <= 0:
        return float(groups)
    sums, squared = np.bincount(group, deviations), float(sizes @ sizes)
    within, share = max(0.0, spread - float((sums**2 / sizes).sum())), bool(np.isin(values, (0, 1)).all())
    influences = sums / (n - sizes)
    error = math.sqrt((groups - 1) / groups * float(influences @ influences))
    correlation = alike(n, spread, within, sizes=squared, clusters=groups, share=share)
    return n / design_effect(n, spread, correlation, sizes=squared, error=error)
