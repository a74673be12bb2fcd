"""Scores as events and numbers as metrics, received by a collector over real HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from leadline.flows.evaluate.config import EvaluateConfig, EvaluateResult
from leadline.flows.evaluate.job import Evaluate
from leadline.plugins.ops.traces import signals
from leadline.tasks.store.store import Store
from tests.support.processes.otlp_collector import Collector, collecting

SECRET = "canary-harbour-text"
ANSWERED = {"trace_id": "ab" * 16, "span_id": "cd" * 8, "response_id": "chatcmpl-1"}


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    for name in ("TRACEPARENT", "OTEL_SERVICE_NAME", "OTEL_SDK_DISABLED", signals.TEXTS_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    with collecting() as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.url)
        yield found


@pytest.fixture
def config(tmp_path: Path) -> EvaluateConfig:
    file = tmp_path / "rows.jsonl"
    rows: list[dict[str, Any]] = [
        {"case": f"c{n}", "question": SECRET, "answer": f"{SECRET} a", "expected_answer": "a b c d", "model": "m"}
        for n in range(5)
    ]
    rows[0] |= {"answer": "a b c d"} | ANSWERED
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return EvaluateConfig(dataset=str(file), evaluators=("bleu",), store=str(tmp_path / "store"), name="nightly")


def run(config: EvaluateConfig) -> EvaluateResult:
    return Evaluate()(config)


def events(collector: Collector) -> list[Any]:
    requests = [ExportLogsServiceRequest.FromString(body) for body in collector.bodies("/v1/logs")]
    return [
        record
        for request in requests
        for resource in request.resource_logs
        for scope in resource.scope_logs
        for record in scope.log_records
    ]


def known(record: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in record.attributes}


def test_each_score_is_an_event_of_the_conventions(collector: Collector, config: EvaluateConfig) -> None:
    result = run(config)
    found = events(collector)
    assert {record.event_name for record in found} == {"gen_ai.evaluation.result"}
    assert len(found) == 5
    labels = [known(record)["gen_ai.evaluation.score.label"] for record in found]
    assert labels == sorted(labels)  # what fails comes first
    passed = next(known(record) for record in found if known(record)["leadline.case"] == "c0")
    assert passed["gen_ai.evaluation.name"].startswith("bleu.")
    assert passed["gen_ai.evaluation.score.value"] == pytest.approx(1.0)
    assert (passed["gen_ai.evaluation.score.label"], passed["leadline.model"]) == ("pass", "m")
    assert passed["leadline.run"] == result.run
    assert not any(SECRET.encode() in body for body in collector.bodies())


def test_an_event_belongs_to_the_span_that_gave_the_answer_or_else_to_the_run(
    collector: Collector, config: EvaluateConfig
) -> None:
    result = run(config)
    by_case = {known(record)["leadline.case"]: record for record in events(collector)}
    assert by_case["c0"].trace_id.hex() == ANSWERED["trace_id"]
    assert by_case["c0"].span_id.hex() == ANSWERED["span_id"]
    assert known(by_case["c0"])["gen_ai.response.id"] == ANSWERED["response_id"]
    trace = Store.open(config.store).run(result.run).read()["trace"]
    assert by_case["c1"].trace_id.hex() == trace
    assert "gen_ai.response.id" not in known(by_case["c1"])


def test_events_are_bounded_and_the_worst_are_told(
    collector: Collector, config: EvaluateConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signals, "MOST_EVENTS", 2)
    run(config)
    assert [known(record)["gen_ai.evaluation.score.label"] for record in events(collector)] == ["fail", "fail"]


def test_unscored_rows_say_why_and_explanations_are_told_only_if_asked_for() -> None:
    line = dict.fromkeys(("value", "passes", "explanation", "response_id"))
    names = {"evaluator": "faithfulness", "metric": "faithfulness", "case_key": "c", "model_key": "m"}
    found = signals.attributes_of({**line, **names, "reason": "judge_unavailable"})
    assert found["error.type"] == "judge_unavailable"
    assert not any(name.startswith("gen_ai.evaluation.score") for name in found)
    scored = {**line, **names, "value": 0.0, "passes": False, "reason": None, "explanation": "x" * 5_000}
    assert len(str(signals.attributes_of(scored)["gen_ai.evaluation.explanation"])) == signals.LONGEST


def test_a_runs_numbers_are_metrics(collector: Collector, config: EvaluateConfig) -> None:
    result = run(config)
    [body] = collector.bodies("/v1/metrics")
    [resource] = ExportMetricsServiceRequest.FromString(body).resource_metrics
    metrics = {metric.name: metric for metric in resource.scope_metrics[0].metrics}
    points = {name: metric.gauge.data_points for name, metric in metrics.items()}
    values = {known(point)["gen_ai.evaluation.name"]: point.as_double for point in points["leadline.metric.value"]}
    assert {"bleu.bleu_1", "bleu.bleu_2"} <= set(values)
    gate = {"pass": 1.0, "inconclusive": 0.5, "fail": 0.0}[result.gate]
    [point] = points["leadline.run.gate"]
    assert (point.as_double, known(point)["leadline.name"]) == (gate, "nightly")
    scores = {known(point)["leadline.status"]: point.as_double for point in points["leadline.run.scores"]}
    assert scores["scored"] == result.scored
    assert metrics["leadline.run.duration"].unit == "s"


@pytest.mark.parametrize("off", ["OTEL_LOGS_EXPORTER", "OTEL_METRICS_EXPORTER", "OTEL_TRACES_EXPORTER"])
def test_each_signal_can_be_turned_off(
    collector: Collector, config: EvaluateConfig, monkeypatch: pytest.MonkeyPatch, off: str
) -> None:
    monkeypatch.setenv(off, "none")
    run(config)
    paths = {"/v1/logs", "/v1/metrics", "/v1/traces"}
    assert {path for path in paths if not collector.bodies(path)} == {f"/v1/{off.split('_')[1].lower()}"}


def test_a_collector_that_takes_traces_only_fails_no_run(collector: Collector, config: EvaluateConfig) -> None:
    collector.answer = lambda path: 200 if path == "/v1/traces" else 404
    assert Store.open(config.store).run(run(config).run).read()["status"] == "completed"
    assert collector.bodies("/v1/traces")
