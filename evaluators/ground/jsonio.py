"""JSON as Leadline writes it: the one form of every value on the wire and in files of results.

NaN and the infinities become the strings ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``, lone surrogates ``?``, keys
strings, data classes objects, times ISO 8601, bytes hexadecimal. Long lists are written item by item.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, time
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import orjson


class Lazy:
    """A list that is written item by item and never in memory all at once."""

    def __init__(self, items: Iterable[Any]) -> None:
        self.items = items

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)


def clean(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot hold."""
    return text.encode("utf-8", "replace").decode()


def plain(value: Any) -> Any:
    """Return a value in its JSON form."""
    kind = type(value)  # a page has millions of values: the plain kinds first, by identity
    if kind is str:
        return value if value.isascii() else clean(value)
    if kind is int or kind is bool or value is None:
        return value
    if kind is list or kind is tuple:
        return [plain(item) for item in value]
    if isinstance(value, str) and not isinstance(value, Enum):
        return clean(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {clean(str(key)): plain(item) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Decimal):
        return plain(float(value))
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, Iterable):
        return [plain(item) for item in value]
    return clean(str(value.value if isinstance(value, Enum) else value))


def rounded(value: Any) -> Any:
    """Return a value for a table of the Prefect UI: numbers with four decimals, infinite ones as text."""
    return plain(round(value, 4) if isinstance(value, float) else value)


def dump(value: Any, *, indent: bool = False) -> bytes:
    """Return a value as UTF-8 JSON.

    Args:
        value: Anything that :func:`plain` takes.
        indent: Indent by two spaces; otherwise everything is on one line.
    """
    # An integer beyond 64 bits is more than orjson takes.
    try:
        return orjson.dumps(plain(value), option=orjson.OPT_INDENT_2 if indent else 0)
    except orjson.JSONEncodeError:
        return json.dumps(plain(value), ensure_ascii=False, indent=2 if indent else None).encode()


def dump_plain(value: Any) -> bytes:
    """Return what :func:`dump` returns, ten times as fast; the value must not have infinite numbers."""
    try:
        return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)
    except orjson.JSONEncodeError:  # a lone surrogate, or an integer beyond 64 bits
        return dump(value)


def load(text: str) -> Any:
    """Parse JSON; infinite numbers become strings, so that :func:`dump_plain` takes the value.

    Raises:
        ValueError: The text is not JSON.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return plain(json.loads(text))  # takes infinite numbers and lone surrogates, which orjson refuses


def write(path: Path, value: Mapping[str, Any]) -> None:
    """Write an object; the values that are :class:`Lazy` are streamed.

    Args:
        value: The object.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        separator = b"{\n"
        for key, item in value.items():
            file.write(separator + dump(key) + b": ")
            if isinstance(item, Lazy):
                comma = b"["
                for element in item:
                    file.write(comma + b"\n" + dump(element))
                    comma = b","
                file.write(b"[]" if comma == b"[" else b"\n]")
            else:
                file.write(dump(item, indent=True))
            separator = b",\n"
        file.write(b"{}\n" if separator == b"{\n" else b"\n}\n")
