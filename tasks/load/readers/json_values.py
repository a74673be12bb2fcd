"""One JSON value: strict where it matters, forgiving where the world's exporters are sloppy."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

import orjson

_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_INT64: Final = 2**63
REPLACED: Final = "\ufffd"


class Broken(ValueError):
    """Bytes that are no JSON value.

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
        Broken: It is no JSON.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        return _decode_sloppy(data, error)


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
        said = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise Broken(f"broken JSON: {said}", len(text[:where].encode("utf-8"))) from None


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
