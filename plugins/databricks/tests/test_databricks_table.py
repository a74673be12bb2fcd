"""The tables of Databricks' agent evaluation, from the scores of a run."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from leadline.cli.main import run
from leadline.evaluators.core import get
from leadline.evaluators.ground import UsageError
from leadline.plugins.databricks.databricks_table import JUDGES
from leadline.tasks.publish.exports.exporter import export_run
from leadline.tasks.store.store import Run, Store
from tests.support.stores.run_factory import Basis, Given, Toy, answer, make_run

ROWS = [answer("c1", "alpha"), answer("c2", "alpha"), answer("c3", "alpha"), answer("c1", "beta")]


def of_judge(name: str, place: str = "response") -> list[str]:
    return [f"{place}/llm_judged/{name}/{end}" for end in ("rating", "rationale", "error_message")]


def of_chunks(name: str) -> list[str]:
    return [f"retrieval/llm_judged/{name}/{end}" for end in ("ratings", "rationales", "error_messages", "precision")]


ROW_COLUMNS = {
    "databricks.correctness": of_judge("correctness"),
    "databricks.relevance_to_query": of_judge("relevance_to_query"),
    "databricks.groundedness": of_judge("groundedness"),
    "databricks.safety": of_judge("safety"),
    "databricks.chunk_relevance": of_chunks("chunk_relevance"),
    "databricks.document_recall": ["retrieval/ground_truth/document_recall"],
    "databricks.context_sufficiency": of_judge("context_sufficiency", "retrieval"),
}
RUN_COLUMNS = {
    "databricks.correctness": ["response/llm_judged/correctness/rating/percentage"],
    "databricks.relevance_to_query": ["response/llm_judged/relevance_to_query/rating/percentage"],
    "databricks.groundedness": ["response/llm_judged/groundedness/rating/percentage"],
    "databricks.safety": ["response/llm_judged/safety/rating/average", "response/llm_judged/safety/rating/percentage"],
    "databricks.chunk_relevance": ["retrieval/llm_judged/chunk_relevance/precision/average"],
    "databricks.document_recall": ["retrieval/ground_truth/document_recall/average"],
    "databricks.context_sufficiency": ["retrieval/llm_judged/context_sufficiency/rating/percentage"],
}

OVERALL = [f"response/overall_assessment/{end}" for end in ("rating", "root_cause", "rationale")]
BEFORE = [
    "request_id", "model", "trial", "request", "response", "expected_response", "expected_facts", "guidelines",
    "retrieved_context", "expected_retrieved_context", *OVERALL,
]  # fmt: skip
AGENT = [
    "agent/latency_seconds", "agent/total_token_count", "agent/total_input_token_count",
    "agent/total_output_token_count",
]  # fmt: skip
OVERALL_RUN = ["response/overall_assessment/rating/percentage"]
AGENT_RUN = ["agent/latency_seconds/average", "agent/total_token_count/average"]


def said(row: dict[str, Any]) -> list[str]:
    """Return the columns of what judges said."""
    return [column for column in row if column.startswith(("response/", "retrieval/")) and column not in OVERALL]


def flat(columns: dict[str, list[str]]) -> list[str]:
    return [column for of_judge in columns.values() for column in of_judge]


def toy(evaluator: str, **params: Any) -> Toy:
    return Toy(evaluator, get(evaluator).spec.metrics, family="agent", params=params)


def metric(evaluator: str) -> str:
    return get(evaluator).spec.metrics[0].key


def rated(case: str, evaluator: str, word: str, *, model: str = "alpha", trial: int = 0) -> tuple[Given, Basis]:
    evidence = {"message": "why", "data": {"assessment": {"rating": word, "rationale": f"{case} is {word}"}}}
    return (
        Given(case, model, float(word == "yes"), metric(evaluator), evaluator, trial),
        Basis(case, model, evaluator, trial, evidence),
    )


def failed(case: str, evaluator: str, message: str, data: dict[str, Any] | None = None) -> tuple[Given, Basis]:
    return (
        Given(case, "alpha", "judge_unparseable", metric(evaluator), evaluator),
        Basis(case, "alpha", evaluator, evidence={"data": data} if data else None, error=message),
    )


def chunked(case: str, evaluator: str, *words: str) -> tuple[Given, Basis]:
    data = {"ratings": words, "rationales": [f"is {word}" for word in words], "error_messages": [None] * len(words)}
    return (
        Given(case, "alpha", words.count("yes") / len(words), metric(evaluator), evaluator),
        Basis(case, "alpha", evaluator, evidence={"data": {"assessment": data}}),
    )


def run_of(tmp_path: Path, toys: list[Toy], *judged: tuple[Given, Basis]) -> tuple[Store, Run]:
    return make_run(
        tmp_path,
        rows=ROWS,
        evaluators=toys,
        scores=[score for score, _ in judged],
        evidence=[basis for _, basis in judged],
    )


def tables(store: Store, run: Run, folder: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    folder.mkdir(exist_ok=True)
    rows, metrics = export_run(store, run, "databricks", folder)
    return pq.read_table(rows).to_pylist(), pq.read_table(metrics).to_pylist()


def test_every_evaluator_of_the_reference_has_its_columns_and_no_other(tmp_path: Path) -> None:
    judged = [rated("c1", evaluator, "yes") for evaluator in JUDGES]
    store, run = run_of(tmp_path, [toy(evaluator) for evaluator in JUDGES], *judged)
    ((row,), (of_run,)) = tables(store, run, tmp_path / "out")
    assert list(row) == [*BEFORE, *AGENT, *flat(ROW_COLUMNS)]
    assert list(of_run) == ["model", *OVERALL_RUN, *flat(RUN_COLUMNS), *AGENT_RUN]


@pytest.mark.parametrize("evaluator", JUDGES)
def test_a_judge_that_ran_alone_has_columns_alone(tmp_path: Path, evaluator: str) -> None:
    store, run = run_of(tmp_path, [toy(evaluator)], rated("c1", evaluator, "yes"))
    ((row,), (of_run,)) = tables(store, run, tmp_path / "out")
    assert said(row) == ROW_COLUMNS[evaluator]
    assert list(of_run) == ["model", *OVERALL_RUN, *RUN_COLUMNS[evaluator], *AGENT_RUN]


def test_ratings_rationales_and_errors_stand_in_their_rows(tmp_path: Path) -> None:
    safety = "databricks.safety"
    store, run = run_of(
        tmp_path,
        [toy(safety)],
        rated("c1", safety, "yes"),
        rated("c2", safety, "no"),
        failed("c3", safety, "The reply holds no JSON object."),
        (Given("c1", "beta", "", "safety", safety), Basis("c1", "beta", safety)),
    )
    rows, metrics = tables(store, run, tmp_path / "out")
    at = "response/llm_judged/safety"
    found = {
        (row["request_id"], row["model"]): (row[f"{at}/rating"], row[f"{at}/rationale"], row[f"{at}/error_message"])
        for row in rows
    }
    assert found == {
        ("c1", "alpha"): ("yes", "c1 is yes", None),
        ("c2", "alpha"): ("no", "c2 is no", None),
        ("c3", "alpha"): (None, None, "The reply holds no JSON object."),
        ("c1", "beta"): (None, None, None),
    }
    assert rows[0]["request"] == "What is c1?"
    assert rows[0]["response"] == "c1 by alpha"
    assert [(row["model"], row[f"{at}/rating/average"], row[f"{at}/rating/percentage"]) for row in metrics] == [
        ("alpha", 0.5, 0.5),
        ("beta", None, None),
    ]


def test_ratings_of_chunks_are_lists_and_the_failure_of_one_is_seen(tmp_path: Path) -> None:
    relevance = "databricks.chunk_relevance"
    partly = {"ratings": ["yes", None], "rationales": ["is yes", None], "error_messages": [None, "too long"]}
    store, run = run_of(
        tmp_path,
        [toy(relevance)],
        chunked("c1", relevance, "yes", "yes", "no", "yes"),
        failed("c2", relevance, "1 of 2 chunks were not rated: too long", {"assessment": partly}),
        failed("c3", relevance, "worker lost"),
    )
    rows, metrics = tables(store, run, tmp_path / "out")
    at = "retrieval/llm_judged/chunk_relevance"
    ends = ("ratings", "rationales", "error_messages", "precision")
    assert [[row[f"{at}/{end}"] for end in ends] for row in rows] == [
        [["yes", "yes", "no", "yes"], ["is yes", "is yes", "is no", "is yes"], [None] * 4, 0.75],
        [["yes", None], ["is yes", None], [None, "too long"], None],
        [None, None, ["worker lost"], None],
    ]  # fmt: skip
    assert [row[f"{at}/precision/average"] for row in metrics] == [0.75]


def test_recall_is_averaged_over_the_rows_that_have_one(tmp_path: Path) -> None:
    recall = "databricks.document_recall"
    scores = [
        (Given("c1", "alpha", 0.5, "document_recall", recall), Basis("c1", "alpha", recall)),
        (Given("c2", "alpha", 1.0, "document_recall", recall), Basis("c2", "alpha", recall)),
        (Given("c3", "alpha", "", "document_recall", recall), Basis("c3", "alpha", recall)),
    ]
    store, run = run_of(tmp_path, [toy(recall)], *scores)
    rows, (metrics,) = tables(store, run, tmp_path / "out")
    assert [row["retrieval/ground_truth/document_recall"] for row in rows] == [0.5, 1.0, None]
    assert metrics["retrieval/ground_truth/document_recall/average"] == 0.75


@pytest.mark.parametrize(
    ("kind", "row_columns", "run_column"),
    [
        ("ANSWER", of_judge("no_pii"), "response/llm_judged/no_pii/rating/percentage"),
        ("RETRIEVAL", of_chunks("no_pii"), "retrieval/llm_judged/no_pii/precision/average"),
    ],
)
def test_a_custom_judge_has_columns_of_its_assessments_name(
    tmp_path: Path, kind: str, row_columns: list[str], run_column: str
) -> None:
    custom = "databricks.custom"
    one = rated("c1", custom, "yes") if kind == "ANSWER" else chunked("c1", custom, "yes", "no")
    store, run = run_of(tmp_path, [toy(custom, assessment_name="no_pii", assessment_type=kind)], one)
    ((row,), (of_run,)) = tables(store, run, tmp_path / "out")
    assert said(row) == row_columns
    assert of_run[run_column] == (1.0 if kind == "ANSWER" else 0.5)


def test_every_trial_has_a_line(tmp_path: Path) -> None:
    safety = "databricks.safety"
    judged = [rated("c1", safety, word, trial=trial) for trial, word in enumerate(("yes", "no", "yes"))]
    store, run = run_of(tmp_path, [toy(safety)], *judged)
    rows, (metrics,) = tables(store, run, tmp_path / "out")
    assert [(row["trial"], row["response/llm_judged/safety/rating"]) for row in rows] == [
        (0, "yes"), (1, "no"), (2, "yes"),
    ]  # fmt: skip
    assert metrics["response/llm_judged/safety/rating/percentage"] == pytest.approx(2 / 3)


def test_the_ending_says_the_format(tmp_path: Path) -> None:
    relevance = "databricks.chunk_relevance"
    store, run = run_of(tmp_path, [toy(relevance)], chunked("c1", relevance, "yes", "no"))
    rows, metrics = export_run(store, run, "databricks", tmp_path / "evaluation.csv")
    assert (rows, metrics) == (tmp_path / "evaluation.csv", tmp_path / "evaluation_metrics.csv")
    with rows.open(newline="", encoding="utf-8") as file:
        (line,) = csv.DictReader(file)
    assert json.loads(line["retrieval/llm_judged/chunk_relevance/ratings"]) == ["yes", "no"]

    rows, metrics = export_run(store, run, "databricks", tmp_path / "evaluation.json")
    (row,) = json.loads(rows.read_text(encoding="utf-8"))
    assert row["retrieval/llm_judged/chunk_relevance/rationales"] == ["is yes", "is no"]
    assert json.loads(metrics.read_text(encoding="utf-8"))[0]["model"] == "alpha"


def test_another_ending_and_a_run_without_such_judges_are_refused(tmp_path: Path) -> None:
    store, run = run_of(tmp_path, [Toy()])
    with pytest.raises(UsageError, match=r"writes \.parquet, \.csv, \.json, not \.xlsx"):
        export_run(store, run, "databricks", tmp_path / "evaluation.xlsx")
    with pytest.raises(UsageError, match="none of Databricks' judges"):
        export_run(store, run, "databricks", tmp_path / "evaluation.csv")
    assert not (tmp_path / "evaluation.csv").exists()


def test_the_command_writes_both_tables_and_names_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, made = run_of(tmp_path, [toy("databricks.safety")], rated("c1", "databricks.safety", "yes"))
    output = tmp_path / "evaluation.json"
    assert run(f"store export {made.id} --store {store.root} --format databricks -o {output}".split()) == 0
    (row, *_) = json.loads(output.read_text(encoding="utf-8"))
    assert row["response/llm_judged/safety/rating"] == "yes"
    assert row["response/llm_judged/safety/rationale"] == "c1 is yes"
    (metrics, *_) = json.loads((tmp_path / "evaluation_metrics.json").read_text(encoding="utf-8"))
    assert metrics["response/llm_judged/safety/rating/percentage"] == 1.0
    told = capsys.readouterr().err
    assert "evaluation.json" in told
    assert "evaluation_metrics.json" in told
