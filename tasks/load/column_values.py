"""Reading of whole columns: the readings of :mod:`.values` for all values of a column at once.

Arrow reads what is plain (texts, lists of texts, chunks, numbers). Any other column is read value by value with the
very functions that read a single record. A column with a value that these refuse is an :class:`Unclear` one: its
records are read one at a time then, which finds the place of the fault.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from leadline.tasks.load.limits import MAX_ITEMS, MAX_KEY, MAX_TEXT, MAX_UNSHARED
from leadline.tasks.load.readers.json_values import members_of, surely_repeat_no_names
from leadline.tasks.load.values import (
    Chunks,
    InCells,
    Reading,
    ValueFault,
    chunks,
    count,
    documents,
    filled,
    key,
    message,
    milliseconds,
    money,
    number,
    text,
    texts,
)

if TYPE_CHECKING:
    pass

Column: TypeAlias = "list[Any] | pa.Array"
"""Values of a column, ``None`` where it is absent: those of JSON as they were decoded, those of a table in Arrow."""

_NONE: Final = type(None)


class Unclear(Exception):
    """Records that are to be read one at a time."""


def is_absent(column: Column) -> bool:
    """Return whether no record has a value in a column."""
    if isinstance(column, list):
        return column.count(None) == len(column)
    return bool(column.null_count == len(column))


def read_column(reading: Reading, column: Column) -> pa.Array:
    """Read the values of a column; absent and blank ones are null.

    Raises:
        Unclear: Some value cannot be what its column says.
    """
    in_cells = isinstance(reading, InCells)
    single: Reading = reading.reading if isinstance(reading, InCells) else reading
    found = None
    if single in _NUMBERS:
        found = _numbers(single, column, in_cells=in_cells)
    elif single in _PLAIN:
        plain = _decoded(column) if in_cells and _has_json(column) else column
        found = None if plain is None else _PLAIN[single](plain)
    if found is not None:
        return found
    try:
        values = [None if value is None else reading(value) for value in values_of(column)]
    except ValueFault:
        raise Unclear from None
    return _ARRAYS[single](values)


def values_of(column: Column) -> list[Any]:
    """Return the values of a column as Python has them; equal texts of an Arrow dictionary are one object.

    Raises:
        Unclear: Python cannot have them: a text is no UTF-8, a date is out of range, a time zone is unknown.
    """
    if isinstance(column, list):
        return column
    try:
        if pa.types.is_dictionary(column.type):
            values = column.dictionary.to_pylist()
            return [None if index is None else values[index] for index in column.indices.to_pylist()]
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Encountered key")  # of a map the last value of a key counts
            result: list[Any] = column.to_pylist(maps_as_pydicts="lossy")
    except (ValueError, OverflowError, LookupError) as error:
        raise Unclear(str(error)) from error
    return result


def _strings(column: Column) -> pa.Array | None:
    """Return a column of texts in Arrow; ``None`` if it has anything else, or texts that are too long."""
    if isinstance(column, list):
        try:
            array = pa.array(column, pa.large_string())
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            return None
    elif pa.types.is_dictionary(column.type):
        if not _is_text(column.type.value_type):
            return None
        lengths = pc.binary_length(column.dictionary).cast(pa.int64())
        if (pc.sum(lengths.take(column.indices)).as_py() or 0) > MAX_UNSHARED:
            raise Unclear
        array = column.dictionary_decode().cast(pa.large_string())
    elif _is_text(column.type) or pa.types.is_null(column.type):
        array = column.cast(pa.large_string())
    else:
        return None
    return array if _longest(array) <= MAX_TEXT else None


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _longest(array: pa.Array) -> int:
    """Return the bytes of the longest text."""
    return pc.max(pc.binary_length(array)).as_py() or 0


def _has_json(column: Column) -> bool:
    """Return whether a cell may contain a list or an object as JSON."""
    strings = _strings(column)
    if strings is None:
        return True
    trimmed = pc.utf8_ltrim_whitespace(strings)
    return bool(pc.any(pc.or_(pc.starts_with(trimmed, "["), pc.starts_with(trimmed, "{"))).as_py())


def _decoded(column: Column) -> list[Any] | None:
    """Return the values of cells that are lists or objects as JSON; ``None`` if one may be something else."""
    cells = [cell for cell in values_of(column) if cell is not None]
    try:
        decoded = list(map(orjson.loads, cells))
    except (orjson.JSONDecodeError, TypeError):
        return None
    if not set(map(type, decoded)) <= {list, dict} or not surely_repeat_no_names("\n".join(cells).encode(), decoded):
        return None
    values = iter(decoded)
    return [None if cell is None else next(values) for cell in values_of(column)]


def _filled(column: Column) -> pa.Array | None:
    array = _strings(column)
    if array is None:
        return None
    blank = pc.or_(pc.utf8_is_space(array), pc.equal(pc.binary_length(array), 0))
    return pc.if_else(blank, pa.scalar(None, array.type), array) if pc.any(blank).as_py() else array


def _keys(column: Column) -> pa.Array | None:
    array = _filled(column)
    return array if array is not None and _longest(array) <= MAX_KEY else None


def _texts(column: Column) -> pa.Array | None:
    one = _filled(column)
    if one is not None:
        return _nested(one.is_valid().to_numpy(zero_copy_only=False), one.drop_null())
    parts = _flattened(column)
    array = None if parts is None else _filled(parts[1])
    if parts is None or array is None or array.null_count:
        return None
    return _nested(parts[0], array)


def _documents(column: Column) -> pa.Array | None:
    found = _texts(column)
    return found if found is not None and _longest(found.values) <= MAX_KEY else None


def _chunks(column: Column) -> pa.Array | None:
    contents = _strings(column)
    if contents is not None:
        present = contents.is_valid().to_numpy(zero_copy_only=False)
        return _nested(present.astype(np.int64), _chunk_structs(contents.drop_null(), None), empty=True)
    parts = _flattened(column)
    if parts is None:
        return None
    lengths, flat = parts
    uris: Column | None = None
    if isinstance(flat, list) and set(map(type, flat)) == {dict}:
        flat, uris = members_of(flat, "content"), members_of(flat, "doc_uri")
    elif not isinstance(flat, list) and pa.types.is_struct(flat.type):
        names = [field.name for field in flat.type]
        if flat.null_count or names.count("content") != 1 or names.count("doc_uri") > 1:
            return None
        uris = flat.field("doc_uri") if "doc_uri" in names else None
        flat = flat.field("content")
    contents, links = _strings(flat), None if uris is None else _filled(uris)
    if contents is None or contents.null_count or (uris is not None and links is None):
        return None
    return _nested(lengths, _chunk_structs(contents, links), empty=True)


def _chunk_structs(contents: pa.Array, uris: pa.Array | None) -> pa.Array:
    links = pa.nulls(len(contents), pa.large_string()) if uris is None else uris
    return pa.StructArray.from_arrays([contents, links], names=["content", "doc_uri"])


def _flattened(column: Column) -> tuple[Any, Column] | None:
    """Return how many elements each list of a column has, and all elements; ``None`` if it has anything but lists."""
    if isinstance(column, list):
        if not set(map(type, column)) <= {list, _NONE}:
            return None
        lengths = np.fromiter((len(value) if value else 0 for value in column), np.int64, len(column))
        flat: Column = list(chain.from_iterable(filter(None, column)))
    elif pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy().astype(np.int64)
        flat = column.flatten()
    else:
        return None
    return None if lengths.max(initial=0) > MAX_ITEMS else (lengths, flat)


def _nested(lengths: Any, flat: pa.Array, *, empty: bool = False) -> pa.Array:
    """Return lists of some lengths.

    Args:
        empty: Whether lists without elements are empty; otherwise they are null.
    """
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    mask = None if empty else pa.array(np.asarray(lengths) == 0)
    return pa.LargeListArray.from_arrays(pa.array(offsets), flat, mask=mask)


def _numbers(reading: Reading, column: Column, *, in_cells: bool) -> pa.Array | None:
    """Return a column of numbers; ``None`` if some of them has to be looked at."""
    try:
        if in_cells:
            strings = _strings(column)
            array = None if strings is None else pc.cast(strings, pa.float64())
        elif isinstance(column, list):
            array = pa.array(column, pa.float64()) if set(map(type, column)) <= {int, float, _NONE} else None
        else:
            is_number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
            array = pc.cast(column, pa.float64()) if is_number else None
    except pa.ArrowInvalid:
        return None
    if array is None or not pc.all(pc.is_finite(array)).as_py():
        return None
    least = pc.min(array).as_py()
    if reading is money or least is None:
        return array
    if least < 0:
        return None
    if reading is milliseconds:
        return pc.divide(array, 1000.0)
    if reading is count:
        if not pc.all(pc.equal(pc.floor(array), array)).as_py() or pc.max(array).as_py() >= 2**63:
            return None
        return pc.cast(array, pa.uint64())
    return array


_PLAIN: Final[Mapping[Reading, Callable[[Column], pa.Array | None]]] = {
    text: _strings,
    filled: _filled,
    message: _filled,
    key: _keys,
    texts: _texts,
    documents: _documents,
    chunks: _chunks,
}
_NUMBERS: Final = frozenset({money, number, milliseconds, count})


def text_array(values: Sequence[str | None]) -> pa.Array:
    """Return texts in Arrow."""
    return pa.array(values, pa.large_string())


def _texts_array(values: Sequence[list[str] | None]) -> pa.Array:
    """Return lists of texts in Arrow; empty ones are null."""
    return pa.array([value or None for value in values], type=pa.large_list(pa.large_string()))


def _chunks_array(values: Sequence[Chunks | None]) -> pa.Array:
    """Return lists of chunks in Arrow, built column by column; absent ones are empty."""
    lists = [value or [] for value in values]
    flat = list(chain.from_iterable(lists))
    contents = pa.array([content for content, _ in flat], type=pa.large_string())
    uris = pa.array([uri for _, uri in flat], type=pa.large_string())
    return _nested(list(map(len, lists)), _chunk_structs(contents, uris), empty=True)


_ARRAYS: Final[Mapping[Reading, Callable[[Sequence[Any]], pa.Array]]] = {
    **dict.fromkeys((text, filled, message, key), text_array),
    **dict.fromkeys((texts, documents), _texts_array),
    **dict.fromkeys((money, number, milliseconds), partial(pa.array, type=pa.float64())),
    chunks: _chunks_array,
    count: partial(pa.array, type=pa.uint64()),
}


def as_array(field: pa.Field, values: Sequence[Any]) -> pa.Array:
    """Return the values of a column of a staged table in Arrow; empty lists of texts are null."""
    if not pa.types.is_large_list(field.type):
        return pa.array(values, field.type)
    return _chunks_array(values) if pa.types.is_struct(field.type.value_type) else _texts_array(values)
