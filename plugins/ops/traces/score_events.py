"""Scores as events ``gen_ai.evaluation.result`` of OpenTelemetry's conventions for generative AI.

An event has the metric's name, its value, ``pass`` or ``fail`` as its label where there is a threshold, and as
``error.type`` why a row is unscored. It belongs to the span that gave the answer where the row's metadata names one
(``trace_id``, ``span_id``), else to the run's; ``response_id`` in the metadata is told, too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from leadline.tasks.db import open_run, records, sql
from leadline.tasks.store.store import Run, Store

if TYPE_CHECKING:
    from opentelemetry.sdk._logs import ReadableLogRecord
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext

EVENT: Final = "gen_ai.evaluation.result"
MOST_EVENTS: Final = 10_000
"""Scores of a run that become events; those that fail or are unscored come first."""

TEXTS_VARIABLE: Final = "LEADLINE_TRACE_TEXTS"
"""With ``1`` events have the evidence in a sentence, which may repeat what a row says."""

LONGEST: Final = 1_000

_TRACE_ID: Final = re.compile(r"(?:0x)?([0-9a-f]{32})")
_SPAN_ID: Final = re.compile(r"(?:0x)?([0-9a-f]{16})")


def score_events(
    store: Store, run: Run, moment: int, parent: SpanContext, resource: Resource, scope: InstrumentationScope
) -> Iterator[ReadableLogRecord]:
    """Yield the scores of each evaluator's primary metric as events.

    Args:
        run: A run that was completed.
        moment: When, in nanoseconds since 1970.
        parent: The run's span.
        resource: Who sends them.
        scope: In which version.
    """
    from opentelemetry import trace
    from opentelemetry._logs import LogRecord, SeverityNumber
    from opentelemetry.sdk._logs import ReadableLogRecord

    asked = {"texts": os.environ.get(TEXTS_VARIABLE) == "1", "most": MOST_EVENTS}
    with open_run(store, run, read_only=True) as connection:
        lines = records(connection, sql("telemetry/scores"), asked)
    for line in lines:
        span = trace.NonRecordingSpan(_answered_in(line) or parent)
        yield ReadableLogRecord(
            LogRecord(
                timestamp=moment,
                observed_timestamp=moment,
                context=trace.set_span_in_context(span),
                severity_number=SeverityNumber.INFO,
                event_name=EVENT,
                attributes={"leadline.run": run.id, **attributes_of(line)},
            ),
            resource,
            scope,
        )


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


def _answered_in(line: Mapping[str, Any]) -> SpanContext | None:
    """Return the span that gave the answer, where the row's metadata names it."""
    from opentelemetry import trace

    trace_id = _TRACE_ID.fullmatch(str(line["trace_id"] or "").lower())
    span_id = _SPAN_ID.fullmatch(str(line["span_id"] or "").lower())
    if trace_id is None or span_id is None:
        return None
    sampled = trace.TraceFlags(trace.TraceFlags.SAMPLED)
    found = trace.SpanContext(int(trace_id[1], 16), int(span_id[1], 16), is_remote=True, trace_flags=sampled)
    return found if found.is_valid else None
