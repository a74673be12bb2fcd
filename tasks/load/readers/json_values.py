"""One JSON value: its decoding, which tolerates common faults of exporters, and the names that its objects repeat.

A name that stands twice in one object is a fault, since decoders silently keep only its last value.
"""

from __future__ import annotations

import json
import math
import re
from operator import itemgetter
from typing import Any, Final

import orjson

from leadline.tasks.load.limits import MAX_VALUES

_TEXT: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_INT64: Final = 2**63
REPLACED: Final = "\ufffd"
_COLON: Final = re.compile(rb"\\u003[aA]")


class Broken(ValueError):
    """Bytes that are not a JSON value.

    Attributes:
        message: What is wrong, without its position.
        offset: Where, in bytes from the value's beginning.
    """

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset


def decode(data: bytes) -> Any:
    """Return the JSON value in ``data``.

    ``NaN`` and ``Infinity`` become floats, for the reader of the column to refuse with its name. Half a
    surrogate pair (an emoji cut in two by a host that counts UTF-16 units) becomes U+FFFD.

    Raises:
        Broken: It is not JSON, or it has too many values.
    """
    if has_too_many_values(data):
        raise Broken(f"the record has more than {MAX_VALUES:,} values", 0)
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        return _decode_sloppy(data, error)


def has_too_many_values(data: bytes) -> bool:
    """Return whether a JSON value has more values in it than are decoded; a short one is not looked at."""
    if len(data) <= 2 * MAX_VALUES or _marks(data) <= MAX_VALUES:
        return False
    return _marks(_TEXT.sub(b"", data)) > MAX_VALUES


def _marks(data: bytes) -> int:
    """Return how many values there are at most, by what stands before each of them."""
    return data.count(b",") + data.count(b"[") + data.count(b"{")


def _decode_sloppy(data: bytes, cause: orjson.JSONDecodeError) -> Any:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Broken(f"byte 0x{data[error.start]:02x} is not UTF-8; save the file as UTF-8", error.start) from None
    try:
        return _mended(json.loads(text, parse_int=_integer))
    except RecursionError:
        raise Broken("the value is nested too deeply", 0) from None
    except ValueError as error:
        where = error.pos if isinstance(error, json.JSONDecodeError) else cause.pos
        message = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise Broken(f"broken JSON: {message}", len(text[:where].encode("utf-8"))) from None


def _integer(digits: str) -> int | float:
    if len(digits) > 20:
        return float(digits) if len(digits) < 300 else math.inf
    value = int(digits)
    return value if -_INT64 <= value < 2 * _INT64 else float(value)


def _mended(value: Any) -> Any:
    if isinstance(value, str):
        return _LONE_SURROGATE.sub(REPLACED, value)
    if isinstance(value, list):
        return [_mended(element) for element in value]
    if isinstance(value, dict):
        return {_mended(name): _mended(element) for name, element in value.items()}
    return value


def members_of(objects: list[dict[str, Any]], name: str) -> list[Any]:
    """Return the member of each object that has a name, ``None`` where there is none."""
    try:
        return list(map(itemgetter(name), objects))
    except KeyError:
        return [value.get(name) for value in objects]


def repeated_names(data: bytes, value: Any) -> list[str]:
    """Return the names that some object repeats, each once, sorted; almost always none.

    Where it is not sure that there are none, the slower decoder of Python looks at every member.
    """
    if surely_repeat_no_names(data, value):
        return []
    repeated: set[str] = set()

    def note(pairs: list[tuple[str, Any]]) -> None:
        seen: set[str] = set()
        for name, _ in pairs:
            (repeated if name in seen else seen).add(name)

    try:
        json.loads(data, object_pairs_hook=note, parse_int=float)
    except RecursionError:
        return []  # nested about a thousand times: deeper than Python's decoder goes
    return sorted(repeated)


def repeat_no_names(lines: bytes, values: list[dict[str, Any]]) -> bool:
    """Return whether no object in some lines repeats a name, as :func:`repeated_names` finds out for one value."""
    return surely_repeat_no_names(lines, values) or not any(map(repeated_names, lines.split(b"\n"), values))


def surely_repeat_no_names(data: bytes, value: Any) -> bool:
    """Return whether some JSON has no more colons than what was decoded from it, so that no name was repeated.

    Every member has a colon, and those of texts are in both, unless they are written as an escape.

    Args:
        data: One JSON value, or several.
        value: What was decoded: the value, or the list of the several.
    """
    if b"\\u003" in data and _COLON.search(data):
        return False
    try:
        return data.count(b":") == orjson.dumps(value).count(b":")
    except TypeError:  # nested deeper than it writes
        return False
