"""Embeddings in the store: immutable Parquet segments, one folder per model, shared by all runs and workers.

Any number of processes may add segments at once, since each has a name of its own and appears complete or not at all. A
segment that cannot be read is ignored with a warning, and its vectors are computed again.

Small segments are merged when there are many. The merged one appears before the small ones go, so that a process
that misses one of those looks again and finds its vectors. In a bucket they stay: a host that still has them
would bring them back.

Nothing is compressed, and each page has a checksum, so that a row group is read fast and a flipped bit is noticed. The
index, 24 bytes a vector, is a few sorted arrays. Each new segment becomes one, and those of about equal length are
merged, so that looking up takes few searches, and adding many segments takes no time that grows with their square.
"""

from __future__ import annotations

import errno
import logging
import secrets
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from leadline.evaluators.ground import StoreError
from leadline.tasks.ground.files import locked, replacing
from leadline.tasks.store.parquet_files import seal, warn_damaged
from leadline.tasks.store.store import Store

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa
    import pyarrow.parquet as pq

ROW_GROUP: Final = 4096
"""Vectors that are read together: some 6 MB at 384 dimensions."""

_DIGEST_BYTES: Final = 16


def as_table(digests: Sequence[bytes], vectors: npt.NDArray[np.float32]) -> pa.Table:
    """Return what a segment contains, one row per digest."""
    import pyarrow as pa

    from leadline.tasks.ground.arrow_arrays import numbers_of

    kind = pa.binary(_DIGEST_BYTES)
    names = pa.Array.from_buffers(kind, len(digests), [None, pa.py_buffer(b"".join(digests))])
    flat = numbers_of(np.ascontiguousarray(vectors, dtype=np.float32).reshape(-1))
    return pa.table({"digest": names, "vector": pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])})


def write_vectors(path: Path, tables: Iterable[pa.Table]) -> None:
    """Write tables as one segment, a row group at a time.

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


log = logging.getLogger("leadline.store")

MERGED_AT: Final = 64
MOST_MERGED: Final = 256
"""The least and the greatest number of small segments that are merged."""

SMALL: Final = 256
"""Vectors below which a segment is small: reading them takes no longer than opening the file."""

_SETTLED_NS: Final = 2_000_000_000
"""A folder that was changed this recently may be changed again without another time of change."""

_LOOKS: Final = 3
"""Listings of a folder at most while listed segments disappear."""


class ParquetVectors:
    """The vector store of a :class:`~leadline.tasks.store.store.Store`; safe to use from several threads.

    A model is the digest of its identity, a text one of 16 bytes. In memory it keeps 24 bytes per vector, to know what
    is where; vectors are read by row groups when asked for.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._folders: dict[str, _Folder] = {}

    def get(self, model: str, texts: Sequence[bytes]) -> dict[bytes, npt.NDArray[np.float32]]:
        """Return the vectors that are in the store, by digest."""
        wanted = list(dict.fromkeys(texts))
        with self._lock:
            return self._folder(model).read(wanted)

    def put(self, model: str, texts: Sequence[bytes], vectors: npt.NDArray[np.float32]) -> None:
        """Write a segment.

        Raises:
            OSError: It cannot be written.
        """
        if not texts:
            return
        path = _new_segment(self._store.vectors(model))
        write_vectors(path, [as_table(texts, vectors)])
        try:
            self._store.push([path])
        except StoreError as error:
            raise OSError(f"Other hosts do not get them: {error}") from error
        with self._lock:
            folder = self._folder(model)
            folder.add(path.name, as_array(texts))
            if self._store.remote is None:
                folder.merge()

    def _folder(self, model: str) -> _Folder:
        """Return the index of a model's folder, with the segments of other hosts when it is first looked at."""
        path = self._store.vectors(model)
        if model not in self._folders:
            self._folders[model] = _Folder(path)
            if path.exists():
                with suppress(OSError):  # another user's
                    used_mark(path).touch()
            try:
                self._store.sync([path])
            except (OSError, StoreError) as error:
                log.warning("The embeddings of other hosts cannot be brought to %s: %s", path, error)
        return self._folders[model]


class _Folder:
    """The index of this process over the segments of one model."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._index = VectorIndex()
        self._names: list[str] = []
        self._sizes: dict[str, int] = {}
        """Number of vectors of each segment ever seen, 0 for one that is not used."""
        self._looked_at: int | None = None
        """Time of the folder's last change when it was listed; ``None`` if too recent to be reliable."""
        self._merges = True

    def read(self, wanted: Sequence[bytes]) -> dict[bytes, npt.NDArray[np.float32]]:
        """Return the vectors of those digests that are here."""
        found: dict[bytes, npt.NDArray[np.float32]] = {}
        complete = False
        while wanted and not complete:
            self._look()
            complete = True
            for number, places, rows in list(self._index.find(as_array(wanted))):
                name = self._names[number]
                try:
                    found.update(zip((wanted[at] for at in places), read_vectors(self._path / name, rows), strict=True))
                except Exception as error:  # whatever a damaged file makes of its reader
                    self._lose(name, error)
                    complete = False  # a digest may be in another segment as well
            wanted = [text for text in wanted if text not in found]
        return found

    def add(self, name: str, digests: npt.NDArray[np.bytes_]) -> None:
        """Take a segment into the index."""
        if name in self._sizes:
            return
        self._index.add(len(self._names), digests)
        self._names.append(name)
        self._sizes[name] = len(digests)

    def merge(self) -> None:
        """Merge small segments into one if there are many and no other process is about it."""
        if not self._merges or len(self._small()) < MERGED_AT:
            return
        try:
            with locked(self._path / ".lock", wait=False):
                self._merge()
        except TimeoutError:  # another process merges them
            return
        except Exception as error:  # merging saves time, and no vector depends on it
            self._merges = False
            log.warning("The embeddings in %s stay in many small files: %s", self._path, error)

    def _merge(self) -> None:
        self._look()
        small = self._small()[:MOST_MERGED]
        if len(small) < MERGED_AT:
            return
        merged = _new_segment(self._path)
        merged_names: list[str] = []
        write_vectors(merged, self._tables(small, merged_names))
        self.add(merged.name, read_digests(merged))
        gone: list[str] = []
        try:
            for name in merged_names:
                (self._path / name).unlink(missing_ok=True)
                gone.append(name)
        except OSError:
            if not gone:  # another user's files: merged as well, they would be there once more for each process
                merged.unlink(missing_ok=True)
                self._drop([merged.name])
            raise
        finally:
            self._drop(gone)

    def _small(self) -> list[str]:
        return [name for name, size in self._sizes.items() if 0 < size < SMALL]

    def _tables(self, names: Sequence[str], merged_names: list[str]) -> Iterator[pa.Table]:
        """Read segments one by one, and note which could be read."""
        for name in names:
            try:
                table = read_table(self._path / name)
            except Exception as error:  # whatever a damaged file makes of its reader
                self._lose(name, error)
                continue
            yield table
            merged_names.append(name)

    def _look(self) -> None:
        """Learn which segments appeared and which went since the last look."""
        for _ in range(_LOOKS):
            try:
                if not self._has_changed():
                    return
                names = {path.name for path in self._path.glob("[!.]*.parquet")}
            except OSError as error:
                log.warning("The embeddings in %s cannot be listed: %s", self._path, error)
                return
            self._drop([name for name, size in self._sizes.items() if size and name not in names])
            there = [self._load(name) for name in sorted(names - self._sizes.keys())]
            if all(there):
                return

    def _load(self, name: str) -> bool:
        """Take a segment that was listed into the index, and return whether it was still there."""
        try:
            self.add(name, read_digests(self._path / name))
        except Exception as error:  # whatever a damaged file makes of its reader
            self._lose(name, error)
            return not _is_gone(error)
        return True

    def _has_changed(self) -> bool:
        """Return whether the folder may contain other files than when it was listed; it is to be listed then."""
        try:
            changed = self._path.stat().st_mtime_ns
        except FileNotFoundError:
            changed = 0
        if changed == self._looked_at:
            return False
        self._looked_at = changed if time.time_ns() - changed > _SETTLED_NS else None
        return True

    def _lose(self, name: str, error: Exception) -> None:
        """Do without a segment; one that is gone was merged with others into one that is to be looked for."""
        if _is_gone(error):
            self._looked_at = None
        else:
            warn_damaged(self._path / name, "embeddings", (str(error).splitlines() or [""])[0])
        self._drop([name])

    def _drop(self, names: Sequence[str]) -> None:
        gone = {name for name in names if self._sizes.get(name)}
        self._index.drop([number for number, name in enumerate(self._names) if name in gone])
        self._sizes.update(dict.fromkeys(names, 0))


def _is_gone(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno in (errno.ENOENT, errno.ESTALE)


def _new_segment(folder: Path) -> Path:
    return folder / f"{secrets.token_hex(12)}.parquet"


def used_mark(folder: Path) -> Path:
    """Return the file whose time says when a process last looked for embeddings in a model's folder."""
    return folder.with_name(f".{folder.name}.used")
