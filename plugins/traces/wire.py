"""OTLP in protobuf, read into what the same documents are in JSON.

The few messages of OTLP that traces and logs consist of are read by their numbers, so that the format needs no package
of its own: protobuf's would only come with the extra ``otel``, and two dozen fields are all that matter.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any, Final

from leadline.tasks.load.limits import MAX_RECORD

Schema = Mapping[int, tuple[str, Any]]
"""A message's fields by number: the name in JSON, and the schema of what is in it or how its bytes are read."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_DEEPEST: Final = 100
_LENGTHS: Final = struct.Struct(">I")
_NUMBER: Final = struct.Struct("<Q")
_DOUBLE: Final = struct.Struct("<d")


class BrokenBytes(ValueError):
    """Bytes that are no protobuf."""


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _double(bits: int) -> float:
    value: float = _DOUBLE.unpack(_NUMBER.pack(bits))[0]
    return value


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


_VALUE: dict[int, tuple[str, Any]] = {
    1: ("stringValue", _text),
    2: ("boolValue", bool),
    3: ("intValue", _signed),
    4: ("doubleValue", _double),
    7: ("bytesValue", _text),
}
_ATTRIBUTE: Final[Schema] = {1: ("key", _text), 2: ("value", _VALUE)}
_VALUE |= {5: ("arrayValue", {1: ("values*", _VALUE)}), 6: ("kvlistValue", {1: ("values*", _ATTRIBUTE)})}
_SPAN: Final[Schema] = {
    1: ("traceId", bytes.hex),
    2: ("spanId", bytes.hex),
    4: ("parentSpanId", bytes.hex),
    5: ("name", _text),
    7: ("startTimeUnixNano", int),
    8: ("endTimeUnixNano", int),
    9: ("attributes*", _ATTRIBUTE),
    11: ("events*", {2: ("name", _text), 3: ("attributes*", _ATTRIBUTE)}),
    15: ("status", {2: ("message", _text), 3: ("code", int)}),
}
_LOG: Final[Schema] = {
    5: ("body", _VALUE),
    6: ("attributes*", _ATTRIBUTE),
    9: ("traceId", bytes.hex),
    10: ("spanId", bytes.hex),
    12: ("eventName", _text),
}
_RESOURCE: Final[Schema] = {1: ("attributes*", _ATTRIBUTE)}
_OF_SPANS: Final[Schema] = {1: ("resource", _RESOURCE), 2: ("scopeSpans*", {2: ("spans*", _SPAN)})}
_OF_LOGS: Final[Schema] = {1: ("resource", _RESOURCE), 2: ("scopeLogs*", {2: ("logRecords*", _LOG)})}


def documents(data: memoryview) -> Iterator[dict[str, Any]]:
    """Yield the documents in a file: one with a list of resources, or several, each behind its length.

    Raises:
        BrokenBytes: From here on, the bytes are no OTLP.
    """
    at = 0
    while at < len(data):
        end = len(data)
        if data[at] != 0x0A:  # the Collector's file exporter writes four bytes of length before each document
            if at + 4 > end or not at + 4 <= (end := at + 4 + _LENGTHS.unpack_from(data, at)[0]) <= len(data):
                raise BrokenBytes("the bytes are no OTLP")
            at += 4
        for number, _, value in _fields(data[at:end]):
            if number == 1 and isinstance(value, memoryview):
                if len(value) > MAX_RECORD:
                    raise BrokenBytes("the spans of a resource are more than can be read at once")
                of_logs = _is_of_logs(value)
                read = _message(value, _OF_LOGS if of_logs else _OF_SPANS)
                yield {"resourceLogs" if of_logs else "resourceSpans": [read]}
        at = end


def _is_of_logs(resource: memoryview) -> bool:
    """Return whether a resource has logs: both have the same numbers, and only a span begins with a text, its trace."""
    for number, _, scope in _fields(resource):
        if number == 2 and isinstance(scope, memoryview):
            for inner, _, record in _fields(scope):
                if inner == 2 and isinstance(record, memoryview) and len(record):
                    return record[0] != 0x0A
    return False


def _message(data: memoryview, schema: Schema, depth: int = 0) -> dict[str, Any]:
    if depth > _DEEPEST:
        raise BrokenBytes("values are nested too deeply")
    out: dict[str, Any] = {}
    for number, kind, value in _fields(data):
        if (known := schema.get(number)) is None:
            continue
        name, reading = known
        nested = isinstance(reading, Mapping)
        if isinstance(value, memoryview) != (nested or reading in (_text, bytes.hex)):
            raise BrokenBytes(f"{name} is of the wire type {kind}")
        read: Any = bytes(value) if isinstance(value, memoryview) and not nested else value
        read = _message(read, reading, depth + 1) if nested else reading(read)
        if name[-1] == "*":
            out.setdefault(name[:-1], []).append(read)
        else:
            out[name] = read
    return out


def _fields(data: memoryview) -> Iterator[tuple[int, int, int | memoryview]]:
    """Yield number, wire type and value of each field."""
    at, size = 0, len(data)
    while at < size:
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        value: int | memoryview
        if kind == _BYTES:
            length, at = _varint(data, at)
            value, at = data[at : at + length], at + length
        elif kind == _VARINT:
            value, at = _varint(data, at)
        elif kind in (_FIXED64, _FIXED32):
            width = 8 if kind == _FIXED64 else 4
            value, at = int.from_bytes(data[at : at + width], "little"), at + width
        else:
            raise BrokenBytes(f"no field has the wire type {kind}")
        if at > size:
            raise BrokenBytes("the bytes end within a field")
        yield number, kind, value


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (2**64 - 1), at
        shift += 7
    raise BrokenBytes("the bytes end within a number")
