"""Families of cases: an original with all its perturbed copies, theirs, its trials, and cases that say the same.

Cases in which a model gave the same answer, and the same one was expected, are one case asked several times.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from leadline.tasks.db import sql

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from duckdb import DuckDBPyConnection

LEAST_ALIKE: Final = 20
"""Characters of an answer from which giving it twice is no chance, as "yes" or a label is."""
MOST_FAMILIES: Final = 200
"""From how many families a design effect is estimated; more make intervals no better, only slower."""


def perturbation_clusters(connection: DuckDBPyConnection, links: str = "") -> dict[str, npt.NDArray[np.int64]]:
    """Return ``case_id, family`` of every case that has a copy or is one; families count from 0.

    Args:
        connection: A run with its dataset, or two that are compared.
        links: Query that gives copies with what they are copies of; that of a run if it is not given.
    """
    import numpy as np

    pairs: Mapping[str, Any] = connection.execute(links or sql("aggregate/copies"), {"least": LEAST_ALIKE}).fetchnumpy()
    cases, ends = numbered(np.concatenate([pairs["copy"], pairs["original"]]))
    copies, originals = np.split(ends, 2)
    _, family = numbered(_least_linked(copies, originals, len(cases)))
    return {"case_id": cases, "family": family}


def numbered(ids: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the distinct ids in their order, and for each id its place among them, as ``numpy.unique`` does.

    Nothing is sorted, which takes less time and memory; there is a place for each number up to the largest.

    Args:
        ids: From 0 on, with few gaps.
    """
    import numpy as np

    there = np.zeros(ids.max(initial=-1) + 1, dtype=bool)
    there[ids] = True
    return np.flatnonzero(there), (np.cumsum(there) - 1)[ids]


def _least_linked(ones: npt.NDArray[np.int64], others: npt.NDArray[np.int64], n: int) -> npt.NDArray[np.int64]:
    """Return for each of ``n`` points the least one that links lead to, over others or not."""
    import numpy as np

    least = np.arange(n)
    while True:
        before = least.copy()
        lower = np.minimum(least[ones], least[others])
        np.minimum.at(least, least[ones], lower)
        np.minimum.at(least, least[others], lower)
        least = least[least]
        if np.array_equal(least, before):
            return least


def show_cluster_rows(connection: DuckDBPyConnection) -> bool:
    """Create the table ``cluster_rows(row_id, cluster, model_id, weight)``: the rows of cases that have copies.

    Where there are more than :data:`MOST_FAMILIES` families, the largest of them are in it, since a single one can
    outweigh all others, and as many that are drawn evenly from the rest and stand for it.

    Returns:
        Whether any case has a copy.
    """
    import numpy as np

    every = perturbation_clusters(connection)
    family = every["family"]
    if not len(family):
        return False
    sizes = np.bincount(family)
    weights = np.ones(len(sizes))
    if len(sizes) > MOST_FAMILIES:
        half = MOST_FAMILIES // 2
        rest = np.sort(np.argsort(-sizes, kind="stable")[half:])
        weights[rest] = 0
        weights[rest[np.linspace(0, len(rest) - 1, half).astype(np.int64)]] = len(rest) / half
    drawn = weights[family] > 0
    families = every | {"weight": weights[family]}
    connection.register("families", {name: values[drawn] for name, values in families.items()})
    connection.execute(sql("aggregate/cluster_rows"))
    connection.unregister("families")
    return True
