"""Traces that Langfuse exports, as spans: with their observations, or observations, traces and scores each alone.

Its API names members ``traceId``, the files that it writes to a bucket ``trace_id``: both are read, as JSON or CSV.
What stands alone of a trace, or as a score, is a span without an id, which :mod:`leadline.plugins.traces.read` joins.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Set
from contextlib import suppress
from typing import Any, Final

from leadline.plugins.traces.content import (
    amount,
    annotated,
    count,
    first,
    inside,
    kept,
    listed,
    moment,
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
    "user": ("userId", "user_id"),
    "type": ("dataType", "data_type"),
    "sent": ("inputUsage", "input_usage", "promptTokens", "prompt_tokens"),
    "received": ("outputUsage", "output_usage", "completionTokens", "completion_tokens"),
}
_SESSIONS: Final = ("gen_ai.conversation.id", "session.id")
_KEPT: Final = ("tags", "userId", "user_id", "environment", "release", "version")
_OF_LANGFUSE: Final = frozenset({"attributes", "resourceAttributes", "scope"})
_PEOPLE: Final = frozenset({"ANNOTATION", "HUMAN"})


def recognises(record: Mapping[str, Any]) -> bool:
    """Say whether a record is a trace of Langfuse's with its observations or alone, an observation, or a score."""
    if isinstance(record.get("observations"), list):
        return isinstance(record.get("trace"), dict) or "sessionId" in record or "projectId" in record
    return recognises_names(record.keys())


def recognises_names(names: Set[str]) -> bool:
    """Say whether a record with these members is an observation, a trace or a score that stands alone."""
    if _has(names, "trace") and _has(names, "parent"):
        return "type" in names
    return _is_score(names) or _is_trace(names)


def _has(names: Set[str], name: str) -> bool:
    return any(each in names for each in _NAMES[name])


def _is_score(names: Set[str]) -> bool:
    rated = _has(names, "trace") or _has(names, "session")
    return rated and {"name", "source"} <= names and ("value" in names or _has(names, "label"))


def _is_trace(names: Set[str]) -> bool:
    return {"id", "timestamp", "release"} <= names and _has(names, "session") and _has(names, "user")


def spans_of(record: Mapping[str, Any]) -> Iterator[TraceSpan]:
    """Yield the spans of a trace, or what a record is that stands alone."""
    observations = [each for each in listed(record.get("observations")) if isinstance(each, dict)]
    if not observations:
        if _is_score(record.keys()):
            yield from _scored(record)
        elif _of(record, "trace") is not None:
            yield _span(record, record)
        elif _is_trace(record.keys()):
            yield _trace(record)
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


def _trace(record: Mapping[str, Any]) -> TraceSpan:
    """Return what is known of a trace whose observations stand elsewhere, or nowhere."""
    begun = moment(record.get("timestamp"))
    span = TraceSpan(
        trace=text(record.get("id")),
        id="",
        kind="agent",
        name=text(record.get("name")),
        start_ns=begun,
        end_ns=begun + round((amount(record.get("latency")) or 0) * 1e9) or 1,
        session=text(_of(record, "session")),
        metadata=_facts(record),
    )
    return with_content(span, record.get("input"), record.get("output"))


def _scored(score: Mapping[str, Any]) -> Iterator[TraceSpan]:
    """Yield the score of an observation, of a trace or of a session, which stands in a file of its own."""
    session = text(_of(score, "session"))
    trace = text(_of(score, "trace")) or f"session {session}"
    if (said := _annotated(score)) is not None:
        yield TraceSpan(trace, "", text(_of(score, "observation")), end_ns=1, session=session, annotations=(said,))


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
        input_tokens=count(first(usage, "input", "input_tokens", *_NAMES["sent"]) or _of(record, "sent")),
        output_tokens=count(first(usage, "output", "output_tokens", *_NAMES["received"]) or _of(record, "received")),
        cost_usd=amount(total),
    )


def _annotated(score: Mapping[str, Any]) -> Annotated | None:
    type_ = text(_of(score, "type"))
    given = _of(score, "label") if type_ not in ("", "NUMERIC", "BOOLEAN") else first(score, "value", *_NAMES["label"])
    if type_ in ("NUMERIC", "BOOLEAN") and isinstance(given, str):  # a cell of a table
        with suppress(ValueError):
            given = float(given)
    is_truth = type_ == "BOOLEAN" and isinstance(given, int | float) and math.isfinite(given)
    return annotated(
        score.get("name"),
        bool(given) if is_truth else given,
        _of(score, "person"),
        human=text(score.get("source")).upper() in _PEOPLE,
        note=score.get("comment"),
    )


def _facts(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a user noted of a trace."""
    noted = {name: value for name, value in inside(record, "metadata").items() if name not in _OF_LANGFUSE}
    return kept(record, _KEPT) | noted
