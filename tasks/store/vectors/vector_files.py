"""Segments of embeddings as files: Parquet with the columns ``digest`` and ``vector``, in row groups of one size.

Nothing is compressed, and each page has a checksum, so that a row group is read fast and a flipped bit is noticed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from leadline.tasks.ground.files import replacing
from leadline.tasks.store.digests import seal
from leadline.tasks.store.vectors.vector_index import DIGEST_BYTES, as_array

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa
    import pyarrow.parquet as pq

ROW_GROUP: Final = 4096
"""Vectors that are read together: some 6 MB at 384 dimensions."""


def as_table(digests: Sequence[bytes], vectors: npt.NDArray[np.float32]) -> pa.Table:
    """Return what a segment contains, one row per digest.

    Args:
        digests: Digests of texts.
        vectors: One row per digest.
    """
    import pyarrow as pa

    flat = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).reshape(-1))
    columns = {
        "digest": pa.array(digests, pa.binary(DIGEST_BYTES)),
        "vector": pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1]),
    }
    return pa.table(columns)


def write_vectors(path: Path, tables: Iterable[pa.Table]) -> None:
    """Write tables as one segment, a row group at a time.

    Args:
        path: The segment.
        tables: Tables of :func:`as_table`.

    Raises:
        OSError: It cannot be written.
        ValueError: The tables' vectors differ in length (pyarrow's error is one).
    """
    import pyarrow.parquet as pq

    waiting = iter(tables)
    first = next(waiting)
    with replacing(path) as temporary:
        with pq.ParquetWriter(
            temporary,
            first.schema,
            compression="none",
            use_dictionary=False,
            write_statistics=False,
            write_page_checksum=True,
        ) as writer:
            for group in _in_groups(first, waiting):
                writer.write_table(group, row_group_size=ROW_GROUP)
        seal(temporary)


def read_digests(path: Path) -> npt.NDArray[np.bytes_]:
    """Return the digests of a segment in the order of its rows.

    Raises:
        Exception: The file cannot be read, or is no segment.
    """
    with _opened(path) as file:
        digests = file.read(columns=["digest"]).column("digest")
        if any(file.metadata.row_group(group).num_rows != ROW_GROUP for group in range(file.num_row_groups - 1)):
            raise ValueError("its row groups have another size")
    return as_array(digests.to_pylist())


def read_table(path: Path) -> pa.Table:
    """Return a segment as :func:`as_table` made it.

    Raises:
        Exception: The file cannot be read.
    """
    with _opened(path) as file:
        return file.read(columns=["digest", "vector"])


def read_vectors(path: Path, rows: npt.NDArray[np.int32]) -> Iterator[npt.NDArray[np.float32]]:
    """Return vectors of a segment; reads the row groups that contain them.

    Args:
        path: The segment.
        rows: Its rows, in ascending order.

    Raises:
        Exception: The file cannot be read.
    """
    with _opened(path) as file:
        groups = rows // ROW_GROUP
        for group in np.unique(groups):
            matrix = _matrix(file.read_row_group(int(group), columns=["vector"]).column("vector"))
            yield from matrix[rows[groups == group] - group * ROW_GROUP]  # a copy, so that the rest can go


def _opened(path: Path) -> pq.ParquetFile:
    import pyarrow.parquet as pq

    return pq.ParquetFile(path, page_checksum_verification=True, memory_map=False)


def _in_groups(first: pa.Table, others: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Return the rows of tables in tables of :data:`ROW_GROUP` rows, the last one with the rest."""
    import pyarrow as pa

    buffered = first
    for table in others:
        buffered = pa.concat_tables([buffered, table])
        while len(buffered) > ROW_GROUP:
            yield buffered.slice(0, ROW_GROUP)
            buffered = buffered.slice(ROW_GROUP)
    yield buffered


def _matrix(column: pa.ChunkedArray) -> npt.NDArray[np.float32]:
    array = column.combine_chunks()
    flat = array.flatten()
    values = flat.buffers()[1]  # Arrow's to_numpy imports pandas, 0.2 s of a command
    return np.frombuffer(values, np.float32, len(flat), 4 * flat.offset).reshape(len(array), -1)
