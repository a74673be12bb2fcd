"""Traces of runs, received over real HTTP: their tree, what they do not say, and receivers that are bad or away."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Sent

from leadline.flows.evaluate.config import EvaluateConfig, EvaluateResult
from leadline.flows.evaluate.job import Evaluate
from leadline.plugins.ops.traces import run_trace
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
