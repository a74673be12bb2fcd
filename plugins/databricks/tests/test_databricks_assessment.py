"""Databricks' verdict on a row as a whole, its root cause, and the evaluation set that comes out again."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from leadline.evaluators.core import get
from leadline.evaluators.settings import Settings
from leadline.plugins.databricks.tests.test_databricks_table import chunked, failed, rated, tables, toy
from leadline.tasks.analyse.gather import register_jobs
from leadline.tasks.db import attach_dataset, connect, open_run
from leadline.tasks.load.dataset import load_dataset
from leadline.tasks.plan.jobs import make_jobs
from leadline.tasks.plan.planner import plan
from leadline.tasks.policy.policy import load_policy
from leadline.tasks.publish.exports.exporter import export_run
from leadline.tasks.store.store import Store
from tests.support.stores.run_factory import Basis, Given, answer, make_run

AT = "response/overall_assessment"
CORRECT, GROUNDED, SAFE, RELEVANT = (
    f"databricks.{name}" for name in ("correctness", "groundedness", "safety", "relevance_to_query")
)
CHUNKS, SUFFICIENT, CUSTOM = (f"databricks.{name}" for name in ("chunk_relevance", "context_sufficiency", "custom"))


def assessed(tmp_path: Path, judged: list[tuple[Given, Basis]], *, truth: bool) -> tuple[Any, Any, Any]:
    expected = {"expected": ["the truth"]} if truth else {"expected": []}
    store, run = make_run(
        tmp_path / "store",
        rows=[answer("c1", "alpha", **expected)],
        evaluators=[
            toy(name, assessment_name="tone", assessment_type="ANSWER")
            for name in dict.fromkeys(score.evaluator for score, _ in judged)
        ],
        scores=[score for score, _ in judged],
        evidence=[basis for _, basis in judged],
    )
    ((row,), _) = tables(store, run, tmp_path / "out")
    return tuple(row[f"{AT}/{part}"] for part in ("rating", "root_cause", "rationale"))  # type: ignore[return-value]


def test_a_row_passes_when_every_judge_that_counts_passes_it(tmp_path: Path) -> None:
    judged = [rated("c1", name, "yes") for name in (SUFFICIENT, GROUNDED, CORRECT, SAFE)]
    # irrelevant chunks do not count where the ground truth says that the context sufficed
    assert assessed(tmp_path, [*judged, chunked("c1", CHUNKS, "no", "no")], truth=True) == ("yes", None, None)


ORDER = {True: (SUFFICIENT, GROUNDED, CORRECT, SAFE), False: (CHUNKS, GROUNDED, RELEVANT, SAFE)}


@pytest.mark.parametrize(
    ("truth", "first"), [(truth, place) for truth, names in ORDER.items() for place in range(len(names))]
)
def test_the_first_judge_that_fails_is_the_root_cause(tmp_path: Path, truth: bool, first: int) -> None:
    judged = []
    for place, name in enumerate(ORDER[truth]):
        word = "yes" if place < first else "no"
        judged.append(chunked("c1", name, "no", word) if name == CHUNKS else rated("c1", name, word))
    rating, cause, rationale = assessed(tmp_path, judged, truth=truth)
    short = ORDER[truth][first].removeprefix("databricks.")
    assert (rating, cause) == ("no", short)
    assert rationale.startswith(f"Improve {'retrieval' if first == 0 else 'generation'}: {short} fails.")
    if ORDER[truth][first] != CHUNKS:
        assert rationale.endswith("c1 is no")


def test_without_a_ground_truth_one_relevant_chunk_will_do(tmp_path: Path) -> None:
    judged = [chunked("c1", CHUNKS, "no", "yes"), rated("c1", GROUNDED, "yes"), rated("c1", RELEVANT, "yes")]
    assert assessed(tmp_path, judged, truth=False)[0] == "yes"


@pytest.mark.parametrize("truth", [True, False])
def test_what_could_not_be_judged_is_no_failure_and_no_pass(tmp_path: Path, truth: bool) -> None:
    for number, other in enumerate(("yes", "no")):
        judged = [failed("c1", GROUNDED, "no JSON"), rated("c1", SAFE, other)]
        rating, cause, _ = assessed(tmp_path / str(number), judged, truth=truth)
        assert (rating, cause) == ((None, None) if other == "yes" else ("no", "safety"))


def test_a_row_that_no_judge_applies_to_has_no_verdict(tmp_path: Path) -> None:
    nothing = (Given("c1", "alpha", "", "safety", SAFE), Basis("c1", "alpha", SAFE))
    assert assessed(tmp_path, [nothing], truth=False) == (None, None, None)


def test_a_judge_of_ones_own_counts_last(tmp_path: Path) -> None:
    for number, (safe, own) in enumerate(itertools.product(("yes", "no"), repeat=2)):
        judged = [rated("c1", CUSTOM, own), rated("c1", SAFE, safe)]
        rating, cause, _ = assessed(tmp_path / str(number), judged, truth=True)
        assert rating == ("yes" if safe == own == "yes" else "no")
        assert cause == ("safety" if safe == "no" else "tone" if own == "no" else None)


@pytest.mark.parametrize("ending", ["json", "parquet", "csv"])
def test_what_is_exported_is_an_evaluation_set_again(tmp_path: Path, ending: str) -> None:
    sets = [
        {
            "request_id": "r1",
            "request": {"messages": [{"role": "user", "content": "How long?"}]},
            "response": "Ten days.",
            "expected_facts": ["Ten days", "By post"],
            "guidelines": {"tone": ["Be brief."]},
            "retrieved_context": [{"doc_uri": "d1", "content": "Within ten days."}],
            "expected_retrieved_context": [{"doc_uri": "d1"}, {"doc_uri": "d2"}],
        },
        {"request_id": "r2", "request": "Who?", "response": "Ada", "expected_response": "Ada Lund"},
    ]
    source = tmp_path / "set.json"
    source.write_text(json.dumps(sets), encoding="utf-8")
    store = Store.open(tmp_path / "store")
    first = load_dataset(store, source)
    run = exported_run(store, first.digest)
    rows, _ = export_run(store, run, "databricks", tmp_path / f"out.{ending}")
    again = load_dataset(store, rows, format="databricks")
    assert facts_of(store, again.digest) == facts_of(store, first.digest)


def exported_run(store: Store, dataset: str) -> Any:
    run = store.new_run()
    run.update({"dataset": dataset})
    jobs = make_jobs([get("databricks.document_recall")()], Settings())
    with open_run(store, run, create=True) as connection:
        register_jobs(connection, plan(connection, store, jobs), load_policy("sonar"))
        connection.execute("INSERT INTO scores SELECT 0, row_id, 0, 'not_applicable', 'no documents', NULL FROM rows")
    return run


def facts_of(store: Store, dataset: str) -> list[tuple[Any, ...]]:
    with connect() as connection:
        attach_dataset(connection, store.dataset(dataset))
        return connection.execute(
            "SELECT case_key, question, actual_answer, expected_answers, expected_documents, retrieved_context, "
            "json_extract(json_merge_patch(cases.metadata, rows.metadata), '$.expected_facts'), "
            "json_extract(json_merge_patch(cases.metadata, rows.metadata), '$.guidelines') "
            "FROM rows JOIN cases USING (case_id) ORDER BY ALL"
        ).fetchall()
