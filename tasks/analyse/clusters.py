"""Families of cases: an original with all its perturbed copies, and theirs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from leadline.tasks.db.statements import sql

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyarrow import Table

MOST_FAMILIES: Final = 200
"""From how many families a design effect is estimated; more make intervals no better, only slower."""


def perturbation_clusters(connection: DuckDBPyConnection) -> Table:
    """Return ``case_id, family`` of every case that has a perturbed copy or is one; families count from 0."""
    import numpy as np
    import pyarrow as pa
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    links: Mapping[str, Any] = connection.execute(
        "SELECT case_id::BIGINT AS copy, original_case_id::BIGINT AS original FROM relationships"
    ).fetchnumpy()
    cases, ends = np.unique(np.concatenate([links["copy"], links["original"]]), return_inverse=True)
    copies, originals = np.split(ends, 2)
    graph = coo_array((np.ones(len(copies), dtype=np.int8), (copies, originals)), shape=(len(cases), len(cases)))
    _, family = connected_components(graph, directed=False) if len(cases) else (0, cases)
    return pa.table({"case_id": cases, "family": family.astype(np.int64)})


def show_cluster_rows(connection: DuckDBPyConnection) -> float:
    """Create the table ``cluster_rows(row_id, cluster, model_id)``: the rows of cases that have copies.

    Returns:
        The number of families that each one in the table represents: 0 when no case has a copy, 1 when all are in
        it, more when there are so many families that :data:`MOST_FAMILIES` of them were drawn, evenly over the dataset.
    """
    import numpy as np

    every = perturbation_clusters(connection)
    if not len(every):
        return 0.0
    family = every["family"].to_numpy()
    number = int(family.max()) + 1
    drawn = np.unique(np.arange(0, number, max(1.0, number / MOST_FAMILIES)).astype(np.int64))
    connection.register("families", every.filter(np.isin(family, drawn)))
    connection.execute(sql("aggregate/cluster_rows"))
    connection.unregister("families")
    return number / len(drawn)
