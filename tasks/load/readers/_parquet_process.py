"""Reads a Parquet file in a process of its own, since a library that aborts over a file ends the process it is in.

It imports nothing of ours, nor Arrow's functions, so that it starts at once. On standard output are streams of Arrow's
IPC: first an empty one with the columns, then one for each row group, whose batches are bounded by what they decode to.
What stops it is the last line of standard error, as JSON.

A text that a column has a thousand times is in the file once, in the column's dictionary. So columns of texts, those in
lists and structs too, are read as references to their dictionary, which take a few bytes each. The lengths that they
refer to are summed, row by row, and only as many rows are decoded together as a batch may have. Columns that outgrow
their dictionary and would be small even if each text were its longest are read as they are, which is faster.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import numpy as np
import pyarrow as pa
from pyarrow import parquet

if TYPE_CHECKING:
    import numpy.typing as npt

STOPPED: Final = 9
"""Exit code where it says why it read no further: in the last line of standard error."""

BATCH: Final = 4096
"""Rows of a batch at most."""

MAX_SHARED: Final = 64 * 2**20
"""Bytes of a column in a row group up to which it is read by its dictionary, which grows with each text that is new.

One with more holds most of its texts as they are. So few of its rows are read together that they would fit if each had
the longest text of its dictionary.
"""


OUTGROWN: Final = 2**20
"""Bytes of a column in a row group beyond which writers leave its dictionary and write texts as they are."""

MAX_PLAIN: Final = 256 * 2**20
"""Bytes of a column in a row group up to which it is read as it is, if each text were the longest of its dictionary."""


@dataclass(frozen=True, slots=True)
class ReadingLimits:
    """Bounds of what a file may unpack to.

    Attributes:
        rows: Most rows.
        total: Most bytes in all.
        record: Most bytes of a row.
        batch: Bytes of a batch, about.
    """

    rows: int
    total: int
    record: int
    batch: int


class RefusedFile(Exception):
    """A file that is not read on.

    Attributes:
        row: The row that is the reason; ``None`` if it is the file.
        lost: Whether there are rows that were not read.
    """

    def __init__(self, message: str, *, row: int | None = None, lost: bool = True) -> None:
        super().__init__(message)
        self.row = row
        self.lost = lost


def send(path: str, size: int, limits: ReadingLimits, out: BinaryIO) -> None:
    """Write a file's columns, then its rows.

    Raises:
        Refused: It holds more, or something has no size.
        pyarrow.ArrowException: It is damaged; so with ``OSError``, ``IndexError`` and ``ValueError``.
    """
    schema = parquet.read_schema(path)
    pa.ipc.new_stream(out, schema).close()
    out.flush()
    metadata = parquet.read_metadata(path)
    unpacked = _unpacked(metadata)
    if metadata.num_rows > limits.rows:
        message = f"the file declares {metadata.num_rows:,} rows; at most {limits.rows:,} are read"
        raise RefusedFile(message, lost=False)
    if unpacked > limits.total:
        message = f"the file of {size:,} bytes declares {unpacked:,} bytes of content: a decompression bomb"
        raise RefusedFile(message, lost=False)
    most = max(1, min(BATCH, limits.batch // (unpacked // max(1, metadata.num_rows) + 1)))
    row, total = 0, 0.0
    for group in range(metadata.num_row_groups):
        writer = None
        for batch, sizes in _batches(path, metadata, group, most, limits.batch):
            total += float(sizes.sum())
            if total > limits.total:
                raise RefusedFile(f"the file of {size:,} bytes unpacks to gigabytes: a decompression bomb", lost=False)
            if sizes.max(initial=0) > limits.record:
                message = f"the row is longer than {limits.record // 2**20} MiB"
                raise RefusedFile(message, row=row + 1 + int(sizes.argmax()))
            for first, length in slices(batch, sizes, limits.batch):
                part = decoded(batch.slice(first, length), schema)
                writer = writer or pa.ipc.new_stream(out, part.schema)
                writer.write_batch(part)
            row += batch.num_rows
        if writer is not None:
            writer.close()


def _unpacked(metadata: Any) -> int:
    sizes: list[int] = [metadata.row_group(index).total_byte_size for index in range(metadata.num_row_groups)]
    return sum(max(0, size) for size in sizes)


def _batches(path: str, metadata: Any, group: int, most: int, room: int) -> Iterator[tuple[Any, Any]]:
    """Yield the batches of a row group, and the size of each row when it is decoded."""
    sizes = text_columns(metadata, group)
    shared = {name for name, column in sizes.items() if column.total_uncompressed_size <= MAX_SHARED}
    if large := [name for name, column in sizes.items() if column.total_uncompressed_size > OUTGROWN]:
        with parquet.ParquetFile(path, metadata=metadata, read_dictionary=large) as file:
            first = next(file.iter_batches(batch_size=1, row_groups=[group], columns=large, use_threads=False))
        longest = longest_text(first)
        shared -= {name for name in large if sizes[name].num_values * longest <= MAX_PLAIN}
        if any(sizes[name].total_uncompressed_size > MAX_SHARED for name in large):
            most = max(1, min(most, room // max(1, longest)))
    with parquet.ParquetFile(path, metadata=metadata, read_dictionary=list(shared)) as file:
        for batch in file.iter_batches(batch_size=most, row_groups=[group], use_threads=False):
            yield batch, decoded_sizes(batch)


def text_columns(metadata: Any, group: int) -> dict[str, Any]:
    """Return the columns of texts of a row group by their paths, each with what the file says of its size."""
    columns = map(metadata.row_group(group).column, range(metadata.num_columns))
    return {column.path_in_schema: column for column in columns if column.physical_type == "BYTE_ARRAY"}


def longest_text(batch: pa.RecordBatch) -> int:
    """Return the bytes of the longest texts of the dictionaries of all columns together."""
    return sum(map(_longest, batch.columns))


def _longest(array: pa.Array) -> int:
    kind = array.type
    if pa.types.is_dictionary(kind):
        return int(np.diff(_ends(array.dictionary)).max(initial=0))
    if pa.types.is_struct(kind):
        return sum(_longest(array.field(index)) for index in range(kind.num_fields))
    if pa.types.is_map(kind):
        return _longest(array.keys) + _longest(array.items)
    return _longest(array.values) if pa.types.is_list(kind) or pa.types.is_large_list(kind) else 0


def decoded_sizes(batch: pa.RecordBatch) -> npt.NDArray[Any]:
    """Return about how many bytes each row has when its texts are decoded."""
    total = np.zeros(batch.num_rows)
    for column in batch.columns:
        total += _sizes(column)
    return total


def slices(batch: pa.RecordBatch, sizes: npt.NDArray[Any], most: int) -> Iterator[tuple[int, int]]:
    """Yield the first row of some that fit together, and how many they are; at least one."""
    ends = np.cumsum(sizes)
    first = 0
    while first < batch.num_rows:
        before = ends[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield first, last - first
        first = last


def decoded(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows with the texts in lists and structs decoded; other columns stay references, to what they refer to.

    Args:
        batch: The rows.
        schema: The types of the columns when nothing is read by its dictionary.
    """
    columns = [
        _compacted(column)
        if pa.types.is_dictionary(column.type)
        else column
        if column.type == field.type
        else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _compacted(column: pa.DictionaryArray) -> pa.DictionaryArray:
    """Return references with a dictionary of what they refer to, so that no more than that is sent."""
    if len(column.dictionary) <= len(column):
        return column
    return column.dictionary_decode().dictionary_encode()


def _sizes(array: pa.Array) -> npt.NDArray[Any]:
    """Return the decoded size of each element of an array."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        lengths = np.diff(_ends(array.dictionary)).astype(np.float64)
        known = _known(array)
        return (
            np.where(known, lengths[np.where(known, _numbers(array.indices), 0)], 0.0) if len(lengths) else known * 0.0
        )
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return np.diff(_ends(array)) + 8.0
    if pa.types.is_struct(kind):
        total = np.zeros(len(array))
        for index in range(kind.num_fields):
            total += _sizes(array.field(index))
        return total
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        offsets = _numbers(array.offsets)
        inner = _sizes(array.keys) + _sizes(array.items) if pa.types.is_map(kind) else _sizes(array.values)
        ends = np.concatenate(([0.0], np.cumsum(inner)))
        sizes: npt.NDArray[Any] = ends[offsets[1:]] - ends[offsets[:-1]] + 8.0 * np.diff(offsets)
        return sizes
    return np.full(len(array), array.nbytes / max(1, len(array)))


def _numbers(array: pa.Array) -> npt.NDArray[Any]:
    """Return integers as NumPy's, without pandas, which Arrow's own way imports; what is null is any number."""
    if not len(array):
        return np.zeros(0, np.int64)
    first = array.offset
    return np.frombuffer(array.buffers()[1], array.type.to_pandas_dtype())[first : first + len(array)]


def _known(array: pa.Array) -> npt.NDArray[np.bool_]:
    """Return which elements are not null."""
    if not array.null_count:
        return np.ones(len(array), np.bool_)
    bits = np.unpackbits(np.frombuffer(array.buffers()[0], np.uint8), bitorder="little")
    return bits[array.offset : array.offset + len(array)].astype(np.bool_)


def _ends(texts: pa.Array) -> npt.NDArray[Any]:
    """Return where texts begin and end in their bytes."""
    if not len(texts):
        return np.zeros(1, np.int64)
    first = texts.offset
    size = np.int64 if texts.type in (pa.large_string(), pa.large_binary()) else np.int32
    return np.frombuffer(texts.buffers()[1], size)[first : first + len(texts) + 1]


def main() -> None:
    """Send the file that the arguments name: its path, its bytes and the limits."""
    path, size, *limits = sys.argv[1:]
    try:
        send(path, int(size), ReadingLimits(*map(int, limits)), sys.stdout.buffer)
    except RefusedFile as error:
        said = {"message": str(error), "row": error.row, "lost": error.lost}
    except BrokenPipeError:
        return
    except (pa.ArrowException, OSError, IndexError, ValueError) as error:  # IndexError: beyond a column's dictionary
        said = {"message": f"the Parquet file is damaged: {str(error).splitlines()[0]}", "row": None, "lost": True}
    else:
        sys.stdout.buffer.flush()
        return
    sys.stdout.buffer.flush()
    sys.stderr.write(f"\n{json.dumps(said)}")
    sys.exit(STOPPED)


if __name__ == "__main__":
    main()
