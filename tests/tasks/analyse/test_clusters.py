"""Families of cases: an original with its copies, theirs, and nobody else."""

from __future__ import annotations

import json
import re
from pathlib import Path

import duckdb
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from leadline.tasks.analyse.clusters import numbered, perturbation_clusters
from leadline.tasks.db import attach_dataset, sql
from leadline.tasks.load.dataset import load_dataset
from leadline.tasks.store.store import Store


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=40))
def test_families_are_the_connected_components_of_the_links(links: list[tuple[int, int]]) -> None:
    with duckdb.connect() as connection:
        connection.execute(re.sub(r"--.*", "", sql("dataset")))
        connection.execute("CREATE VIEW trials AS SELECT 0 AS case_id, 0 AS original_case_id WHERE false")
        if links:
            connection.executemany("INSERT INTO relationships VALUES (?, ?, 'perturbation_source', 'typos')", links)
        found = perturbation_clusters(connection)
    cases = sorted({case for link in links for case in link})
    assert found["case_id"].tolist() == cases
    if links:
        ends = np.searchsorted(cases, links)
        graph = coo_array((np.ones(len(links)), (ends[:, 0], ends[:, 1])), shape=(len(cases), len(cases)))
        assert found["family"].tolist() == connected_components(graph, directed=False)[1].tolist()


@given(st.lists(st.integers(0, 60), max_size=40))
def test_distinct_numbers_and_their_places_are_those_of_numpy(ids: list[int]) -> None:
    numbers = np.array(ids, dtype=np.int64)
    found, wanted = numbered(numbers), np.unique(numbers, return_inverse=True)
    assert [values.tolist() for values in found] == [values.tolist() for values in wanted]


def test_trials_of_a_conversation_are_a_family_where_it_says_what_is_expected(tmp_path: Path) -> None:
    def held(case: str, question: str, **expected: object) -> dict[str, object]:
        messages = [{"role": "user", "content": question}, {"role": "assistant", "content": f"I am {case}."}]
        return {"case": case, "messages": [*messages, *messages], **expected}

    records = [
        *(held(f"refund {n}", "Refund it.", expected_outcome="Refunded.") for n in range(3)),
        held("other", "Refund it.", expected_outcome="Refused."),
        *(held(f"chat {n}", "Hello") for n in range(2)),
        *(held(f"answer {n}", "Sure.", expected_outcome="Refunded.", condition=f'"{n}"') for n in range(2)),
    ]
    file = tmp_path / "held.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    with duckdb.connect() as connection:
        attach_dataset(connection, load_dataset(Store.open(tmp_path / "store"), file).path)
        found = perturbation_clusters(connection)
    assert {name: values.tolist() for name, values in found.items()} == {"case_id": [0, 1, 2], "family": [0, 0, 0]}
