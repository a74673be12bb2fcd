"""Spans and log records as files have them: OTLP in JSON, JSON Lines or protobuf, and what SDKs print of spans.

A span of an SDK is an object with ``spanContext`` (JavaScript) or ``context`` (Python) and plain attributes.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, TypeAlias

import orjson

from leadline.evaluators.ground import DatasetError
from leadline.plugins.traces.content import first, hexed
from leadline.plugins.traces.span import TraceCounts
from leadline.plugins.traces.wire import BrokenBytes, documents
from leadline.tasks.load.faults import Faults
from leadline.tasks.load.limits import MAX_RECORD
from leadline.tasks.load.readers.json_records import read_document
from leadline.tasks.load.source import SourceFile

_HEAD: Final = 4096
_CONTROLS: Final = bytes(set(range(32)) - {9, 10, 13})
_SPANS: Final = ("resourceSpans", "resource_spans")
_LOGS: Final = ("resourceLogs", "resource_logs")
SECTIONS: Final = frozenset({*_SPANS, *_LOGS})
"""Members of the documents of OTLP that hold all that is in them."""
_KEPT: Final = (
    "service.name",
    "service.version",
    "deployment.environment.name",
    "openinference.project.name",
)
"""Attributes of a resource that say something of a conversation."""
_ERROR: Final = frozenset({2, "2", "STATUS_CODE_ERROR", "ERROR"})
_LATEST_NS: Final = 2**63 - 1


class RawEvent(NamedTuple):
    """An event of a span, or a log record that belongs to one.

    Attributes:
        trace: Id of the span's trace.
        span: The id of the span.
        name: What happened.
        attributes: Its attributes and the members of its body.
    """

    trace: str
    span: str
    name: str
    attributes: dict[str, Any]


class RawSpan(NamedTuple):
    """A span as it was recorded.

    Attributes:
        trace: Id of its trace.
        id: Its id.
        parent: Id of its parent, ``""`` for a root.
        name: Its name.
        start_ns: When it began, in nanoseconds since 1970.
        end_ns: When it ended, 0 where it has not.
        error: What failed, ``""`` where only that is known, ``None`` where nothing did.
        attributes: Its attributes.
        events: Its events.
        resource: Attributes of the program that wrote it.
    """

    trace: str
    id: str
    parent: str
    name: str
    start_ns: int
    end_ns: int
    error: str | None
    attributes: dict[str, Any]
    events: list[tuple[str, dict[str, Any]]]
    resource: dict[str, Any]


Raw: TypeAlias = RawSpan | RawEvent
_Reading: TypeAlias = Callable[[Any, dict[str, Any]], Raw | None]


def read_file(path: Path, counts: TraceCounts) -> Iterator[Raw]:
    """Yield the spans of a file and the log records that belong to one, in its order; count what cannot be read."""
    with path.open("rb") as file:
        head = file.read(_HEAD)
        file.seek(0)
        if head.startswith(b"PAR1"):
            counts.fault("the columns of a table are none of spans")
        elif head.translate(None, _CONTROLS) != head:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as view:
                yield from _from_protobuf(view, counts)
        else:
            yield from _from_lines(file, path, counts)


def _from_protobuf(data: memoryview, counts: TraceCounts) -> Iterator[Raw]:
    try:
        for document in documents(data):
            yield from of_document(document, counts)
    except (BrokenBytes, RecursionError) as error:
        counts.fault(str(error))


def _from_lines(file: BinaryIO, path: Path, counts: TraceCounts) -> Iterator[Raw]:
    """Yield what the documents of JSON Lines contain, or the one document that a file is."""
    is_first = True
    while line := file.readline(MAX_RECORD):
        if not line.strip():
            continue
        try:
            document = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            if is_first:
                yield from _from_document(path, counts)
                return
            counts.fault(f"a line is no JSON ({error})")
            continue
        is_first = False
        yield from of_document(document, counts)


def _from_document(path: Path, counts: TraceCounts) -> Iterator[Raw]:
    """Yield what a document contains, reading a resource at a time."""
    source, faults = SourceFile.at(path), Faults(path.name)
    sections = frozenset() if source.head.lstrip().startswith(b"[") else SECTIONS
    try:
        for item in read_document(source, faults, sections=sections):
            yield from of_document({item.section: [item.value]} if item.section else item.value, counts)
        if faults:
            faults.refuse()
    except DatasetError as error:
        for fault in error.faults:
            counts.fault(fault.message)


def of_document(document: Any, counts: TraceCounts) -> list[Raw]:
    """Return what an OTLP document, a span of an SDK or a list of these contains."""
    if isinstance(document, list):
        return [raw for each in document for raw in of_document(each, counts)]
    if not isinstance(document, dict):
        counts.fault("a document is no object")
        return []
    found: list[Raw] = []
    known = False
    for name, inside, record_name, read in _RECORDS:
        for resource in _listed(document, *name):
            its = _kept(_attributes(_objects(resource, "resource").get("attributes")))
            for scope in _listed(resource, *inside):
                found += _read(read, _listed(scope, *record_name), its, counts)
        known = known or any(each in document for each in name)
    if not known and any(name in document for name in ("spanContext", "context", "traceId", "trace_id")):
        return _read(_of_sdk, [document], {}, counts)
    if not known and not any(name in document for name in ("resourceMetrics", "resource_metrics")):
        counts.fault("a document has no resourceSpans")
    return found


def _read(read: _Reading, records: list[Any], resource: dict[str, Any], counts: TraceCounts) -> list[Raw]:
    found = []
    for record in records:
        try:
            raw = read(record, resource)
        except (TypeError, ValueError, KeyError, AttributeError, RecursionError, OverflowError) as error:
            counts.fault(f"a span is in no known form ({type(error).__name__}: {str(error)[:100]})")
            continue
        if raw is not None:
            found.append(raw)
    events = sum(isinstance(raw, RawEvent) for raw in found)
    counts.events += events
    counts.spans += len(found) - events
    return found


def _span(span: dict[str, Any], resource: dict[str, Any]) -> RawSpan:
    get = span.get
    status = get("status") or {}
    failed = status.get("code") in _ERROR
    events = get("events")
    return RawSpan(
        _id(get("traceId") or span["trace_id"]),
        _id(get("spanId") or span["span_id"]),
        _id(get("parentSpanId") or get("parent_span_id") or ""),
        str(get("name") or ""),
        _nanoseconds(get("startTimeUnixNano") or get("start_time_unix_nano")),
        _nanoseconds(get("endTimeUnixNano") or get("end_time_unix_nano")),
        str(status.get("message") or "") if failed else None,
        _attributes(get("attributes")),
        [(str(each.get("name")), _attributes(each.get("attributes"))) for each in events] if events else [],
        resource,
    )


def _log(record: dict[str, Any], _resource: dict[str, Any]) -> RawEvent | None:
    """Return a log record, ``None`` for one of no span."""
    trace, span = record.get("traceId") or record.get("trace_id"), record.get("spanId") or record.get("span_id")
    if not trace or not span:
        return None
    attributes = _attributes(record.get("attributes"))
    body = _value(record["body"]) if record.get("body") else None
    name = record.get("eventName") or record.get("event_name") or attributes.get("event.name") or ""
    inside = body if isinstance(body, dict) else {} if body is None else {"body": body}
    return RawEvent(_id(trace), _id(span), str(name), {**inside, **attributes})


def _of_sdk(span: dict[str, Any], _resource: dict[str, Any]) -> RawSpan:
    """Return a span as an SDK prints it."""
    context = span.get("spanContext") or span.get("context") or span
    parent = span.get("parentSpanContext")
    parent = first(parent, "spanId", "span_id") if isinstance(parent, dict) else None
    status = span.get("status") or {}
    failed = first(status, "code", "status_code") in _ERROR
    resource = _objects(span, "resource").get("attributes") or {}
    attributes, events = span.get("attributes") or {}, span.get("events") or []
    attributes = _attributes(attributes) if isinstance(attributes, list) else dict(attributes)
    if kind := span.get("span_kind"):
        attributes.setdefault("openinference.span.kind", kind)
    return RawSpan(
        _id(first(context, "traceId", "trace_id")),
        _id(first(context, "spanId", "span_id")),
        _id(parent or first(span, "parentSpanId", "parent_span_id", "parent_id", "parentId") or ""),
        str(span.get("name") or ""),
        _nanoseconds(first(span, "startTime", "start_time", "startTimeUnixNano")),
        _nanoseconds(first(span, "endTime", "end_time", "endTimeUnixNano")),
        str(first(status, "message", "description") or "") if failed else None,
        attributes,
        [(str(each.get("name")), dict(each.get("attributes") or {})) for each in events],
        _kept(resource if isinstance(resource, dict) else {}),
    )


_RECORDS: Final[Sequence[tuple[Sequence[str], Sequence[str], Sequence[str], _Reading]]] = (
    (_SPANS, ("scopeSpans", "scope_spans", "instrumentationLibrarySpans"), ("spans",), _span),
    (_LOGS, ("scopeLogs", "scope_logs"), ("logRecords", "log_records"), _log),
)
"""The sections of a document, the lists within the resources of each and within these, and how a record is read."""


def _kept(resource: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: resource[name] for name in _KEPT if name in resource}
    return {name: value for name, value in found.items() if not str(value).startswith("unknown_service")}


def _objects(value: Any, name: str) -> dict[str, Any]:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _listed(value: Any, *names: str) -> list[Any]:
    found = first(value, *names) if isinstance(value, dict) else None
    return found if isinstance(found, list) else []


def _id(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("an id is no text")
    return hexed(value)


def _nanoseconds(value: Any) -> int:
    """Return a time in nanoseconds since 1970: from a number, two numbers of JavaScript or a date; else 0."""
    if not value:
        return 0
    if isinstance(value, str) and value.isdecimal():
        return min(int(value), _LATEST_NS)
    if isinstance(value, list):
        value = int(value[0]) * 10**9 + int(value[1])
    elif isinstance(value, str) and not value.lstrip("-").isdigit():
        value = round(datetime.fromisoformat(value).timestamp() * 1e6) * 1000
    return min(max(int(value), 0), _LATEST_NS)


def _attributes(items: Any) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for item in items or ():
        value = item.get("value") or {}
        text = value.get("stringValue")
        out[item["key"]] = _value(value) if text is None else text
    return out


def _value(value: dict[str, Any]) -> Any:
    """Return the plain value in a value of OTLP."""
    for name, found in value.items():
        match name.replace("_", "").lower():
            case "intvalue":
                return int(found)
            case "arrayvalue":
                return [_value(each) for each in found.get("values") or ()]
            case "kvlistvalue":
                return _attributes(found.get("values"))
            case "stringvalue" | "boolvalue" | "doublevalue" | "bytesvalue":
                return found
    return None
