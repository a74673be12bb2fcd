"""Embeddings in the store: immutable Parquet segments, one folder per model, shared by all runs and workers.

Any number of processes may add segments at once, since each has a name of its own and appears complete or not at all. A
segment that cannot be read is ignored with a warning, and its vectors are computed again.

Small segments are merged when there are many. The merged one appears before the small ones go, so that a process
that misses one of those looks again and finds its vectors. In a bucket they stay: a host that still has them
would bring them back.
"""

from __future__ import annotations

import errno
import logging
import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from leadline.evaluators.ground import StoreError
from leadline.tasks.ground.files import locked
from leadline.tasks.store.parquet_files import warn_damaged
from leadline.tasks.store.store import Store
from leadline.tasks.store.vectors.vector_files import (
    VectorIndex,
    as_array,
    as_table,
    read_digests,
    read_table,
    read_vectors,
    write_vectors,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

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

    In memory it keeps 24 bytes per vector, to know what is where; vectors are read by row groups when asked for.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._folders: dict[str, _Folder] = {}

    def get(self, model: str, texts: Sequence[bytes]) -> dict[bytes, npt.NDArray[np.float32]]:
        """Return the vectors that are in the store, by digest.

        Args:
            model: Digest of the model's identity; names the folder.
            texts: Digests of texts, 16 bytes each.
        """
        wanted = list(dict.fromkeys(texts))
        with self._lock:
            return self._folder(model).read(wanted)

    def put(self, model: str, texts: Sequence[bytes], vectors: npt.NDArray[np.float32]) -> None:
        """Write a segment.

        Args:
            model: Digest of the model's identity.
            texts: Digests of texts, 16 bytes each.
            vectors: One row per digest.

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
