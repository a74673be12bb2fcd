"""Families of cases: an original with its copies, theirs, and nobody else."""

from __future__ import annotations

import re

import duckdb
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from leadline.tasks.analyse.clusters import perturbation_clusters
from leadline.tasks.db import sql


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=40))
def test_families_are_the_connected_components_of_the_links(links: list[tuple[int, int]]) -> None:
    with duckdb.connect() as connection:
        connection.execute(re.sub(r"--.*", "", sql("dataset")))
        if links:
            connection.executemany("INSERT INTO relationships VALUES (?, ?, 'perturbation_source', 'typos')", links)
        found = perturbation_clusters(connection)
    cases = sorted({case for link in links for case in link})
    assert found["case_id"].tolist() == cases
    if links:
        ends = np.searchsorted(cases, links)
        graph = coo_array((np.ones(len(links)), (ends[:, 0], ends[:, 1])), shape=(len(cases), len(cases)))
        assert found["family"].tolist() == connected_components(graph, directed=False)[1].tolist()
