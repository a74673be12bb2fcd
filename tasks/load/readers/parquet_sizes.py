"""Sizes of the rows of a Parquet file once they are decoded, so that no small file fills the memory.

A text that a column has a thousand times is in the file once, in the column's dictionary. So columns of texts, those in
lists and structs too, are read as references to their dictionary, which take a few bytes each. The lengths that they
refer to are summed, row by row, and only as many rows are decoded together as a batch may have.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from leadline.tasks.load.limits import MIB

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

MAX_SHARED: Final = 64 * MIB
"""Bytes of a column in a row group up to which it is read by its dictionary, which grows with each text that is new.

One with more holds most of its texts as they are. So few of its rows are read together that they would fit if each had
the longest text of its dictionary.
"""


def shared_columns(metadata: Any, group: int, *, large: bool = False) -> list[str]:
    """Return the columns of a row group, as paths, that are to be read by their dictionaries.

    Args:
        metadata: The file's metadata.
        group: Number of the row group.
        large: Return the other columns of texts instead.
    """
    columns = map(metadata.row_group(group).column, range(metadata.num_columns))
    return [
        column.path_in_schema
        for column in columns
        if column.physical_type == "BYTE_ARRAY" and (column.total_uncompressed_size > MAX_SHARED) == large
    ]


def longest_text(batch: pa.RecordBatch) -> int:
    """Return the bytes of the longest texts of the dictionaries of all columns together."""
    return sum(map(_longest, batch.columns))


def _longest(array: pa.Array) -> int:
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = array.type
    if pa.types.is_dictionary(kind):
        return pc.max(pc.binary_length(array.dictionary)).as_py() or 0
    if pa.types.is_struct(kind):
        return sum(_longest(array.field(index)) for index in range(kind.num_fields))
    if pa.types.is_map(kind):
        return _longest(array.keys) + _longest(array.items)
    return _longest(array.values) if pa.types.is_list(kind) or pa.types.is_large_list(kind) else 0


def decoded_sizes(batch: pa.RecordBatch) -> npt.NDArray[Any]:
    """Return about how many bytes each row has when its texts are decoded."""
    import numpy as np

    total = np.zeros(batch.num_rows)
    for column in batch.columns:
        total += _sizes(column)
    return total


def slices(batch: pa.RecordBatch, sizes: npt.NDArray[Any], most: int) -> Iterator[tuple[int, int]]:
    """Yield the first row of some that fit together, and how many they are; at least one.

    Args:
        batch: The rows.
        sizes: Size of each.
        most: Bytes that they may have together.
    """
    import numpy as np

    ends = np.cumsum(sizes)
    first = 0
    while first < batch.num_rows:
        before = ends[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield first, last - first
        first = last


def decoded(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows with the texts in lists and structs decoded; those of other columns stay references.

    Args:
        batch: The rows.
        schema: The types of the columns when nothing is read by its dictionary.
    """
    import pyarrow as pa

    columns = [
        column if pa.types.is_dictionary(column.type) or column.type == field.type else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _sizes(array: pa.Array) -> npt.NDArray[Any]:
    """Return the decoded size of each element of an array."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = array.type
    if pa.types.is_dictionary(kind):
        lengths = pc.binary_length(array.dictionary).cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        indices = array.indices.fill_null(0).to_numpy(zero_copy_only=False)
        known = array.is_valid().to_numpy(zero_copy_only=False)
        return np.where(known, lengths[indices], 0.0) if len(lengths) else np.zeros(len(array))
    if pa.types.is_struct(kind):
        total = np.zeros(len(array))
        for index in range(kind.num_fields):
            total += _sizes(array.field(index))
        return total
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        offsets = array.offsets.to_numpy()
        inner = _sizes(array.keys) + _sizes(array.items) if pa.types.is_map(kind) else _sizes(array.values)
        ends = np.concatenate(([0.0], np.cumsum(inner)))
        sizes: npt.NDArray[Any] = ends[offsets[1:]] - ends[offsets[:-1]] + 8.0 * np.diff(offsets)
        return sizes
    return np.full(len(array), array.nbytes / max(1, len(array)))
