"""Traces that Langfuse exports, as spans: with their observations, or observations alone.

Its API names members ``traceId``, the files that it writes to a bucket ``trace_id``: both are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from leadline.plugins.traces.content import (
    amount,
    count,
    first,
    inside,
    kept,
    listed,
    moment,
    rating,
    text,
    with_content,
)
from leadline.plugins.traces.span import Annotated, Kind, TraceSpan, Usage

_KINDS: Final[Mapping[str, Kind]] = {
    "GENERATION": "llm",
    "TOOL": "tool",
    "RETRIEVER": "retriever",
    "AGENT": "agent",
    "CHAIN": "chain",
    "SPAN": "chain",
}
_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "trace": ("traceId", "trace_id"),
    "parent": ("parentObservationId", "parent_observation_id"),
    "start": ("startTime", "start_time"),
    "end": ("endTime", "end_time"),
    "session": ("sessionId", "session_id"),
    "model": ("model", "providedModelName", "provided_model_name", "modelId"),
    "status": ("statusMessage", "status_message"),
    "usage": ("usageDetails", "usage_details", "usage"),
    "cost": ("costDetails", "cost_details"),
    "total": ("calculatedTotalCost", "totalCost", "total_cost"),
    "observation": ("observationId", "observation_id"),
    "person": ("authorUserId", "author_user_id"),
    "label": ("stringValue", "string_value"),
}
_SESSIONS: Final = ("gen_ai.conversation.id", "session.id")
_KEPT: Final = ("tags", "userId", "user_id", "environment", "release", "version")
_OF_LANGFUSE: Final = frozenset({"attributes", "resourceAttributes", "scope"})
_PEOPLE: Final = frozenset({"ANNOTATION", "HUMAN"})


def recognises(record: Mapping[str, Any]) -> bool:
    """Say whether a record is a trace of Langfuse's with its observations, or an observation."""
    if isinstance(record.get("observations"), list):
        return isinstance(record.get("trace"), dict) or "sessionId" in record or "projectId" in record
    return "type" in record and _of(record, "trace") is not None and any(name in record for name in _NAMES["parent"])


def spans_of(record: Mapping[str, Any]) -> Iterator[TraceSpan]:
    """Yield the spans of a trace, or of an observation that stands alone."""
    observations = [each for each in listed(record.get("observations")) if isinstance(each, dict)]
    if not observations:
        yield from [_span(record, record)] if _of(record, "trace") is not None else []
        return
    trace = inside(record, "trace") or record
    known = {text(each.get("id")) for each in observations}
    root = next((each for each in observations if text(_of(each, "parent")) not in known), observations[0])
    scores = [each for each in (*listed(trace.get("scores")), *listed(record.get("scores"))) if isinstance(each, dict)]
    for each in observations:
        span = _span(each, trace)
        said = tuple(filter(None, (_annotated(score) for score in scores if _rates(score, each, root))))
        if said or each is root:
            span.annotations = said
            span.metadata = {**span.metadata, **_facts(trace)} if each is root else span.metadata
        yield span


def _of(record: Mapping[str, Any], name: str) -> Any:
    return first(record, *_NAMES[name])


def _rates(score: Mapping[str, Any], observation: Mapping[str, Any], root: Mapping[str, Any]) -> bool:
    """Say whether a score is of an observation: its own, or for the root one of the whole trace."""
    rated = _of(score, "observation")
    return observation is root if rated is None else rated == observation.get("id")


def _span(record: Mapping[str, Any], trace: Mapping[str, Any]) -> TraceSpan:
    metadata = inside(record, "metadata")
    attributes = inside(metadata, "attributes")
    kind = _kind(record, attributes)
    session = _of(record, "session") or _of(trace, "session") or first(attributes, *_SESSIONS)
    start = moment(_of(record, "start"))
    failed = text(record.get("level")) == "ERROR"
    span = TraceSpan(
        trace=text(_of(record, "trace")) or text(trace.get("id")),
        id=text(record.get("id")),
        parent=text(_of(record, "parent")),
        kind=kind,
        name=text(attributes.get("gen_ai.tool.name") if kind == "tool" else None) or text(record.get("name")),
        start_ns=start,
        end_ns=start if record.get("type") == "EVENT" else moment(_of(record, "end")),
        error=text(_of(record, "status")) if failed else None,
        session=text(session) or text(metadata.get("thread_id")),
        model=text(_of(record, "model")),
        call_id=text(attributes.get("gen_ai.tool.call.id")) if kind == "tool" else "",
        usage=_usage(record) if kind == "llm" else Usage(),
        metadata=_facts(record) if trace is record and not _of(record, "parent") else {},
    )
    return with_content(span, record.get("input"), record.get("output"))


def _kind(record: Mapping[str, Any], attributes: Mapping[str, Any]) -> Kind:
    """Return the kind of an observation; SDKs from before the types of tools and agents write plain spans."""
    type_ = text(record.get("type")).upper()
    if type_ == "SPAN":
        returned = inside(record, "output")
        if returned.get("type") == "tool" and "tool_call_id" in returned:
            return "tool"
        if "gen_ai.agent.name" in attributes:
            return "agent"
    return _KINDS.get(type_, "other")


def _usage(record: Mapping[str, Any]) -> Usage:
    usage, cost = inside({"": _of(record, "usage")}, ""), inside({"": _of(record, "cost")}, "")
    total = cost.get("total") if cost else _of(record, "total") or None
    return Usage(
        input_tokens=count(first(usage, "input", "promptTokens", "input_tokens", "prompt_tokens")),
        output_tokens=count(first(usage, "output", "completionTokens", "output_tokens", "completion_tokens")),
        cost_usd=amount(total),
    )


def _annotated(score: Mapping[str, Any]) -> Annotated | None:
    type_ = text(first(score, "dataType", "data_type"))
    value = rating(
        first(score, "value", *_NAMES["label"]) if type_ in ("", "NUMERIC", "BOOLEAN") else _of(score, "label")
    )
    if value is None or not text(score.get("name")):
        return None
    value = bool(value) if type_ == "BOOLEAN" and not isinstance(value, str) else value
    return Annotated(
        name=text(score["name"]),
        value=value,
        person=text(_of(score, "person")),
        human=text(score.get("source")).upper() in _PEOPLE,
        note=text(score.get("comment")),
    )


def _facts(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a user noted of a trace."""
    noted = {name: value for name, value in inside(record, "metadata").items() if name not in _OF_LANGFUSE}
    return kept(record, _KEPT) | noted
