"""The export of a run's spans by OTLP over HTTP, where ``OTEL_EXPORTER_OTLP_ENDPOINT`` says so.

OpenTelemetry's exporter reads its own variables: endpoint, headers, certificates, the service's name. An export never
fails a run and never holds it up for more than :data:`DEADLINE_S`.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from leadline.flows.traces.span_tree import Node, Value, tree_of
from leadline.tasks.ledger.location import read_ledger
from leadline.tasks.store.store import Run, Store
from leadline.tasks.timeline import Timeline

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
CALLS_VARIABLE: Final = "LEADLINE_TRACE_CALLS"
"""With ``1`` each judge call is a span of its own."""

DEADLINE_S: Final = 10.0
BATCH: Final = 512
"""Spans in one request."""

MOST_CALLS: Final = 2_000

_log = logging.getLogger("leadline.traces")


def export_run(store: Store, run: Run, timeline: Timeline, error: BaseException | None = None) -> str:
    """Export the trace of a run that has ended, if that is wanted; return its id, ``""`` without one.

    Args:
        store: The store.
        run: The run.
        timeline: Its time.
        error: What it failed with.
    """
    if not any(os.environ.get(name) for name in ENDPOINTS) or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return ""
    try:
        spans = list(_spans(_tree(store, run, timeline, error), error))
        thread = threading.Thread(target=_send, args=(spans,), name="leadline-traces", daemon=True)
        thread.start()
        thread.join(DEADLINE_S)
        if thread.is_alive():
            _log.warning("The trace of run %s did not reach its receiver in %g s.", run.id, DEADLINE_S)
        context = spans[0].get_span_context()
        return f"{context.trace_id:032x}" if context else ""
    except ImportError:
        _log.warning("Traces need the extra otel: pip install -c constraints.txt -e '.[otel]'")
    except Exception as failure:  # whatever it is, the run has ended well
        _log.warning("The trace of run %s cannot be exported: %s", run.id, type(failure).__name__)
    return ""


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
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    release = version("leadline")
    named = {"service.version": release}
    if not os.environ.get("OTEL_SERVICE_NAME"):
        named["service.name"] = "leadline"
    resource = Resource.create(named)
    scope = InstrumentationScope("leadline", release)
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


def _send(spans: Sequence[ReadableSpan]) -> None:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import SpanExportResult

        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # it would show what servers say as they say it
        exporter = OTLPSpanExporter(timeout=DEADLINE_S)
        for first in range(0, len(spans), BATCH):
            if exporter.export(spans[first : first + BATCH]) is not SpanExportResult.SUCCESS:
                _log.warning("The receiver of traces does not take them, or does not answer.")
                return
    except Exception as failure:
        _log.warning("The trace cannot be exported: %s", type(failure).__name__)
