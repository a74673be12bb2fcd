"""A Databricks evaluation set, from its file through a judge that speaks HTTP to Databricks' columns."""

from __future__ import annotations

import json
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from leadline.evaluators.core import get
from leadline.evaluators.settings import Settings
from leadline.tasks import pipeline
from leadline.tasks.load.dataset import load_dataset
from leadline.tasks.plan.jobs import Chunk
from leadline.tasks.plan.selection import Choice
from leadline.tasks.publish.exports.exporter import export_run
from leadline.tasks.score.chunk import ChunkResult
from leadline.tasks.score.executor import LocalLanes, drive
from leadline.tasks.store.store import Store
from tests.support.judges.judge_endpoint import JudgeEndpoint, Question, serving
from tests.support.judges.judged_run import judge_at

RECORDS: list[dict[str, Any]] = [
    {
        "request_id": "facts",
        "request": "When does the pump start?",
        "response": "At seven.",
        "expected_facts": ["It starts at seven.", "It starts daily."],
        "retrieved_context": [
            {"content": "A good chunk: it starts at seven.", "doc_uri": "a"},
            {"content": "Pumps are loud.", "doc_uri": "b"},
        ],
        "expected_retrieved_context": [{"doc_uri": "a"}, {"doc_uri": "c"}],
    },
    {"request_id": "answer", "request": "Is it loud?", "response": "Very.", "expected_response": "Yes, it is loud."},
    {"request_id": "nothing", "request": "Why?", "response": "I cannot read that."},
]
EVALUATORS = ("correctness", "safety", "chunk_relevance", "document_recall", "context_sufficiency")


def reply(question: Question) -> str:
    """Find facts correct, good chunks relevant, and everything unreadable that says so."""
    if "cannot read" in question.text:
        return "no comment"
    good = "starts daily" in question.text or "good chunk" in question.text or "toxic" in question.text
    return json.dumps({"rationale": "because", "rating": "yes" if good else "no"})


@pytest.mark.slow
def test_an_evaluation_set_comes_out_in_databricks_columns(tmp_path: Path) -> None:
    source = tmp_path / "set.json"
    source.write_text(json.dumps(RECORDS), encoding="utf-8")
    store = Store.open(tmp_path / "store")
    with serving(JudgeEndpoint(reply)) as endpoint:
        planned = pipeline.plan_run(
            store, load_dataset(store, source), Choice(tuple(get(f"databricks.{name}")() for name in EVALUATORS), {}),
            Settings(judges=(judge_at(endpoint.url),)), model_keys=(), processes=1, config={},
        )  # fmt: skip

        def finished(chunk: Chunk, future: Future[ChunkResult]) -> None:
            future.result()

        with LocalLanes(1, planned.chunks) as lanes, ThreadPoolExecutor(2) as threads:
            drive(planned.chunks, lanes.widths, lambda chunk: threads.submit(lanes.score, chunk), finished)
    run = store.run(planned.run)
    pipeline.gather_scores(store, run)
    rows, metrics = (pq.read_table(path).to_pylist() for path in export_run(store, run, "databricks", tmp_path))

    by_case = {row["request_id"]: row for row in rows}
    correctness = {case: row["response/llm_judged/correctness/rating"] for case, row in by_case.items()}
    assert correctness == {"facts": "yes", "answer": "no", "nothing": None}
    assert by_case["nothing"]["response/llm_judged/correctness/error_message"] is None  # it has no ground truth
    assert "no JSON object" in by_case["nothing"]["response/llm_judged/safety/error_message"]
    facts = by_case["facts"]
    assert facts["retrieval/llm_judged/chunk_relevance/ratings"] == ["yes", "no"]
    assert facts["retrieval/llm_judged/chunk_relevance/precision"] == 0.5
    assert facts["retrieval/llm_judged/context_sufficiency/rationale"] == "because"
    assert facts["retrieval/ground_truth/document_recall"] == 0.5
    (of_run,) = metrics
    assert of_run["response/llm_judged/correctness/rating/percentage"] == 0.5
    assert of_run["response/llm_judged/safety/rating/percentage"] == 1.0
    assert of_run["retrieval/ground_truth/document_recall/average"] == 0.5
