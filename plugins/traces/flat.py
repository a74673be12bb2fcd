"""Spans in the lines of a table, as Phoenix and OpenInference export: ``context.trace_id``, ``attributes.NAME``.

Attributes may also stand alone, as a logger writes them: an object of ``gen_ai.…`` or ``llm.…``, which is a trace of
one span.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Set
from typing import Any, Final

from leadline.plugins.traces.content import first, inside, listed, moment, opened, text
from leadline.plugins.traces.dialect import DIALECTS
from leadline.plugins.traces.otlp import RawSpan
from leadline.plugins.traces.span import TraceSpan
from leadline.plugins.traces.translate import Translator

_COLUMN: Final = "attributes."
_WHOLE: Final = frozenset({"metadata", "llm.invocation_parameters", "llm.prompt_template.variables"})
"""Attributes that are objects; others are written as one attribute for each of their members."""

_KINDS: Final = frozenset(name for dialect in DIALECTS for name in dialect.kinds)
_SAID: Final = tuple(
    name.removesuffix("N")
    for dialect in DIALECTS
    for fields in (dialect.fields, *dialect.of_kind.values())
    for field in ("inputs", "outputs")
    for name in fields.get(field, ())
    if name.startswith(("gen_ai.", "llm.", "ai.", "traceloop."))
)
"""Beginnings of the names of attributes that hold messages."""
_NUMBERED: Final = ("llm.", "retrieval.")
"""Beginnings of the names of attributes whose lists are written as one attribute for each element."""
_IDS: Final = frozenset({"context", "spanContext", "traceId", "context.trace_id"})

_DEEPEST: Final = 20
_TRANSLATOR: Final = Translator()


def stand_alone(names: Set[str]) -> bool:
    """Return whether attributes of these names are a span's that nothing else is known of."""
    return not _KINDS.isdisjoint(names) or any(name.startswith(_SAID) for name in names)


def recognises(record: Mapping[str, Any]) -> bool:
    """Say whether a record is a line of such a table, a span as Phoenix' service returns it, or attributes alone."""
    if "context.trace_id" in record:
        return any(name == "span_kind" or name.startswith("attributes") for name in record)
    return ("span_kind" in record and "trace_id" in inside(record, "context")) or bool(_alone(record))


def spans_of(record: Mapping[str, Any]) -> Iterator[TraceSpan]:
    """Yield the span in a line; attributes that stand alone have ended, but nobody knows when."""
    if not (attributes := _alone(record)):
        yield _TRANSLATOR.span(_raw(record))
        return
    id_ = hashlib.blake2b(repr(record).encode("utf-8", "replace"), digest_size=16).hexdigest()
    kind = {} if not _KINDS.isdisjoint(attributes) else {"openinference.span.kind": "LLM"}
    ids = {
        "context.trace_id": text(record.get("trace_id")) or id_,
        "context.span_id": text(record.get("span_id")) or id_,
    }
    raw = _raw({**record, **ids, "attributes": None})
    for name, value in attributes.items():
        raw.attributes.update(_members(name, opened(value)) if name.startswith(_NUMBERED) else [(name, value)])
    yield _TRANSLATOR.span(raw._replace(attributes={**kind, **raw.attributes}, end_ns=raw.end_ns or raw.start_ns or 1))


def _alone(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the attributes that stand alone in a record or among its ``attributes``, empty where there are none."""
    if not _IDS.isdisjoint(record):
        return {}
    return next((found for found in (record, inside(record, "attributes")) if stand_alone(found.keys())), {})


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
