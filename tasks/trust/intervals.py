"""Intervals of shares, and of what is made of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    import numpy as np
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


def effective_number(values: Floats, clusters: Ints) -> float:
    """Return how many independent values say as much of their mean as these, at least the number of clusters.

    Args:
        values: The values, at least one.
        clusters: The cluster of each.
    """
    import numpy as np

    _, group = np.unique(clusters, return_inverse=True)
    sums = np.bincount(group, values - values.mean())
    spread, together = float(values.var() * len(values)), float(sums @ sums)
    groups = float(group.max() + 1)
    if spread <= 0 or together <= 0:
        return groups if spread <= 0 else float(len(values))
    return float(min(len(values), max(groups, len(values) * spread / together)))
