"""Results as runs of real MLflow, and evaluators as scorers of mlflow.genai."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mlflow
import mlflow.genai
import pytest
from mlflow.entities import SpanType

import leadline.mlflow
from leadline import evaluate
from tests.support.judges.judge_endpoint import JudgeEndpoint

ROWS = [
    {"case": "c1", "question": "When?", "answer": "At seven.", "expected_answer": "At seven.", "model": "a"},
    {"case": "c2", "question": "Where?", "answer": "On Mars.", "expected_answer": "In the harbour.", "model": "a"},
]


@pytest.fixture(autouse=True, scope="module")
def tracking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("mlflow")
    mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
    for name in ("pumps", "others"):
        mlflow.create_experiment(name, artifact_location=(folder / name).as_uri())
    yield
    mlflow.set_tracking_uri(None)


@pytest.fixture(autouse=True)
def experiment() -> None:
    mlflow.set_experiment("pumps")


def test_a_result_is_logged_with_metrics_params_tags_and_the_report() -> None:
    result = evaluate(ROWS, metrics=["bleu"], name="nightly")
    run = mlflow.get_run(leadline.mlflow.log(result))
    board = result.aggregates
    primary = board[(board.evaluator == "bleu") & (board.metric == "bleu_1")].iloc[0]
    assert run.data.metrics["bleu.bleu_1"] == pytest.approx(primary.value)
    assert run.data.metrics["bleu.bleu_1.ci_low"] == pytest.approx(primary.ci_low)
    assert run.data.metrics["bleu.bleu_1.coverage"] == 1.0
    assert run.data.metrics["leadline.rows"] == 2
    assert run.data.tags["leadline.run"] == result.run
    assert run.data.tags["leadline.gate"] == result.gate
    assert run.data.params["leadline.evaluators"] == "bleu"
    assert run.info.run_name == "nightly"
    kept = {file.path for file in mlflow.MlflowClient().list_artifacts(run.info.run_id, "leadline")}
    assert {"leadline/report.html", "leadline/problems.csv"} <= kept


def test_several_models_are_told_apart_and_an_active_run_is_used() -> None:
    rows = [*ROWS, *(row | {"model": "b/c d", "answer": "At seven."} for row in ROWS)]
    result = evaluate(rows, metrics=["bleu"])
    with mlflow.start_run() as active:
        assert leadline.mlflow.log(result, prefix="eval/", artifacts=False) == active.info.run_id
        mlflow.log_metric("after", 1.0)
    metrics = mlflow.get_run(active.info.run_id).data.metrics
    assert {"eval/a/bleu.bleu_1", "eval/b/c d/bleu.bleu_1", "after"} <= set(metrics)
    assert mlflow.MlflowClient().list_artifacts(active.info.run_id, "leadline") == []


def test_an_earlier_run_is_logged_by_its_name() -> None:
    evaluate(ROWS, metrics=["bleu"])
    assert mlflow.get_run(leadline.mlflow.log("latest", experiment="others")).data.tags["leadline.gate"]


DATA = [
    {
        "inputs": {"question": row["question"]},
        "outputs": {"response": row["answer"], "retrieved_context": ["The pump starts at seven."]},
        "expectations": {"expected_response": row["expected_answer"]},
    }
    for row in ROWS
]


def test_evaluators_score_for_mlflow_with_rationale_and_whether_they_pass(judge: JudgeEndpoint) -> None:
    scorers = [leadline.mlflow.scorer("bleu"), leadline.mlflow.scorer("llamaindex.faithfulness", name="faithful")]
    found = mlflow.genai.evaluate(data=DATA, scorers=scorers)
    assert found.metrics["faithful/mean"] == 0.5
    assert 0 < found.metrics["bleu/mean"] < 1
    assert len(judge.answered) == 2
    one = scorers[0](inputs="When?", outputs="At seven.", expectations={"expected_facts": ["At seven."]})
    assert (one.value, one.metadata["leadline.passes"], one.source.source_type) == (1.0, "true", "CODE")


def test_the_contexts_of_a_traced_application_reach_the_evaluator(judge: JudgeEndpoint) -> None:
    @mlflow.trace(span_type=SpanType.RETRIEVER)
    def retrieve(question: str) -> list[dict[str, Any]]:
        return [{"page_content": "The pump starts at seven.", "metadata": {"source": "manual.pdf"}}]

    @mlflow.trace
    def app(question: str) -> str:
        return "At seven." if retrieve(question) else ""

    found = mlflow.genai.evaluate(
        data=[{"inputs": {"question": "When does the pump start?"}}],
        predict_fn=app,
        scorers=[leadline.mlflow.scorer("llamaindex.faithfulness")],
    )
    assert found.metrics["llamaindex_faithfulness/mean"] == 1.0
    assert "The pump starts at seven." in judge.answered[0]


def test_a_failing_instrument_is_an_error_and_a_missing_input_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-of-the-test")
    dead = {"model": "openai/judge", "api_base": "http://127.0.0.1:9", "max_calls": 0}
    scorer = leadline.mlflow.scorer("llamaindex.faithfulness", judge=dead)
    found = scorer(**{name: DATA[0][name] for name in ("inputs", "outputs")})
    assert (found.value, found.error.error_code) == (None, "BUDGET")
    assert leadline.mlflow.scorer("bleu")(inputs={"question": "When?"}, outputs="At seven.") is None
