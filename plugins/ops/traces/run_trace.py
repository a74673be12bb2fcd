"""The export of a run's spans, scores and numbers by OTLP over HTTP, where ``OTEL_EXPORTER_OTLP_ENDPOINT`` says so.

OpenTelemetry's exporter reads its own variables: endpoint, headers, certificates, the service's name. An export never
fails a run and never holds it up for more than :data:`DEADLINE_S`.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from leadline.plugins.ops.traces.span_tree import Node, Value, tree_of
from leadline.tasks.ground.timeline import Timeline
from leadline.tasks.ledger.ledger import read_ledger
from leadline.tasks.store.store import Run, Store

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
CALLS_VARIABLE: Final = "LEADLINE_TRACE_CALLS"
"""With ``1`` each judge call is a span of its own."""

DEADLINE_S: Final = 10.0
BATCH: Final = 512
"""Spans or events in one request."""

MOST_CALLS: Final = 2_000

_log = logging.getLogger("leadline.traces")


def trace_of(store: Store, run: Run, timeline: Timeline, error: BaseException | None) -> Mapping[str, str]:
    """Send the trace of a run that has ended, and return its id for the run's record; ``{}`` where none is wanted."""
    trace = export_run(store, run, timeline, error)
    return {"trace": trace} if trace else {}


def export_run(store: Store, run: Run, timeline: Timeline, error: BaseException | None = None) -> str:
    """Export what there is to tell of a run that has ended, if that is wanted.

    Args:
        timeline: Its time.
        error: What it failed with; its scores are not exported then.

    Returns:
        The id of its trace, ``""`` without one.
    """
    signals = [signal for signal in ("TRACES", "METRICS", "LOGS") if _wanted(signal)]
    if not signals:
        return ""
    try:
        spans = list(_spans(_tree(store, run, timeline, error), error))
        sending = partial(_send, store, run, spans, signals if error is None else signals[:1])
        thread = threading.Thread(target=sending, name="leadline-traces", daemon=True)
        thread.start()
        thread.join(DEADLINE_S)
        if thread.is_alive():
            _log.warning("The trace of run %s did not reach its receiver in %g s.", run.id, DEADLINE_S)
        context = spans[0].get_span_context()
        return f"{context.trace_id:032x}" if context and "TRACES" in signals else ""
    except ImportError:
        _log.warning("Traces need the extra otel: pip install -c constraints.txt -e '.[otel]'")
    except Exception as failure:  # whatever it is, the run has ended well
        _log.warning("The trace of run %s cannot be exported: %s", run.id, type(failure).__name__)
    return ""


def _wanted(signal: str) -> bool:
    """Return whether the environment names a receiver of traces, metrics or logs, and does not turn them off."""
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    if os.environ.get(f"OTEL_{signal}_EXPORTER", "").lower() == "none":
        return False
    return bool(os.environ.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT") or os.environ.get(ENDPOINT))


def _tree(store: Store, run: Run, timeline: Timeline, error: BaseException | None) -> Node:
    record = run.read()
    known: dict[str, Value] = {"leadline.run": run.id, "leadline.status": "failed" if error else "completed"}
    for name in ("gate", "rows", "cases", "reused", "computed"):
        if isinstance(record.get(name), str | int):
            known[f"leadline.{name}"] = record[name]
    known |= {f"leadline.{name}": count for name, count in (record.get("counts") or {}).items()}
    ledger = read_ledger(store)
    asked = [_sums(line) for line in (record.get("judge_calls") or {}).get("by_evaluator", ())]
    calls = ledger.call_times(run.id, MOST_CALLS) if os.environ.get(CALLS_VARIABLE) == "1" else ()
    return tree_of(timeline.spans, timeline.lane_spans, known, asked, calls)


def _sums(line: Mapping[str, Any]) -> dict[str, Any]:
    names = ("evaluator", "asked", "answered", "failed", "lost", "input_tokens", "output_tokens", "cost_usd")
    return {name: line[name] for name in names if name in line}


def _spans(root: Node, error: BaseException | None) -> Iterator[ReadableSpan]:
    """Yield the spans of a tree, the root first, as OpenTelemetry's exporter takes them."""
    from opentelemetry import trace
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import Event, ReadableSpan
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    release = version("leadline")
    named = {"service.version": release}
    if not os.environ.get("OTEL_SERVICE_NAME"):
        named["service.name"] = "leadline"
    resource = Resource.create(named)
    scope = _scope()
    ids = RandomIdGenerator()
    # A CI system, say, may have a trace that this run is a part of.
    around = TraceContextTextMapPropagator().extract({"traceparent": os.environ.get("TRACEPARENT", "")})
    above = trace.get_current_span(around).get_span_context()
    trace_id = above.trace_id if above.is_valid else ids.generate_trace_id()
    sampled = trace.TraceFlags(trace.TraceFlags.SAMPLED)

    def walk(node: Node, parent: trace.SpanContext | None) -> Iterator[ReadableSpan]:
        context = trace.SpanContext(trace_id, ids.generate_span_id(), is_remote=False, trace_flags=sampled)
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
            instrumentation_scope=scope,
        )
        for child in node.children:
            yield from walk(child, context)

    yield from walk(root, above if above.is_valid else None)


def _send(store: Store, run: Run, spans: Sequence[ReadableSpan], signals: Sequence[str]) -> None:
    """Send spans, then numbers, then scores; a receiver that takes one of them need not take the others."""
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # it would show what servers say as they say it
    senders = {"TRACES": _send_spans, "METRICS": _send_measurements, "LOGS": _send_events}
    for signal in signals:
        try:
            taken = senders[signal](store, run, spans)
        except Exception as failure:
            _log.warning("The %s of run %s cannot be exported: %s", signal.lower(), run.id, type(failure).__name__)
            taken = False
        else:
            if not taken:
                _log.warning("The receiver of %s does not take them, or does not answer.", signal.lower())
        if not taken and signal == "TRACES":
            return  # nor will it take the others


def _send_spans(store: Store, run: Run, spans: Sequence[ReadableSpan]) -> bool:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import SpanExportResult

    exporter = OTLPSpanExporter(timeout=DEADLINE_S)
    batches = (spans[first : first + BATCH] for first in range(0, len(spans), BATCH))
    return all(exporter.export(batch) is SpanExportResult.SUCCESS for batch in batches)


def _send_measurements(store: Store, run: Run, spans: Sequence[ReadableSpan]) -> bool:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics.export import MetricExportResult

    from leadline.plugins.ops.traces.run_measurements import metrics_data

    root = spans[0]
    data = metrics_data(store, run, int(root.end_time or 0), root.resource, _scope())
    return OTLPMetricExporter(timeout=DEADLINE_S).export(data) is MetricExportResult.SUCCESS


def _send_events(store: Store, run: Run, spans: Sequence[ReadableSpan]) -> bool:
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.sdk._logs.export import LogRecordExportResult

    from leadline.plugins.ops.traces.score_events import score_events

    root = spans[0]
    context = root.get_span_context()
    assert context is not None  # noqa: S101 - each of our spans has one
    events = list(score_events(store, run, int(root.end_time or 0), context, root.resource, _scope()))
    exporter = OTLPLogExporter(timeout=DEADLINE_S)
    batches = (events[first : first + BATCH] for first in range(0, len(events), BATCH))
    return all(exporter.export(batch) is LogRecordExportResult.SUCCESS for batch in batches)


def _scope() -> InstrumentationScope:
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    return InstrumentationScope("leadline", version("leadline"))
