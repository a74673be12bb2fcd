"""The signals of a run for OpenTelemetry: its spans, its numbers as metrics, and its scores as events.

The spans are a tree: the run, its parts, their steps, lanes and chunks; made from its timeline. No span holds a text of
the dataset, a question or a reply: names are those of steps, chunks and evaluators.

Scores are events ``gen_ai.evaluation.result`` of OpenTelemetry's conventions for generative AI. An event has the
metric's name, its value, ``pass`` or ``fail`` as its label where there is a threshold, and as ``error.type`` why a row
is unscored. It belongs to the span that gave the answer where the row's metadata names one (``trace_id``, ``span_id``),
else to the run's; ``response_id`` in the metadata is told, too.

What sends a signal is imported by its sender, in the thread that is waited for only so long: a release of OpenTelemetry
that has one of them elsewhere costs that signal and no other.
"""

from __future__ import annotations

import math
import os
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from leadline.tasks.db import open_run, records, sql
from leadline.tasks.ground.timeline import SCORE, RunTime, TimeSpan
from leadline.tasks.runs.show import overview
from leadline.tasks.store.store import Run, Store

if TYPE_CHECKING:
    from opentelemetry.sdk._logs import ReadableLogRecord

BATCH: Final = 512
"""Spans or events in one request."""

MOST: Final = 5_000
"""Spans that are exported of a run; judge calls beyond are left out first, then chunks."""

MOST_POINTS: Final = 2_000
"""Values of metrics and models that are told of a run."""

LONGEST_NAME: Final = 200
GATES: Final = {"pass": 1.0, "inconclusive": 0.5, "fail": 0.0}

NAMES: Final[Mapping[str, tuple[str, str]]] = {
    "leadline.metric.value": ("1", "Value of an evaluator's metric for a model."),
    "leadline.metric.coverage": ("1", "Share of rows scored, of those that could be."),
    "leadline.run.gate": ("1", "The gate: 1 for pass, 0 for fail, 0.5 for inconclusive."),
    "leadline.run.scores": ("{score}", "Scores by status."),
    "leadline.run.problems": ("{problem}", "Problems by severity and by who is at fault."),
    "leadline.run.duration": ("s", "Time that the run took."),
    "leadline.judge.calls": ("{call}", "Judge calls of the run by evaluator."),
    "leadline.judge.cost": ("USD", "Price of the run's judge calls by evaluator."),
}
"""Unit and description of each metric."""

EVENT: Final = "gen_ai.evaluation.result"
MOST_EVENTS: Final = 10_000
"""Scores of a run that become events; those that fail or are unscored come first."""

TEXTS_VARIABLE: Final = "LEADLINE_TRACE_TEXTS"
"""With ``1`` events have the evidence in a sentence, which may repeat what a row says."""

LONGEST: Final = 1_000

_TRACE_ID: Final = re.compile(r"(?:0x)?([0-9a-f]{32})")
_SPAN_ID: Final = re.compile(r"(?:0x)?([0-9a-f]{16})")

Value = str | int | float | bool
Point = tuple[float, dict[str, str]]

_SCOPE: Final = InstrumentationScope("leadline", version("leadline"))
_SAMPLED: Final = trace.TraceFlags(trace.TraceFlags.SAMPLED)


@dataclass(slots=True)
class Node:
    """A span with those within it.

    Attributes:
        began: In microseconds since 1970.
        ended: The same.
        events: Events within it, each with its attributes.
    """

    name: str
    began: int
    ended: int
    attributes: dict[str, Value] = field(default_factory=dict)
    events: list[tuple[str, int, dict[str, Value]]] = field(default_factory=list)
    children: list[Node] = field(default_factory=list)


def tree_of(
    spans: Sequence[TimeSpan],
    lanes: Sequence[TimeSpan],
    attributes: Mapping[str, Value],
    asked: Sequence[Mapping[str, Any]] = (),
    calls: Sequence[Mapping[str, Any]] = (),
) -> Node:
    """Return the tree of a run's spans.

    Args:
        asked: Sums over its judge calls by evaluator, which become an event each.
        calls: Lines of ``ledger/call_times``; each becomes a span.
    """
    parts = [
        _node(span, **{"leadline.kind": "part"}) for span in spans if span.kind == "part" and span.ended > span.began
    ]
    parts.sort(key=lambda part: part.began)
    began = min((part.began for part in parts), default=0)
    ended = max((part.ended for part in parts), default=0)
    root = Node("leadline.run", began, ended, dict(attributes), children=parts)
    for step in (span for span in spans if span.kind == "step"):
        _within(parts, step.began, root).children.append(_node(step, **{"leadline.kind": "step"}))
    score = next((part for part in reversed(parts) if part.name == SCORE), root)
    by_lane = {lane.name: _node(lane, f"lane {lane.name}", **{"leadline.lane": lane.name}) for lane in lanes}
    score.children += by_lane.values()
    room = MOST - len(parts) - len(by_lane)
    for chunk in [span for span in spans if span.kind == "chunk"][:room]:
        lane = by_lane.get(chunk.name.partition("-")[0], score)
        lane.children.append(_node(chunk, **{"leadline.kind": "chunk", "leadline.process": chunk.process}))
        room -= 1
    for sums in asked:
        known = {f"leadline.{name}": value for name, value in sums.items() if isinstance(value, str | int | float)}
        by_lane.get("judge", score).events.append(("judge calls", score.ended, known))
    for call in calls[: max(0, room)]:
        by_lane.get("judge", score).children.append(_call(call))
    return root


def _node(span: TimeSpan, name: str = "", **attributes: Value) -> Node:
    return Node(name or span.name, span.began, span.ended, attributes)


def _call(call: Mapping[str, Any]) -> Node:
    began = round(call["intended_at"] * 1e6)
    known = {f"leadline.{name}": call[name] for name in ("state", "tries") if call[name] is not None}
    return Node(f"call {call['purpose']}", began, max(began, round(call["ended_at"] * 1e6)), known)


def _within(parts: Sequence[Node], moment: int, root: Node) -> Node:
    """Return the part that was on at a moment."""
    at = bisect_right([part.began for part in parts], moment) - 1
    return parts[at] if at >= 0 else root


def spans_of(root: Node, error: BaseException | None) -> Iterator[ReadableSpan]:
    """Yield the spans of a tree, the root first, as OpenTelemetry's exporter takes them."""
    named = {"service.version": version("leadline")}
    if not os.environ.get("OTEL_SERVICE_NAME"):
        named["service.name"] = "leadline"
    resource = Resource.create(named)
    ids = RandomIdGenerator()
    # A CI system, say, may have a trace that this run is a part of.
    around = TraceContextTextMapPropagator().extract({"traceparent": os.environ.get("TRACEPARENT", "")})
    above = trace.get_current_span(around).get_span_context()
    trace_id = above.trace_id if above.is_valid else ids.generate_trace_id()

    def walk(node: Node, parent: trace.SpanContext | None) -> Iterator[ReadableSpan]:
        context = trace.SpanContext(trace_id, ids.generate_span_id(), is_remote=False, trace_flags=_SAMPLED)
        failed = error is not None and node is root
        status = trace.Status(trace.StatusCode.ERROR, type(error).__name__) if failed else trace.Status()
        yield ReadableSpan(
            name=node.name,
            context=context,
            parent=parent,
            resource=resource,
            attributes=node.attributes,
            events=[Event(name, about, moment * 1000) for name, moment, about in node.events],
            kind=trace.SpanKind.INTERNAL,
            status=status,
            start_time=node.began * 1000,
            end_time=node.ended * 1000,
            instrumentation_scope=_SCOPE,
        )
        for child in node.children:
            yield from walk(child, context)

    yield from walk(root, above if above.is_valid else None)


def send_spans(store: Store, run: Run, spans: Sequence[ReadableSpan], seconds: float) -> bool:
    """Send the spans of a run, and return whether all were taken."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import SpanExportResult

    exporter = OTLPSpanExporter(timeout=seconds)
    batches = (spans[first : first + BATCH] for first in range(0, len(spans), BATCH))
    return all(exporter.export(batch) is SpanExportResult.SUCCESS for batch in batches)


def send_measurements(store: Store, run: Run, spans: Sequence[ReadableSpan], seconds: float) -> bool:
    """Send the numbers of a completed run, each with its name and dataset, and return whether they were taken."""
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics import export

    root, record = spans[0], run.read()
    moment = int(root.end_time or 0)
    shared = {f"leadline.{name}": str(record.get(name) or "")[:LONGEST_NAME] for name in ("name", "dataset_name")}
    metrics = [
        export.Metric(
            name,
            description=NAMES[name][1],
            unit=NAMES[name][0],
            data=export.Gauge(
                [export.NumberDataPoint(shared | labels, moment, moment, value) for value, labels in lines]
            ),
        )
        for name, lines in measurements_of(store, run).items()
    ]
    data = export.MetricsData([export.ResourceMetrics(root.resource, [export.ScopeMetrics(_SCOPE, metrics, "")], "")])
    return OTLPMetricExporter(timeout=seconds).export(data) is export.MetricExportResult.SUCCESS


def measurements_of(store: Store, run: Run) -> dict[str, list[Point]]:
    """Return the numbers of a run by metric."""
    found = overview(store, run)
    points = {name: list(_of(name, found)) for name in NAMES}
    return {name: lines for name, lines in points.items() if lines}


def _of(name: str, found: Mapping[str, Any]) -> Iterator[Point]:
    record = found["record"]
    if name.startswith("leadline.metric."):
        for line in found["board"][:MOST_POINTS]:
            measured = line["n_scored"] + line["n_unscored"]
            share = line["n_scored"] / measured if measured else None
            value = line["value"] if name.endswith("value") else share
            if value is not None and math.isfinite(value):
                yield (
                    float(value),
                    {
                        "gen_ai.evaluation.name": f"{line['evaluator']}.{line['metric']}",
                        "leadline.model": str(line["model"])[:LONGEST_NAME],
                    },
                )
    elif name == "leadline.run.gate" and found["gate"] in GATES:
        yield GATES[found["gate"]], {}
    elif name == "leadline.run.scores":
        for status, number in (record.get("counts") or {}).items():
            yield float(number), {"leadline.status": status}
    elif name == "leadline.run.problems":
        for whose, counts in (record.get("problems_by_fault") or {}).items():
            for severity, number in counts.items():
                yield float(number), {"leadline.fault": whose, "leadline.severity": severity}
    elif name == "leadline.run.duration":
        time = RunTime.from_record(record)
        if time is not None:
            yield time.total, {}
    elif name.startswith("leadline.judge."):
        for line in (record.get("judge_calls") or {}).get("by_evaluator", ()):
            number = line.get("asked" if name.endswith("calls") else "cost_usd")
            if number is not None:
                yield float(number), {"leadline.evaluator": str(line.get("evaluator") or "")}


def send_events(store: Store, run: Run, spans: Sequence[ReadableSpan], seconds: float) -> bool:
    """Send the scores of each evaluator's primary metric as events, and return whether all were taken."""
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.sdk._logs.export import LogRecordExportResult

    asked = {"texts": os.environ.get(TEXTS_VARIABLE) == "1", "most": MOST_EVENTS}
    with open_run(store, run, read_only=True) as connection:
        lines = records(connection, sql("telemetry/scores"), asked)
    events = [_event(line, run, spans[0]) for line in lines]
    exporter = OTLPLogExporter(timeout=seconds)
    batches = (events[first : first + BATCH] for first in range(0, len(events), BATCH))
    return all(exporter.export(batch) is LogRecordExportResult.SUCCESS for batch in batches)


def _event(line: Mapping[str, Any], run: Run, root: ReadableSpan) -> ReadableLogRecord:
    from opentelemetry._logs import LogRecord, SeverityNumber
    from opentelemetry.sdk._logs import ReadableLogRecord

    span = trace.NonRecordingSpan(_answered_in(line) or root.context)
    record = LogRecord(
        timestamp=root.end_time,
        observed_timestamp=root.end_time,
        context=trace.set_span_in_context(span),
        severity_number=SeverityNumber.INFO,
        event_name=EVENT,
        attributes={"leadline.run": run.id, **attributes_of(line)},
    )
    return ReadableLogRecord(record, root.resource, _SCOPE)


def attributes_of(line: Mapping[str, Any]) -> dict[str, str | float]:
    """Return the attributes of a score's event."""
    passes = line["passes"]
    known = {
        "gen_ai.evaluation.name": f"{line['evaluator']}.{line['metric']}",
        "gen_ai.evaluation.score.value": line["value"],
        "gen_ai.evaluation.score.label": None if passes is None else "pass" if passes else "fail",
        "gen_ai.evaluation.explanation": line["explanation"],
        "gen_ai.response.id": line["response_id"],
        "error.type": line["reason"] if line["value"] is None else None,
        "leadline.case": line["case_key"],
        "leadline.model": line["model_key"],
    }
    return {
        name: value[:LONGEST] if isinstance(value, str) else value for name, value in known.items() if value is not None
    }


def _answered_in(line: Mapping[str, Any]) -> trace.SpanContext | None:
    """Return the span that gave the answer, where the row's metadata names it."""
    trace_id = _TRACE_ID.fullmatch(str(line["trace_id"] or "").lower())
    span_id = _SPAN_ID.fullmatch(str(line["span_id"] or "").lower())
    if trace_id is None or span_id is None:
        return None
    found = trace.SpanContext(int(trace_id[1], 16), int(span_id[1], 16), is_remote=True, trace_flags=_SAMPLED)
    return found if found.is_valid else None


Sender: TypeAlias = Callable[[Store, Run, Sequence[ReadableSpan], float], bool]

SENDERS: Final[Mapping[str, Sender]] = {
    "TRACES": send_spans,
    "METRICS": send_measurements,
    "LOGS": send_events,
}
"""What sends each signal of a run, within some seconds; returns whether it was taken."""
