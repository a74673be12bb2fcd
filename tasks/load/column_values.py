"""Reading of whole columns: the readings of :mod:`.values` for all values of a column at once.

Arrow reads what is plain (texts, lists of texts, chunks, numbers). Any other column is read value by value with the
very functions that read a single record. A column with a value that these refuse is an :class:`Unclear` one: its
records are read one at a time then, which finds the place of the fault.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from leadline.tasks.ground.arrow_arrays import array_of, lists_of, numpy_of, scalar_of
from leadline.tasks.load.limits import MAX_ITEMS, MAX_KEY, MAX_TEXT, MAX_UNSHARED
from leadline.tasks.load.readers.json_values import members_of, surely_repeat_no_names
from leadline.tasks.load.readers.tables import Column, Unclear, rows_of_lines, values_of
from leadline.tasks.load.staged_arrays import chunk_structs, chunks_array, text_array, texts_array
from leadline.tasks.load.values import (
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

_NONE: Final = type(None)
_EMPTY: Final = scalar_of("", pa.large_string())
_NULL: Final = scalar_of("null", pa.large_string())
_BEFORE_CELL: Final = scalar_of('{"cell":', pa.large_string())
_BEHIND_CELL: Final = scalar_of("}\n", pa.large_string())
_ABSENT: Final = scalar_of(None, pa.large_string())
_NONE_IN_IT: Final = scalar_of(0, pa.int64())
_EXACT: Final = 2**53
"""The greatest whole number up to which floats have all of them."""


def is_absent(column: Column) -> bool:
    """Return whether no record has a value in a column."""
    if isinstance(column, list):
        return column.count(None) == len(column)
    return bool(column.null_count == len(column))


def is_number(reading: Reading) -> bool:
    """Return whether a column is read as numbers."""
    return (reading.reading if isinstance(reading, InCells) else reading) in _NUMBERS


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


def _strings(column: Column) -> pa.Array | None:
    """Return a column of texts in Arrow; ``None`` if it has anything else, or texts that are too long."""
    if isinstance(column, list):
        try:
            array = text_array(column)
        except (TypeError, UnicodeEncodeError):
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


def _decoded(column: Column) -> Column | None:
    """Return the values of cells that are lists or objects as JSON; ``None`` if one may be something else."""
    parsed = _parsed(column)
    if parsed is not None:
        return parsed
    values = values_of(column)
    cells = [cell for cell in values if cell is not None]
    try:
        decoded = list(map(orjson.loads, cells))
    except (orjson.JSONDecodeError, TypeError):
        return None
    if not set(map(type, decoded)) <= {list, dict} or not surely_repeat_no_names("\n".join(cells).encode(), decoded):
        return None
    if len(cells) == len(values):
        return decoded
    found = iter(decoded)
    return [None if cell is None else next(found) for cell in values]


def _parsed(column: Column) -> pa.Array | None:
    """Return the values of cells that are lists of one kind as JSON, parsed together; ``None`` where they are not."""
    cells = _strings(column)
    if cells is None:
        return None
    lines = pc.binary_join_element_wise(_BEFORE_CELL, pc.coalesce(cells, _NULL), _BEHIND_CELL, _EMPTY)
    records = rows_of_lines(lines.buffers()[2].to_pybytes(), 0)
    if records is None or len(records.rows) != len(cells):
        return None
    values = records.column("cell")
    return values if pa.types.is_list(values.type) and values.null_count == cells.null_count else None


def _filled(column: Column) -> pa.Array | None:
    array = _strings(column)
    if array is None:
        return None
    blank = pc.or_(pc.utf8_is_space(array), pc.equal(array, _EMPTY))
    return pc.if_else(blank, _ABSENT, array) if pc.any(blank).as_py() else array


def _keys(column: Column) -> pa.Array | None:
    array = _filled(column)
    return array if array is not None and _longest(array) <= MAX_KEY else None


def _texts(column: Column) -> pa.Array | None:
    one = _filled(column)
    if one is not None:
        return lists_of(_is_there(one), one.drop_null())
    parts = _flattened(column)
    array = None if parts is None else _filled(parts[1])
    if parts is None or array is None or array.null_count:
        return None
    return lists_of(parts[0], array)


def _documents(column: Column) -> pa.Array | None:
    found = _texts(column)
    return found if found is not None and _longest(found.values) <= MAX_KEY else None


def _chunks(column: Column) -> pa.Array | None:
    contents = _strings(column)
    if contents is not None:
        return lists_of(_is_there(contents), chunk_structs(contents.drop_null(), None), empty=True)
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
    return lists_of(lengths, chunk_structs(contents, links), empty=True)


def _is_there(array: pa.Array) -> Any:
    """Return 1 for each value and 0 for each null."""
    return numpy_of(pc.cast(array.is_valid(), pa.int64()))


def _flattened(column: Column) -> tuple[Any, Column] | None:
    """Return how many elements each list of a column has, and all elements; ``None`` if it has anything but lists."""
    if isinstance(column, list):
        if not set(map(type, column)) <= {list, _NONE}:
            return None
        lengths = np.fromiter((len(value) if value else 0 for value in column), np.int64, len(column))
        flat: Column = list(chain.from_iterable(filter(None, column)))
    elif pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        lengths = numpy_of(pc.coalesce(pc.cast(pc.list_value_length(column), pa.int64()), _NONE_IN_IT))
        flat = column.flatten()
    else:
        return None
    return None if lengths.max(initial=0) > MAX_ITEMS else (lengths, flat)


def _numbers(reading: Reading, column: Column, *, in_cells: bool) -> pa.Array | None:
    """Return a column of numbers; ``None`` if some of them has to be looked at."""
    try:
        if in_cells:
            strings = _strings(column)
            array = None if strings is None else pc.cast(strings, pa.float64())
        elif isinstance(column, list):
            array = array_of(column, pa.float64()) if set(map(type, column)) <= {int, float, _NONE} else None
            if array is not None and (pc.max(pc.abs(array)).as_py() or 0) > _EXACT:
                return None
        else:
            is_number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
            array = pc.cast(column, pa.float64()) if is_number else None
    except (pa.ArrowInvalid, OverflowError):
        return None
    if array is None or not pc.all(pc.is_finite(array)).as_py():
        return None
    least = pc.min(array).as_py()
    if reading is money or least is None:
        return array
    if least < 0:
        return None
    if reading is milliseconds:
        return pc.divide(array, scalar_of(1000.0, pa.float64()))
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


_ARRAYS: Final[Mapping[Reading, Callable[[Sequence[Any]], pa.Array]]] = {
    **dict.fromkeys((text, filled, message, key), text_array),
    **dict.fromkeys((texts, documents), texts_array),
    **dict.fromkeys((money, number, milliseconds), partial(array_of, kind=pa.float64())),
    chunks: chunks_array,
    count: partial(array_of, kind=pa.uint64()),
}
