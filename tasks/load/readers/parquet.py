"""Parquet: a table with types, read in batches; texts of a dictionary are shared, so that no small file explodes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from leadline.tasks.load.column_values import Unclear, values_of
from leadline.tasks.load.faults import Faults, Place
from leadline.tasks.load.limits import FREE_EXPANSION, MAX_EXPANSION, MAX_RECORD, MAX_ROWS, MIB
from leadline.tasks.load.readers.item import Block, Item
from leadline.tasks.load.readers.table_records import TableRecords

if TYPE_CHECKING:
    from leadline.tasks.load.source import Source

_BATCH: Final = 4096
_BATCH_BYTES: Final = 32 * MIB


def column_names(source: Source) -> list[str]:
    """Return the names of the table's columns; none if the file is broken."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        return list(parquet.read_schema(source.path).names)
    except (pa.ArrowException, OSError):
        return []


def read_parquet(source: Source, faults: Faults) -> Iterator[Block]:
    """Read rows in batches; a damaged file is noted, and what was read before the damage is kept.

    Args:
        source: The file.
        faults: Takes the faults.
    """
    import pyarrow as pa
    from pyarrow import parquet

    try:
        schema = parquet.read_schema(source.path)
        texts = [f.name for f in schema if pa.types.is_string(f.type) or pa.types.is_large_string(f.type)]
        with parquet.ParquetFile(source.path, read_dictionary=texts) as file:
            if _is_bomb(file.metadata, source, faults):
                return
            row = 0
            for batch in file.iter_batches(batch_size=_batch_rows(file.metadata), use_threads=False):
                rows = range(row + 1, row + 1 + batch.num_rows)
                yield Block(partial(_items, batch, rows, faults), partial(_table, batch, rows))
                row += batch.num_rows
    except (pa.ArrowException, OSError, UnicodeDecodeError, ValueError) as error:
        faults.lose()
        faults.add(None, "", f"the Parquet file is damaged: {str(error).splitlines()[0]}")


def _items(batch: Any, rows: range, faults: Faults) -> Iterator[Item]:
    names = batch.schema.names
    columns = []
    for name, column in zip(names, batch.columns, strict=True):
        try:
            columns.append(values_of(column))
        except Unclear as error:
            faults.lose()
            where = f"rows {rows[0]:,} to {rows[-1]:,}"
            faults.add(None, name, f"{where} cannot be read, the Parquet file is damaged: {error}")
            return
    for row, cells in zip(rows, zip(*columns, strict=True), strict=True):
        record = dict(zip(names, cells, strict=True))
        size = sum(len(value) for value in cells if type(value) is str)
        if size > MAX_RECORD:
            faults.lose()
            faults.stop(Place(row), "", f"the row is longer than {MAX_RECORD // MIB} MiB")
        yield Item("", row, record, size)


def _table(batch: Any, rows: range) -> TableRecords | None:
    """Return a batch to be read by columns; ``None`` if some row may be too long, or a text no UTF-8."""
    import pyarrow as pa

    names = batch.schema.names
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:
        return None
    return None if len(set(names)) < len(names) or batch.nbytes > MAX_RECORD else TableRecords(batch, names, rows)


def _unpacked(metadata: Any) -> int:
    sizes: list[int] = [metadata.row_group(index).total_byte_size for index in range(metadata.num_row_groups)]
    return sum(max(0, size) for size in sizes)


def _batch_rows(metadata: Any) -> int:
    """Return how many rows of the average size make a batch."""
    average: int = _unpacked(metadata) // max(1, metadata.num_rows) + 1
    return max(1, min(_BATCH, _BATCH_BYTES // average))


def _is_bomb(metadata: Any, source: Source, faults: Faults) -> bool:
    unpacked = _unpacked(metadata)
    if metadata.num_rows > MAX_ROWS:
        faults.add(None, "", f"the file declares {metadata.num_rows:,} rows; at most {MAX_ROWS:,} are read")
        return True
    if unpacked > max(FREE_EXPANSION, MAX_EXPANSION * source.size):
        faults.add(
            None, "", f"the file of {source.size:,} bytes declares {unpacked:,} bytes of content: a decompression bomb"
        )
        return True
    return False
