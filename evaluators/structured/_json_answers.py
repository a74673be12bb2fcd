"""JSON as it stands in answers: alone, in a fence of Markdown, or in the midst of prose."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import orjson

from leadline.evaluators.text.markdown import fences

Where: TypeAlias = Literal["whole", "fenced", "anywhere"]

MOST_STARTS: Final = 20
"""Places in prose at which JSON is tried to be read."""

_START: Final = re.compile(r"[{\[]")


@dataclass(frozen=True, slots=True)
class Parsed:
    """The JSON that an answer holds.

    Attributes:
        value: The value, ``None`` also where there is none.
        fault: Why there is none, ``""`` if there is.
        at: Where in the answer reading stopped.
    """

    value: Any = None
    fault: str = ""
    at: int = 0


def parse_answer(text: str, where: Where) -> Parsed:
    """Return the JSON of an answer.

    Args:
        text: The answer.
        where: ``whole``: the answer is nothing but JSON. ``fenced``: it may stand in a fence of Markdown, with or
        without
            prose around. ``anywhere``: besides, the first object or array that can be read from prose counts.
    """
    first = _parse(text, 0)
    if not first.fault or where == "whole":
        return first
    block = next(iter(fences(text)), None)
    if block:
        return _parse(block.content, block.start)
    return (_in_prose(text) if where == "anywhere" else None) or first


def _parse(text: str, start: int) -> Parsed:
    try:
        return Parsed(orjson.loads(text))
    except orjson.JSONDecodeError as error:
        if not text.strip():
            return Parsed(fault="there is nothing", at=start)
        at = min(max(error.pos, 0), len(text))
        line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
        return Parsed(fault=f"{error.msg.partition(': line')[0]} (line {line}, column {column})", at=start + at)


def _in_prose(text: str) -> Parsed | None:
    decoder = json.JSONDecoder(parse_constant=_refuse)
    for tried, found in enumerate(_START.finditer(text)):
        if tried == MOST_STARTS:
            return None
        try:
            _, end = decoder.raw_decode(text, found.start())
            return Parsed(orjson.loads(text[found.start() : end]))
        except (ValueError, RecursionError):
            continue
    return None


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def kind_of(value: Any) -> str:
    """Return what a JSON value is: object, array, string, number, boolean or null."""
    if isinstance(value, Mapping):
        return "object"
    if isinstance(value, bool) or value is None:
        return "null" if value is None else "boolean"
    return "array" if isinstance(value, list) else "string" if isinstance(value, str) else "number"


def is_deep(value: Any, levels: int) -> bool:
    """Return whether a JSON value has more than a number of levels of objects and arrays.

    Args:
        levels: That number.
    """
    here = [value]
    for _ in range(levels + 1):
        nested = [each for each in here if isinstance(each, dict | list)]
        here = [item for each in nested for item in (each.values() if isinstance(each, dict) else each)]
        if not nested:
            return False
    return True


def identity_of(value: Any) -> Any:
    """Return something hashable that two JSON values have in common only if they are equal.

    1 equals 1.0 and is not true, as JSON Schema has it; the order of an object's members does not count.
    """
    if isinstance(value, Mapping):
        return "object", frozenset((key, identity_of(item)) for key, item in value.items())
    if isinstance(value, list):
        return "array", tuple(map(identity_of, value))
    return ("boolean", value) if isinstance(value, bool) else value
