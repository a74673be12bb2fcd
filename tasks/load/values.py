"""Reading of single values: each function returns the value in Leadline's type or raises the reason why not.

Functions raise :class:`ValueFault` with a message for the user. ``None`` never reaches them: a null is an absent
field. In a table of texts (CSV) every value is a text; :func:`in_cells` gives the reading for it.
"""

from __future__ import annotations

import ast
import hashlib
import math
import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import orjson

from leadline.tasks.load.limits import MAX_ITEMS, MAX_KEY, MAX_TEXT, MIB
from leadline.tasks.load.readers.json_values import repeated_names

Reading: TypeAlias = Callable[[Any], Any]
Chunks: TypeAlias = list[tuple[str, str | None]]

_LITERAL: Final = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)
_PLAIN: Final = re.compile(r"(?:[\[\](){},:\s\d.+-]|None|True|False)*")
"""What may stand outside of the texts of a list that Python printed."""
_ARRAY: Final = re.compile(r"array\((\[.*\])(?:, dtype=[\w'<>|]+)?\)", re.DOTALL)
_WORDS: Final = re.compile(r"None|True|False|[()]")
_AS_JSON: Final = {"None": "null", "True": "true", "False": "false", "(": "[", ")": "]"}

_TYPES: Final = {
    str: "a text",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "an object",
}
_MAX_COUNT: Final = 2**63
_EXACT: Final = 2**53


class ValueFault(ValueError):
    """A value that cannot be what its column says."""


def shown(value: Any, width: int = 60) -> str:
    """Return a value for a message, shortened."""
    text = repr(value[:width] if isinstance(value, str) else value)
    return text if len(text) <= width + 2 else text[: width - 1] + "…"


def expected(what: str, value: Any) -> ValueFault:
    """Return the fault of a value of another type than the one expected."""
    kind = _TYPES.get(type(value), type(value).__name__)
    return ValueFault(
        f"expected {what}, found {kind}" + ("" if isinstance(value, dict | list) else f": {shown(value)}")
    )


def text(value: Any) -> str:
    """Read a text; a number or a truth value becomes one, as JSON writes it, a whole one without a point."""
    if type(value) in (bool, int, float):
        value = _written(value)
    if type(value) is not str:
        raise expected("a text", value)
    if len(value) > MAX_TEXT:
        raise ValueFault(f"the text has {len(value):,} characters; at most {MAX_TEXT // MIB} Mi are read")
    return value


def _written(value: float) -> str:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueFault(f"{value} is not a finite number; leave it out or write null")
        return str(int(value)) if value.is_integer() and abs(value) < _EXACT else repr(value)
    return str(value).lower()


def filled(value: Any) -> str | None:
    """Read a text that is absent when blank."""
    result = text(value)
    return result if result and not result.isspace() else None


def message(value: Any) -> str | None:
    """Read the error that a host returned instead of an answer: a text, or anything else as JSON; blank is absent."""
    return filled(value if isinstance(value, str) else as_json(value))


def as_json(value: Any) -> str:
    """Return a value as JSON text, in its own order; names that are numbers or times become texts.

    Raises:
        ValueFault: JSON has no way to say it.
    """
    try:
        return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError as error:
        raise ValueFault(f"this cannot be kept as JSON: {error}") from None


def key(value: Any) -> str | None:
    """Read a key: a text or a whole number; blank is absent."""
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is int:
        value = str(value)
    if type(value) is not str:
        raise expected("a key (text or whole number)", value)
    if len(value) > MAX_KEY:
        raise ValueFault(f"the key has {len(value):,} characters; at most {MAX_KEY:,} are read")
    return value if value and not value.isspace() else None


def derived_key(fields: tuple[Any, ...]) -> str:
    """Return the key of a case that has none of its own, made from its content."""
    return "c-" + hashlib.sha256(orjson.dumps(fields)).hexdigest()[:16]


def listed(value: Any) -> list[Any]:
    """Read a list of bounded length; a single value is a list of one."""
    if type(value) is not list:
        return [value]
    if len(value) > MAX_ITEMS:
        raise ValueFault(f"the list has {len(value):,} elements; at most {MAX_ITEMS:,} are read")
    return value


def texts(value: Any) -> list[str]:
    """Read one text or a list of texts; nulls and blank ones are left out."""
    if type(value) in (str, bool, int, float):
        one = filled(value)
        return [] if one is None else [one]
    if type(value) is not list:
        raise expected("a text or a list of texts", value)
    out = []
    for index, element in enumerate(listed(value)):
        if element is None:
            continue
        try:
            element = filled(element)
        except ValueFault as error:
            raise ValueFault(f"element {index + 1}: {error}") from None
        if element is not None:
            out.append(element)
    return out


def chunks(value: Any) -> Chunks:
    """Read retrieved chunks in rank order: texts, or objects with ``content`` and ``doc_uri``.

    LangChain's ``page_content`` and others' ``text`` are content too.
    """
    if type(value) is not str and type(value) is not list:
        raise expected("a list of chunks", value)
    out: Chunks = []
    for index, element in enumerate(listed(value)):
        try:
            if type(element) is dict:
                out.append(_chunk(element))
            elif element is not None:
                out.append((text(element), None))
        except ValueFault as error:
            raise ValueFault(f"chunk {index + 1}: {error}") from None
    return out


def _chunk(element: dict[str, Any]) -> tuple[str, str | None]:
    contents = (element.get(name) for name in ("content", "page_content", "text"))
    content, uri = next((text for text in contents if text is not None), None), element.get("doc_uri")
    if content is None and uri is None:
        raise ValueFault("a chunk needs content or doc_uri")
    return "" if content is None else text(content), None if uri is None else filled(uri)


def documents(value: Any) -> list[str]:
    """Read documents: texts, or objects with ``doc_uri`` (as in Databricks' ``expected_retrieved_context``)."""
    out = []
    for index, element in enumerate(listed(value)):
        uri = element.get("doc_uri") if type(element) is dict else element
        if uri is None:
            if type(element) is dict:
                raise ValueFault(f"element {index + 1}: a document needs doc_uri")
            continue
        out += texts(key(uri) or "")
    return out


def money(value: Any) -> float:
    """Read a finite number; a negative one is kept, for the run reports it as a problem of the data."""
    if type(value) is not float and type(value) is not int:
        raise expected("a number", value)
    if not math.isfinite(value):
        raise ValueFault(f"{value} is not a finite number; leave it out or write null")
    return float(value)


def number(value: Any) -> float:
    """Read a finite number that is not negative."""
    result = money(value)
    if result < 0:
        raise ValueFault(f"{value} is negative")
    return result


def milliseconds(value: Any) -> float:
    """Read milliseconds; return seconds."""
    return number(value) / 1000


def count(value: Any) -> int:
    """Read a whole number that is not negative."""
    result = number(value)
    if not result.is_integer() or result >= _MAX_COUNT:
        raise ValueFault(f"{shown(value)} is not a whole number")
    return int(value)


def mapping(value: Any) -> dict[str, Any]:
    """Read an object."""
    if type(value) is not dict:
        raise expected("an object", value)
    return value


def anything(value: Any) -> Any:
    """Read a value as it is."""
    return value


def unpacked(value: Any) -> Any:
    """Return a value, or what it contains as JSON: for tables whose columns cannot contain lists of anything."""
    return _decoded(value) if isinstance(value, str) else value


def _decoded(cell: str) -> Any:
    """Return the list or object that a cell contains as JSON, or the cell itself."""
    if array := _ARRAY.fullmatch(cell):
        inside = _decoded(array[1])
        return inside if isinstance(inside, list) else cell
    if cell.lstrip()[:1] not in ("[", "{"):
        return cell
    try:
        value = orjson.loads(cell)
    except orjson.JSONDecodeError:
        found = printed_by_python(cell)
        return cell if found is None else found
    for name in repeated_names(cell.encode(), value):
        raise ValueFault(f"an object has the name {shown(name)} more than once")
    return value


def printed_by_python(cell: str) -> list[Any] | None:
    """Return the list that a cell holds as Python or NumPy print one, as pandas writes lists to CSV.

    Args:
        cell: Such as ``['a', "it's"]`` or, without commas, ``['a' 'b']``.

    Returns:
        Its texts, numbers and objects; ``None`` if the cell is anything else.
    """
    said: list[str] = []
    end = 0
    for literal in _LITERAL.finditer(cell):
        between = cell[end : literal.start()]
        if not _PLAIN.fullmatch(between):
            return None
        said.append("," if said and not between.strip() else _as_json(between))
        try:
            said.append(orjson.dumps(ast.literal_eval(literal[0].replace("\n", "\\n").replace("\r", "\\r"))).decode())
        except (SyntaxError, ValueError, TypeError):
            return None
        end = literal.end()
    if not _PLAIN.fullmatch(cell[end:]) or not end:
        return None
    try:
        value = orjson.loads("".join(said) + _as_json(cell[end:]))
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, list) else None


def _as_json(between: str) -> str:
    return _WORDS.sub(lambda word: _AS_JSON[word[0]], between)


def _numeric(cell: str) -> float | int:
    try:
        if "_" in cell:
            raise ValueError
        return int(cell) if cell.strip().isdecimal() and cell.isascii() and len(cell) < 25 else float(cell)
    except ValueError:
        raise ValueFault(f"expected a number, found {shown(cell)}") from None


class InCells:
    """Reads the same thing where every value is a text, as in CSV.

    Numbers are parsed. Lists and objects are JSON; a text that is no JSON list is a list of one.

    Args:
        reading: How a value is read that has its type.
    """

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self._decode = _numeric if reading in (money, number, milliseconds, count) else _decoded

    def __call__(self, cell: str) -> Any:
        """Read a cell."""
        return self.reading(self._decode(cell))


def in_cells(reading: Reading) -> Reading:
    """Return how the same thing is read where every value is a text, as in CSV."""
    return reading if reading in (text, filled, key) else InCells(reading)


def canonical(value: dict[str, Any]) -> str:
    """Return metadata as JSON that is equal for equal content."""
    if not value:
        return "{}"
    try:
        return orjson.dumps(value, default=_plain, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS).decode()
    except TypeError as error:
        raise ValueFault(f"this cannot be kept as metadata: {error}") from None


def _plain(value: Any) -> str:
    """Return a value that JSON has no type for (a decimal, bytes) as a text."""
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
