"""Segments of embeddings as Parquet, and an index of 24 bytes a vector over those of a model.

Nothing is compressed, and each page has a checksum, so that a row group is read fast and a flipped bit is noticed.

The index is a few sorted arrays. Each new segment becomes one, and those of about equal length are merged, so that
looking up takes few searches, and adding many segments one by one takes no time that grows with their square.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from leadline.tasks.ground.files import replacing
from leadline.tasks.store.digests import seal

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa
    import pyarrow.parquet as pq


ROW_GROUP: Final = 4096
"""Vectors that are read together: some 6 MB at 384 dimensions."""

_DIGEST_BYTES: Final = 16


def as_table(digests: Sequence[bytes], vectors: npt.NDArray[np.float32]) -> pa.Table:
    """Return what a segment contains, one row per digest.

    Args:
        digests: Digests of texts.
        vectors: One row per digest.
    """
    import pyarrow as pa

    flat = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).reshape(-1))
    columns = {
        "digest": pa.array(digests, pa.binary(_DIGEST_BYTES)),
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


@dataclass(frozen=True, slots=True)
class _Sorted:
    """Places of vectors: digests in ascending order, and for each the segment's number and the row in it."""

    digests: npt.NDArray[np.bytes_]
    segments: npt.NDArray[np.int32]
    rows: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.digests)

    def taken(self, places: npt.NDArray[np.intp] | npt.NDArray[np.bool_]) -> _Sorted:
        return _Sorted(self.digests[places], self.segments[places], self.rows[places])


class VectorIndex:
    """Finds vectors by the digests of their texts; a digest may be in several segments."""

    def __init__(self) -> None:
        self._parts: list[_Sorted] = []

    def add(self, number: int, digests: npt.NDArray[np.bytes_]) -> None:
        """Add a segment.

        Args:
            number: What :meth:`find` calls it.
            digests: The digests in the order of its rows.
        """
        order = np.argsort(digests, kind="stable")
        part = _Sorted(digests[order], np.full(len(order), number, np.int32), order.astype(np.int32))
        while self._parts and len(self._parts[-1]) <= 2 * len(part):
            part = _merged(self._parts.pop(), part)
        if len(part):
            self._parts.append(part)

    def drop(self, numbers: Sequence[int]) -> None:
        """Forget segments."""
        if not numbers:
            return
        kept = [part.taken(~np.isin(part.segments, np.asarray(numbers, np.int32))) for part in self._parts]
        self._parts = [part for part in kept if len(part)]

    def find(self, wanted: npt.NDArray[np.bytes_]) -> Iterator[tuple[int, npt.NDArray[np.intp], npt.NDArray[np.int32]]]:
        """Return the places of those digests that are in some segment, by segment.

        Args:
            wanted: Digests.

        Yields:
            A segment's number, positions in ``wanted``, and the row of each, in ascending order.
        """
        segments = np.full(len(wanted), -1, np.int32)
        rows = np.zeros(len(wanted), np.int32)
        for part in self._parts:
            open_ = np.flatnonzero(segments < 0)
            at = np.minimum(np.searchsorted(part.digests, wanted[open_]), len(part) - 1)
            hit = part.digests[at] == wanted[open_]
            segments[open_[hit]] = part.segments[at[hit]]
            rows[open_[hit]] = part.rows[at[hit]]
        order = np.lexsort((rows, segments))
        order = order[segments[order] >= 0]
        for places in np.split(order, np.flatnonzero(np.diff(segments[order])) + 1):
            if len(places):
                yield int(segments[places[0]]), places, rows[places]


def as_array(digests: Sequence[bytes]) -> npt.NDArray[np.bytes_]:
    """Return digests as fixed-width strings: numpy ignores trailing NULs, which at one length confuses no two."""
    return np.frombuffer(b"".join(digests), dtype=f"S{_DIGEST_BYTES}")


def _merged(first: _Sorted, second: _Sorted) -> _Sorted:
    both = _Sorted(
        np.concatenate([first.digests, second.digests]),
        np.concatenate([first.segments, second.segments]),
        np.concatenate([first.rows, second.rows]),
    )
    return both.taken(np.argsort(both.digests, kind="stable"))
