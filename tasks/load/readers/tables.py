"""Records in a table of Arrow's: rows of CSV and Parquet, and lines of JSON that are all alike."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import orjson
import pyarrow as pa
from pyarrow import json as arrow

from leadline.tasks.load.readers.json_values import has_too_many_values

Column: TypeAlias = "list[Any] | pa.Array"
"""Values of a column, ``None`` where it is absent: those of JSON as they were decoded, those of a table in Arrow."""


_LOOKED_AT: Final = 8
"""Lines that tell what a column has, if the first has nothing in it."""

_TEXTS: Final = pa.list_(pa.string())
_CHUNKS: Final = pa.list_(pa.struct([("content", pa.string()), ("doc_uri", pa.string())]))
_TYPES: Final[Mapping[type, pa.DataType]] = {
    str: pa.string(),
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
}


class Unclear(Exception):
    """Records that are to be read one at a time."""


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


class TableRecords:
    """Rows of a table.

    Args:
        names: Names of its columns; of two alike the last counts.
        size: Their size in bytes where they were read; by default that in memory.
        rounded: Columns of numbers in which 1 and 1.0 are no longer told apart.
    """

    def __init__(
        self,
        batch: pa.RecordBatch,
        names: Sequence[str],
        rows: Sequence[int],
        *,
        size: int = 0,
        rounded: frozenset[str] = frozenset(),
    ) -> None:
        self._columns = dict(zip(names, batch.columns, strict=True))
        self.rows = rows
        self.size = size or batch.nbytes
        self.rounded = rounded

    def namings(self) -> Iterable[Mapping[str, object]]:
        """Return the columns: every row has all of them."""
        return [self._columns] if self.rows else []

    def column(self, name: str) -> pa.Array:
        """Return the values of a column."""
        return self._columns[name]

    def others(self, without: Collection[str]) -> Iterator[dict[str, Any]]:
        """Yield the values of each row that are not absent, but for those of some columns."""
        names = [name for name in self._columns if name not in without]
        for cells in zip(*(values_of(self._columns[name]) for name in names), strict=True):
            yield {name: cell for name, cell in zip(names, cells, strict=True) if cell is not None}


def rows_of_lines(lines: bytes, row: int) -> TableRecords | None:
    """Parse lines of JSON into a table, which takes a third of decoding them; ``None`` unless they are all alike.

    Every line has to be an object of no other members than the first has, each a text, a number, texts, or chunks.
    Arrow refuses what a decoder does: names that are repeated, broken escapes, control characters.

    Args:
        row: Number of lines before them.
    """
    number = lines.count(b"\n") + (not lines.endswith(b"\n"))
    if has_too_many_values(lines) or number - 1 != (lines.count(b"}\n{") or lines.count(b"}\r\n{")):
        return None  # where an object ends before each end of a line, no line has two, and none has half of one
    try:
        schema = _schema(list(map(orjson.loads, lines.split(b"\n", _LOOKED_AT)[: min(number, _LOOKED_AT)])))
        table = arrow.read_json(
            pa.BufferReader(lines),
            read_options=arrow.ReadOptions(use_threads=False, block_size=len(lines) + 1),
            parse_options=arrow.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error"),
        )
        table.validate(full=True)
    except (orjson.JSONDecodeError, pa.ArrowException, Unclear):
        return None
    if len(table) != number:
        return None
    rounded = frozenset(field.name for field in schema if pa.types.is_floating(field.type))
    batch = table.combine_chunks().to_batches()[0]
    return TableRecords(batch, schema.names, range(row + 1, row + 1 + number), size=len(lines), rounded=rounded)


def _schema(values: Sequence[Any]) -> pa.Schema:
    """Return the types of the members of some objects; the first has all of them.

    Raises:
        Unclear: Some are of another type than Arrow reads as it is written.
    """
    if not set(map(type, values)) == {dict}:
        raise Unclear
    return pa.schema([(name, _type([value.get(name) for value in values])) for name in values[0]])


def _type(values: Sequence[Any]) -> pa.DataType:
    given = next((value for value in values if value not in (None, [])), None)
    if given is None:
        return pa.null()
    if isinstance(given, list):
        if type(given[0]) is str:
            return _TEXTS
        if type(given[0]) is dict and given[0].keys() <= {"content", "doc_uri"}:
            return _CHUNKS
    elif type(given) in _TYPES:
        return _TYPES[type(given)]
    raise Unclear
