"""Traces, scores and numbers of runs, received over real HTTP, and receivers that are bad or away."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Sent

from leadline.flows.evaluate.config import EvaluateConfig, EvaluateResult
from leadline.flows.evaluate.job import Evaluate
from leadline.plugins.ops.traces import run_trace, signals
from leadline.plugins.ops.traces.signals import MOST, tree_of
from leadline.tasks import pipeline
from leadline.tasks.ground.timeline import TimeSpan
from leadline.tasks.store.store import Store
from tests.support.processes.otlp_collector import Collector, collecting

SECRET = "canary-harbour-text"


def spans_of(collector: Collector) -> list[Sent]:
    return [
        span
        for body in collector.bodies("/v1/traces")
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collecting() as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.url)
        yield found


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EvaluateConfig:
    for name in ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "TRACEPARENT", "OTEL_SERVICE_NAME", "OTEL_SDK_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "rows.jsonl"
    row = {"question": SECRET, "answer": f"{SECRET} a", "expected_answer": "a", "model": "m"}
    file.write_text("".join(json.dumps(row | {"case": f"c{n}"}) + "\n" for n in range(5)), encoding="utf-8")
    return EvaluateConfig(dataset=str(file), evaluators=("bleu",), store=str(tmp_path / "store"))


def run(config: EvaluateConfig) -> EvaluateResult:
    return Evaluate()(config)


def completed(config: EvaluateConfig) -> bool:
    """Run, and return whether the run's record says that all is well."""
    return bool(Store.open(config.store).run(run(config).run).read()["status"] == "completed")


def test_a_run_is_a_tree_of_spans(receiver: Collector, config: EvaluateConfig) -> None:
    result = run(config)
    spans = spans_of(receiver)
    by_id = {span.span_id: span for span in spans}

    def path(span: Sent) -> str:
        above = by_id.get(span.parent_span_id)
        return f"{path(above)}/{span.name}" if above else span.name

    paths = {path(span) for span in spans}
    assert {f"leadline.run/{part}" for part in ("start", "load", "plan", "score", "aggregate", "publish")} <= paths
    assert "leadline.run/aggregate/problems" in paths
    assert "leadline.run/score/lane cpu" in paths
    assert any(name.startswith("leadline.run/score/lane cpu/cpu-") for name in paths)
    assert len({span.trace_id for span in spans}) == 1
    for span in spans:
        above = by_id.get(span.parent_span_id)
        assert span.start_time_unix_nano <= span.end_time_unix_nano
        assert (
            above is None
            or span.name.startswith("lane ")
            or above.name == "leadline.run"
            or (above.start_time_unix_nano - 10**8 <= span.start_time_unix_nano <= above.end_time_unix_nano + 10**8)
        )
    [root] = [span for span in spans if not span.parent_span_id]
    known = {attribute.key: attribute.value for attribute in root.attributes}
    assert known["leadline.run"].string_value == result.run
    assert known["leadline.rows"].int_value == 5
    assert Store.open(config.store).run(result.run).read()["trace"] == root.trace_id.hex()


def test_no_text_is_in_a_trace(receiver: Collector, config: EvaluateConfig) -> None:
    run(config)
    assert receiver.bodies()
    assert not any(SECRET.encode() in body for body in receiver.bodies())


def test_headers_and_an_outer_trace_come_from_the_environment(
    receiver: Collector, config: EvaluateConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=harbour")
    monkeypatch.setenv("TRACEPARENT", f"00-{'ab' * 16}-{'cd' * 8}-01")
    run(config)
    assert receiver.headers[0]["x-tenant"] == "harbour"
    assert {span.trace_id.hex() for span in spans_of(receiver)} == {"ab" * 16}
    assert [span.parent_span_id.hex() for span in spans_of(receiver) if span.name == "leadline.run"] == ["cd" * 8]


def test_a_run_that_failed_is_a_trace_with_an_error_but_not_with_its_text(
    receiver: Collector, config: EvaluateConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise ValueError(SECRET)

    monkeypatch.setattr(pipeline, "gather_scores", fail)
    with pytest.raises(ValueError, match=SECRET):
        run(config)
    [root] = [span for span in spans_of(receiver) if not span.parent_span_id]
    assert (root.status.code, root.status.message) == (2, "ValueError")
    assert SECRET.encode() not in b"".join(receiver.bodies())


def test_without_an_endpoint_nothing_is_sent(config: EvaluateConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    result = run(config)
    assert "trace" not in Store.open(config.store).run(result.run).read()


def test_a_receiver_that_never_answers_holds_a_run_up_for_no_longer_than_the_deadline(
    receiver: Collector, config: EvaluateConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()
    receiver.answer = lambda path: 200 if over.wait(60) else 500
    monkeypatch.setattr(run_trace, "DEADLINE_S", 0.5)
    began = time.monotonic()
    try:
        assert completed(config)
    finally:
        over.set()
    assert time.monotonic() - began < 40


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:9", "no address", "http://[::1"])
def test_a_receiver_that_is_away_or_none_fails_no_run(
    endpoint: str, config: EvaluateConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
    monkeypatch.setattr(run_trace, "DEADLINE_S", 1.0)
    assert completed(config)


def test_a_receiver_that_refuses_fails_no_run(receiver: Collector, config: EvaluateConfig) -> None:
    receiver.answer = lambda path: 401
    assert completed(config)
    assert len(receiver.received) == 1  # who refuses traces is not asked to take the rest


def test_judge_calls_are_events_of_their_lane_and_spans_only_if_asked_for() -> None:
    parts = [TimeSpan("score", "part", 0, 1_000_000, "p", "parts")]
    lanes = [TimeSpan("judge", "lane", 0, 900_000, "p", "lanes")]
    asked = [{"evaluator": "faithfulness", "answered": 3, "failed": 1, "cost_usd": 0.5}]
    call = {"purpose": "faithfulness:claims", "state": "answered", "intended_at": 0.1, "ended_at": 0.2, "tries": 1}
    tree = tree_of(parts, lanes, {}, asked)
    [lane] = tree.children[0].children
    assert lane.children == []
    [(name, moment, known)] = lane.events
    assert (name, moment) == ("judge calls", 1_000_000)
    assert known == {f"leadline.{key}": value for key, value in asked[0].items()}
    [lane] = tree_of(parts, lanes, {}, asked, [call]).children[0].children
    assert [(child.name, child.began, child.ended) for child in lane.children] == [
        ("call faithfulness:claims", 100_000, 200_000)
    ]


def test_a_trace_is_bounded() -> None:
    parts = [TimeSpan("score", "part", 0, 10**9, "p", "parts")]
    chunks = [TimeSpan(f"cpu-{n:05}", "chunk", n, n + 1, "p", "t") for n in range(2 * MOST)]
    tree = tree_of([*parts, *chunks], [TimeSpan("cpu", "lane", 0, 10**9, "p", "lanes")], {})
    assert len(tree.children[0].children[0].children) < MOST


ANSWERED = {"trace_id": "ab" * 16, "span_id": "cd" * 8, "response_id": "chatcmpl-1"}


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    for name in ("TRACEPARENT", "OTEL_SERVICE_NAME", "OTEL_SDK_DISABLED", signals.TEXTS_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    with collecting() as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.url)
        yield found


@pytest.fixture
def nightly(tmp_path: Path) -> EvaluateConfig:
    file = tmp_path / "rows.jsonl"
    rows: list[dict[str, Any]] = [
        {"case": f"c{n}", "question": SECRET, "answer": f"{SECRET} a", "expected_answer": "a b c d", "model": "m"}
        for n in range(5)
    ]
    rows[0] |= {"answer": "a b c d"} | ANSWERED
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return EvaluateConfig(dataset=str(file), evaluators=("bleu",), store=str(tmp_path / "store"), name="nightly")


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


def test_each_score_is_an_event_of_the_conventions(collector: Collector, nightly: EvaluateConfig) -> None:
    result = run(nightly)
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
    collector: Collector, nightly: EvaluateConfig
) -> None:
    result = run(nightly)
    by_case = {known(record)["leadline.case"]: record for record in events(collector)}
    assert by_case["c0"].trace_id.hex() == ANSWERED["trace_id"]
    assert by_case["c0"].span_id.hex() == ANSWERED["span_id"]
    assert known(by_case["c0"])["gen_ai.response.id"] == ANSWERED["response_id"]
    trace = Store.open(nightly.store).run(result.run).read()["trace"]
    assert by_case["c1"].trace_id.hex() == trace
    assert "gen_ai.response.id" not in known(by_case["c1"])


def test_events_are_bounded_and_the_worst_are_told(
    collector: Collector, nightly: EvaluateConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signals, "MOST_EVENTS", 2)
    run(nightly)
    assert [known(record)["gen_ai.evaluation.score.label"] for record in events(collector)] == ["fail", "fail"]


def test_unscored_rows_say_why_and_explanations_are_told_only_if_asked_for() -> None:
    line = dict.fromkeys(("value", "passes", "explanation", "response_id"))
    names = {"evaluator": "faithfulness", "metric": "faithfulness", "case_key": "c", "model_key": "m"}
    found = signals.attributes_of({**line, **names, "reason": "judge_unavailable"})
    assert found["error.type"] == "judge_unavailable"
    assert not any(name.startswith("gen_ai.evaluation.score") for name in found)
    scored = {**line, **names, "value": 0.0, "passes": False, "reason": None, "explanation": "x" * 5_000}
    assert len(str(signals.attributes_of(scored)["gen_ai.evaluation.explanation"])) == signals.LONGEST


def test_a_runs_numbers_are_metrics(collector: Collector, nightly: EvaluateConfig) -> None:
    result = run(nightly)
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
    collector: Collector, nightly: EvaluateConfig, monkeypatch: pytest.MonkeyPatch, off: str
) -> None:
    monkeypatch.setenv(off, "none")
    run(nightly)
    paths = {"/v1/logs", "/v1/metrics", "/v1/traces"}
    assert {path for path in paths if not collector.bodies(path)} == {f"/v1/{off.split('_')[1].lower()}"}


def test_a_collector_that_takes_traces_only_fails_no_run(collector: Collector, nightly: EvaluateConfig) -> None:
    collector.answer = lambda path: 200 if path == "/v1/traces" else 404
    assert Store.open(nightly.store).run(run(nightly).run).read()["status"] == "completed"
    assert collector.bodies("/v1/traces")
