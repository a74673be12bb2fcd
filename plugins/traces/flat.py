"""Spans in the lines of a table, as Phoenix and OpenInference export: ``context.trace_id``, ``attributes.NAME``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from leadline.plugins.traces.content import first, inside, listed, moment, opened, text
from leadline.plugins.traces.otlp import RawSpan
from leadline.plugins.traces.span import TraceSpan
from leadline.plugins.traces.translate import Translator

_COLUMN: Final = "attributes."
_WHOLE: Final = frozenset({"metadata", "llm.invocation_parameters", "llm.prompt_template.variables"})
"""Attributes that are objects; others are written as one attribute for each of their members."""

_DEEPEST: Final = 20
_TRANSLATOR: Final = Translator()


def recognises(record: Mapping[str, Any]) -> bool:
    """Say whether a record is a line of such a table, or a span as Phoenix' service returns it."""
    if "context.trace_id" in record:
        return any(name == "span_kind" or name.startswith("attributes") for name in record)
    return "span_kind" in record and "trace_id" in inside(record, "context")


def spans_of(record: Mapping[str, Any]) -> Iterator[TraceSpan]:
    """Yield the span in a line."""
    yield _TRANSLATOR.span(_raw(record))


def _raw(record: Mapping[str, Any]) -> RawSpan:
    """Return the span in a line as it was recorded, with attributes in OpenInference's names."""
    context = inside(record, "context")
    failed = text(record.get("status_code")).upper() == "ERROR"
    attributes = dict(_members("", opened(record.get("attributes"))))
    for name, value in record.items():
        if name.startswith(_COLUMN) and value is not None:
            attributes.update(_members(name.removeprefix(_COLUMN), opened(value)))
    if kind := text(record.get("span_kind")):
        attributes.setdefault("openinference.span.kind", kind)
    return RawSpan(
        trace=text(first(record, "context.trace_id") or context.get("trace_id")),
        id=text(first(record, "context.span_id") or context.get("span_id")),
        parent=text(record.get("parent_id")),
        name=text(record.get("name")),
        start_ns=moment(record.get("start_time")),
        end_ns=moment(record.get("end_time")),
        error=text(record.get("status_message")) if failed else None,
        attributes=attributes,
        events=[
            (text(each.get("name")), inside(each, "attributes")) for each in map(inside, listed(record.get("events")))
        ],
        resource={},
    )


def _members(name: str, value: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield an attribute, or one for each member of an object and of a list of objects."""
    several = isinstance(value, list) and any(isinstance(each, dict) for each in value)
    if depth >= _DEEPEST or name in _WHOLE or not (several or isinstance(value, dict)):
        if name and value is not None:
            yield name, value
        return
    for key, each in enumerate(value) if several else value.items():
        yield from _members(f"{name}.{key}" if name else str(key), each, depth + 1)
