"""Traces of MLflow as spans, of versions 2 and 3, alone or in the column ``trace`` of Databricks' evaluation sets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Any, Final

from leadline.plugins.traces.content import (
    amount,
    annotated,
    count,
    first,
    hexed,
    inside,
    listed,
    moment,
    opened,
    text,
    tools_in,
    with_content,
)
from leadline.plugins.traces.otlp import RawSpan
from leadline.plugins.traces.span import ELSEWHERE, Annotated, Kind, TraceSpan, Usage
from leadline.tasks.load.columns import field_of

_KINDS: Final[Mapping[str, Kind]] = {
    "LLM": "llm",
    "CHAT_MODEL": "llm",
    "TOOL": "tool",
    "RETRIEVER": "retriever",
    "AGENT": "agent",
    "CHAIN": "chain",
    "WORKFLOW": "chain",
    "TASK": "chain",
}
_OWN: Final = "mlflow."
_ERRORS: Final = frozenset({"ERROR", "STATUS_CODE_ERROR", "2"})


def recognises(record: Mapping[str, Any]) -> bool:
    """Say whether a record is a trace, a row that has one, or one of an inference table."""
    return bool(_trace(record)) or "databricks_request_id" in record


def recognises_names(names: Set[str]) -> bool:
    """Say whether a table with these columns is one of traces: MLflow's, or an inference table of Databricks'."""
    asked = {match.field for match in map(field_of, names) if match and match.clear} & {"question", "actual_answer"}
    return "databricks_request_id" in names or ("trace" in names and (not asked or "spans" in names))


def spans_of(record: Mapping[str, Any]) -> Iterator[TraceSpan]:
    """Yield the spans of a trace; where MLflow keeps them in a store of artifacts, one that says so."""
    trace = _trace(record)
    if not trace:
        yield _served(record)
        return
    info = inside(trace, "info")
    metadata = inside(info, "trace_metadata") or inside(info, "request_metadata")
    id_ = text(first(info, "trace_id", "request_id")) or text(first(info, "client_request_id"))
    session = text(metadata.get("mlflow.trace.session"))
    spans = [each for each in listed(inside(trace, "data").get("spans")) if isinstance(each, dict)]
    if trace and not spans:
        begun = moment(first(info, "request_time", "timestamp_ms"))
        yield TraceSpan(trace=id_, id=id_, start_ns=begun, end_ns=begun, session=session, missing=ELSEWHERE)
    read = [_span(each, id_, session) for each in spans]
    ids = {span.id for span in read}
    root = next((span for span in read if span.parent not in ids), read[0] if read else None)
    rated = [(text(each.get("span_id")), found) for each in _assessments(info) if (found := _annotated(each))]
    for span in read:
        told = tuple(found for of, found in rated if (hexed(of) == span.id if of else span is root))
        if told or span is root:
            span.annotations = told
            span.metadata = _facts(info, metadata) if span is root else {}
        yield span


def of_otlp(raw: RawSpan, session: str) -> TraceSpan:
    """Return a span that MLflow sent to a collector of OpenTelemetry's, where its attributes are as in its traces."""
    record = {
        "span_id": raw.id,
        "parent_id": raw.parent,
        "name": raw.name,
        "start_time": raw.start_ns,
        "end_time": raw.end_ns,
        "attributes": raw.attributes,
        "status_code": "OK" if raw.error is None else "ERROR",
        "status_message": raw.error,
    }
    return _span(record, raw.trace, session)


def _trace(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the trace that a record is or has, empty where there is none."""
    for found in (dict(record), inside(record, "trace"), inside(record, "response", "databricks_output", "trace")):
        if isinstance(opened(found.get("info")), dict) and _is_trace(inside(found, "info"), inside(found, "data")):
            return found
    return {}


def _served(record: Mapping[str, Any]) -> TraceSpan:
    """Return a row of an inference table that has no trace: what was asked and answered."""
    begun, took = moment(record.get("timestamp_ms")), count(record.get("execution_time_ms")) or 0
    id_ = text(record.get("databricks_request_id"))
    failed = text(record.get("status_code")) not in ("", "200")
    span = TraceSpan(
        trace=id_,
        id=id_,
        kind="llm",
        start_ns=begun,
        end_ns=begun + took * 10**6 or 1,
        error=f"the status was {record['status_code']}" if failed else None,
        model=text(record.get("served_entity_id")),
    )
    return with_content(span, record.get("request"), record.get("response"))


def _is_trace(info: Mapping[str, Any], data: Mapping[str, Any]) -> bool:
    named = "trace_id" in info or "request_id" in info
    return named and (isinstance(opened(data.get("spans")), list) or "trace_metadata" in info or "state" in info)


def _span(record: Mapping[str, Any], trace: str, session: str) -> TraceSpan:
    attributes = {name: opened(value, marks=()) for name, value in inside(record, "attributes").items()}
    context, status = inside(record, "context"), inside(record, "status")
    kind = _KINDS.get(text(attributes.get("mlflow.spanType")).upper(), "other")
    code = text(first(status, "code", "status_code")) or text(record.get("status_code"))
    message = text(first(status, "message", "description")) or text(record.get("status_message"))
    span = TraceSpan(
        trace=trace or hexed(text(first(record, "trace_id") or context.get("trace_id"))),
        id=hexed(text(first(record, "span_id") or context.get("span_id"))),
        parent=hexed(text(first(record, "parent_span_id", "parent_id"))),
        kind=kind,
        name=text(record.get("name")),
        start_ns=moment(first(record, "start_time_unix_nano", "start_time", "start_time_ns")),
        end_ns=moment(first(record, "end_time_unix_nano", "end_time", "end_time_ns")),
        error=(message or _exception(record)) if code.upper().removeprefix("STATUSCODE.") in _ERRORS else None,
        session=session,
        model=_model(attributes) if kind == "llm" else "",
        tools=tools_in(attributes.get("mlflow.chat.tools")),
        usage=_usage(attributes) if kind == "llm" else Usage(),
    )
    given, returned = attributes.get("mlflow.spanInputs"), attributes.get("mlflow.spanOutputs")
    if kind == "llm" and given is None:
        given = attributes.get("mlflow.chat.messages")
    return with_content(span, given, returned)


def _model(attributes: Mapping[str, Any]) -> str:
    told = [attributes.get("mlflow.llm.model"), inside(attributes, "mlflow.spanOutputs").get("model")]
    told.append(inside(attributes, "mlflow.spanInputs").get("model"))
    return next((text(each) for each in told if text(each)), "")


def _usage(attributes: Mapping[str, Any]) -> Usage:
    usage, cost = inside(attributes, "mlflow.chat.tokenUsage"), inside(attributes, "mlflow.llm.cost")
    return Usage(count(usage.get("input_tokens")), count(usage.get("output_tokens")), amount(cost.get("total_cost")))


def _exception(record: Mapping[str, Any]) -> str:
    """Return the message of the exception that a span recorded."""
    found = (inside(each, "attributes") for each in listed(record.get("events")))
    return next((text(each["exception.message"]) for each in found if "exception.message" in each), "")


def _assessments(info: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what was said of a trace; what somebody has corrected since is not."""
    for each in listed(info.get("assessments")):
        if isinstance(each, dict) and each.get("valid") is not False:
            yield each


def _annotated(assessment: Mapping[str, Any]) -> Annotated | None:
    """Return feedback as an annotation; what people expect is none, see :func:`_facts`."""
    source = inside(assessment, "source")
    return annotated(
        first(assessment, "assessment_name", "name"),
        inside(assessment, "feedback").get("value"),
        source.get("source_id"),
        human=text(source.get("source_type")).upper() == "HUMAN",
        note=assessment.get("rationale"),
    )


def _facts(info: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return what users noted of a trace, and what they expected of it."""
    tags = inside(info, "tags")
    noted = {name: value for name, value in tags.items() if not name.startswith(_OWN)}
    user = {"user": metadata["mlflow.trace.user"]} if metadata.get("mlflow.trace.user") else {}
    for each in _assessments(info):
        expected = inside(each, "expectation")
        value = opened(first(expected, "value") or inside(expected, "serialized_value").get("value"))
        if value is not None and text(first(each, "assessment_name", "name")):
            noted[f"expected.{text(first(each, 'assessment_name', 'name'))}"] = value
    return user | noted
