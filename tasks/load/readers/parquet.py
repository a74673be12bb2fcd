"""Parquet: a table with types, read in batches; texts of a dictionary are shared, so that no small file explodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from leadline.tasks.load.faults import Faults
from leadline.tasks.load.limits import FREE_EXPANSION, MAX_EXPANSION, MAX_RECORD, MAX_ROWS, MIB
from leadline.tasks.load.readers.item import Item

if TYPE_CHECKING:
    from leadline.tasks.load.source import Source

_BATCH: Final = 4096
_BATCH_BYTES: Final = 64 * MIB


def column_names(source: Source) -> list[str]:
    """Return the names of the table's columns; none if the file is broken."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        return list(parquet.read_schema(source.path).names)
    except (pa.ArrowException, OSError):
        return []


def read_parquet(source: Source, faults: Faults) -> Iterator[Item]:
    """Read one record a row; a damaged file is noted, and what was read before the damage is kept.

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
                for record in _records(batch):
                    row += 1
                    size = sum(len(value) for value in record.values() if type(value) is str)
                    if size > MAX_RECORD:
                        faults.lose()
                        faults.stop(Item("", row, None, 0).place, "", f"the row is longer than {MAX_RECORD // MIB} MiB")
                    yield Item("", row, record, size)
    except (pa.ArrowException, OSError, UnicodeDecodeError, ValueError) as error:
        faults.lose()
        faults.add(None, "", f"the Parquet file is damaged: {str(error).splitlines()[0]}")


def _records(batch: Any) -> Iterator[dict[str, Any]]:
    columns = [_values(column) for column in batch.columns]
    names = batch.schema.names
    for cells in zip(*columns, strict=True):
        yield dict(zip(names, cells, strict=True))


def _values(column: Any) -> list[Any]:
    """Return a column's values; equal values of a dictionary are one object."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        values = column.dictionary.to_pylist()
        return [None if index is None else values[index] for index in column.indices.to_pylist()]
    result: list[Any] = column.to_pylist(maps_as_pydicts="lossy")
    return result


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
