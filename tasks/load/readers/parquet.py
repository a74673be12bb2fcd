"""Parquet: a table with types, read in batches that are bounded by what they decode to."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from leadline.tasks.load.column_values import Unclear, values_of
from leadline.tasks.load.faults import Faults, Place
from leadline.tasks.load.limits import FREE_EXPANSION, MAX_EXPANSION, MAX_RECORD, MAX_ROWS, MIB
from leadline.tasks.load.readers.item import Block, Item
from leadline.tasks.load.readers.parquet_sizes import decoded, decoded_sizes, longest_text, shared_columns, slices
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
    except (pa.ArrowException, OSError, UnicodeDecodeError):
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
        metadata = parquet.read_metadata(source.path)
        if _is_bomb(metadata, source, faults):
            return
        schema = parquet.read_schema(source.path)
        row, total = 0, 0.0
        for batch, sizes in _batches(source, metadata):
            total += float(sizes.sum())
            if total > max(FREE_EXPANSION, MAX_EXPANSION * source.size):
                faults.stop(None, "", f"the file of {source.size:,} bytes unpacks to gigabytes: a decompression bomb")
            if sizes.max(initial=0) > MAX_RECORD:
                faults.lose()
                large = Place(row + 1 + int(sizes.argmax()))
                faults.stop(large, "", f"the row is longer than {MAX_RECORD // MIB} MiB")
            for first, length in slices(batch, sizes, _BATCH_BYTES):
                part = decoded(batch.slice(first, length), schema)
                rows = range(row + 1 + first, row + 1 + first + length)
                yield Block(partial(_items, part, rows, faults), partial(_table, part, rows))
            row += batch.num_rows
    except (pa.ArrowException, OSError, IndexError, ValueError) as error:  # IndexError: beyond a column's dictionary
        faults.lose()
        faults.add(None, "", f"the Parquet file is damaged: {str(error).splitlines()[0]}")


def _batches(source: Source, metadata: Any) -> Iterator[tuple[Any, Any]]:
    """Yield batches of rows, and the size of each row when it is decoded.

    Args:
        source: The file.
        metadata: Its metadata.
    """
    from pyarrow import parquet

    most = _batch_rows(metadata)
    for group in range(metadata.num_row_groups):
        size = most
        shared, large = (shared_columns(metadata, group, large=each) for each in (False, True))
        if large:
            with parquet.ParquetFile(source.path, metadata=metadata, read_dictionary=large) as file:
                first = next(file.iter_batches(batch_size=1, row_groups=[group], columns=large, use_threads=False))
            size = max(1, min(size, _BATCH_BYTES // max(1, longest_text(first))))
        with parquet.ParquetFile(source.path, metadata=metadata, read_dictionary=shared) as file:
            for batch in file.iter_batches(batch_size=size, row_groups=[group], use_threads=False):
                yield batch, decoded_sizes(batch)


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
