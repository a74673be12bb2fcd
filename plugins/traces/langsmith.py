"""Runs that LangSmith exports, as spans: one run a record, alone or with the runs that it started inside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    tools_in,
    with_content,
)
from leadline.plugins.traces.span import ELSEWHERE, Annotated, Kind, TraceSpan, Usage

_KINDS: Final[Mapping[str, Kind]] = {"llm": "llm", "tool": "tool", "retriever": "retriever", "chain": "chain"}
_THREADS: Final = ("thread_id", "session_id", "conversation_id")
"""Names of the thread in a run's metadata. The run's own ``session_id`` is its project, which holds all threads."""
_MODELS: Final = ("ls_model_name", "model", "model_name")
_IN_A_TRACE: Final = frozenset({"dotted_order", "trace_id", "parent_run_id", "child_runs"})
_PEOPLE: Final = frozenset({"app", "human"})
_KEPT: Final = ("tags", "session_name")
_OF_LANGSMITH: Final = ("ls_", "langgraph_", "LANGSMITH_", "revision_id", "runtime", "__", "checkpoint_")


def recognises(record: Mapping[str, Any]) -> bool:
    """Say whether a record is a run."""
    return isinstance(record.get("run_type"), str) and not _IN_A_TRACE.isdisjoint(record)


def spans_of(record: Mapping[str, Any]) -> Iterator[TraceSpan]:
    """Yield the span of a run, and those of the runs that stand inside it."""
    waiting: list[tuple[Mapping[str, Any], TraceSpan | None]] = [(record, None)]
    while waiting:
        run, parent = waiting.pop()
        yield (span := _span(run, parent))
        inner = [each for each in listed(run.get("child_runs")) if isinstance(each, dict)]
        waiting += [(each, span) for each in reversed(inner)]


def _span(run: Mapping[str, Any], above: TraceSpan | None) -> TraceSpan:
    extra = inside(run, "extra")
    metadata, asked = inside(extra, "metadata"), inside(extra, "invocation_params")
    kind = _KINDS.get(text(run.get("run_type")), "other")
    parent = text(run.get("parent_run_id")) or (above.id if above else "")
    order = text(run.get("dotted_order")).split(".")[0].partition("Z")[2]
    failed = run.get("error") is not None or run.get("status") == "error"
    given, returned = run.get("inputs"), run.get("outputs")
    away = (not given and run.get("inputs_s3_urls")) or (not returned and run.get("outputs_s3_urls"))
    span = TraceSpan(
        trace=text(run.get("trace_id")) or order or (above.trace if above else text(run.get("id"))),
        id=text(run.get("id")),
        parent=parent,
        kind=kind,
        name=text(run.get("name")),
        start_ns=moment(run.get("start_time")),
        end_ns=moment(run.get("end_time")),
        error=text(run.get("error")) if failed else None,
        session=text(first(metadata, *_THREADS)) or text(run.get("thread_id")),
        model=(text(first(metadata, *_MODELS[:1])) or text(first(asked, *_MODELS[1:]))) if kind == "llm" else "",
        call_id=text(first(extra, "tool_call_id") or first(metadata, "tool_call_id")) if kind == "tool" else "",
        tools=tools_in(asked) if kind == "llm" else None,
        usage=_usage(run) if kind == "llm" else Usage(),
        missing=ELSEWHERE if away else "",
        annotations=tuple(filter(None, map(_annotated, _feedback(run)))),
        metadata={} if parent else kept(run, _KEPT) | _noted(metadata),
    )
    return with_content(span, given, returned)


def _usage(run: Mapping[str, Any]) -> Usage:
    """Return the usage as the service counts it, or as the model's answer tells it."""
    outputs = inside(run, "outputs")
    told = (
        inside(outputs, "usage_metadata")
        or inside(run, "extra", "metadata", "usage_metadata")
        or inside(outputs, "llm_output", "token_usage")
        or inside(outputs, "usage")
    )
    sent, received = first(told, "input_tokens", "prompt_tokens"), first(told, "output_tokens", "completion_tokens")
    return Usage(
        input_tokens=count(run.get("prompt_tokens") or sent),
        output_tokens=count(run.get("completion_tokens") or received),
        cost_usd=amount(first(run, "total_cost") or first(told, "total_cost")),
    )


def _feedback(run: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what was said of a run: each opinion, or the mean of several, of which nobody knows who said it."""
    for each in listed(run.get("feedback")):
        if isinstance(each, dict):
            yield each
    for key, found in inside(run, "feedback_stats").items():
        if isinstance(found, dict):
            yield {"key": key, "score": found.get("avg")}


def _annotated(feedback: Mapping[str, Any]) -> Annotated | None:
    source = inside(feedback, "feedback_source")
    return annotated(
        feedback.get("key"),
        first(feedback, "score", "value"),
        first(source, "user_name", "user_id"),
        human=text(source.get("type")).lower() in _PEOPLE,
        note=feedback.get("comment"),
    )


def _noted(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a user noted of a run, without what LangChain adds."""
    ours = (name for name in metadata if not name.startswith(_OF_LANGSMITH) and name not in _THREADS)
    return kept(metadata, tuple(name for name in ours if name != "usage_metadata"))
