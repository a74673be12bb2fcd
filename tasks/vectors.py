"""Embeddings in the store: immutable Parquet segments, one folder per model, shared by all runs and workers.

A segment holds ``digest`` (16 bytes that stand for a text) and ``vector``. Any number of processes may add segments at
once, since each has a name of its own and appears complete or not at all. A segment that cannot be read is left
aside with a warning, and what it held is computed again.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from evaluators.errors import StoreError
from tasks.store import Store, replacing

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa
    import pyarrow.parquet as pq

log = logging.getLogger("leadline.store")

ROW_GROUP: Final = 4096
"""Vectors that are read together: some 6 MB at 384 dimensions."""

DIGEST_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class _Segment:
    """The index of one segment: its digests in ascending order, and the row of each."""

    path: Path
    digests: npt.NDArray[np.bytes_]
    rows: npt.NDArray[np.int64]

    def find(self, digests: npt.NDArray[np.bytes_]) -> npt.NDArray[np.int64]:
        """Return the row of each digest, -1 where it is not here."""
        import numpy as np

        at = np.minimum(np.searchsorted(self.digests, digests), len(self.digests) - 1)
        return np.where(self.digests[at] == digests, self.rows[at], -1)


class ParquetVectors:
    """The vector store of a :class:`~tasks.store.Store`; safe to use from several threads.

    In memory it keeps 24 bytes per vector, to know what is where; vectors are read by row groups when asked for.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._segments: dict[str, dict[str, _Segment | None]] = {}

    def get(self, model: str, texts: Sequence[bytes]) -> dict[bytes, npt.NDArray[np.float32]]:
        """Return the vectors that are in the store, by digest.

        Args:
            model: Digest of the model's identity; names the folder.
            texts: Digests of texts, 16 bytes each.
        """
        found: dict[bytes, npt.NDArray[np.float32]] = {}
        wanted = list(dict.fromkeys(texts))
        with self._lock:
            for segment in self._index(model):
                if not wanted:
                    break
                found.update(self._read(model, segment, wanted))
                wanted = [text for text in wanted if text not in found]
        return found

    def put(self, model: str, texts: Sequence[bytes], vectors: npt.NDArray[np.float32]) -> None:
        """Write a segment.

        Args:
            model: Digest of the model's identity.
            texts: Digests of texts, 16 bytes each.
            vectors: One row per digest.

        Raises:
            OSError: It cannot be written.
        """
        import numpy as np
        import pyarrow as pa
        import pyarrow.parquet as pq

        if not texts:
            return
        flat = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).reshape(-1))
        table = pa.table(
            {
                "digest": pa.array(texts, pa.binary(DIGEST_BYTES)),
                "vector": pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1]),
            }
        )
        path = self._store.vectors(model) / f"{secrets.token_hex(12)}.parquet"
        with replacing(path) as temporary:
            pq.write_table(
                table,
                temporary,
                row_group_size=ROW_GROUP,
                compression="none",
                use_dictionary=False,
                write_statistics=False,
                write_page_checksum=True,
            )
        try:
            self._store.push([path])
        except StoreError as error:
            raise OSError(f"Other hosts do not get them: {error}") from error

    def _index(self, model: str) -> list[_Segment]:
        """Return the readable segments of a model, with those that appeared since the last look."""
        folder = self._store.vectors(model)
        first = model not in self._segments
        known = self._segments.setdefault(model, {})
        try:
            if first:
                self._store.sync([folder])  # those of other hosts
            names = sorted(path.name for path in folder.glob("*.parquet"))
        except (OSError, StoreError) as error:
            log.warning("The embeddings in %s cannot be listed: %s", folder, error)
            return []
        for name in names:
            if name not in known:
                known[name] = _load_index(folder / name)
        return [segment for name in names if (segment := known[name]) is not None]

    def _read(self, model: str, segment: _Segment, wanted: Sequence[bytes]) -> dict[bytes, npt.NDArray[np.float32]]:
        import numpy as np

        rows = segment.find(_array(wanted))
        places = np.flatnonzero(rows >= 0)
        if not len(places):
            return {}
        places = places[np.argsort(rows[places], kind="stable")]
        found: dict[bytes, npt.NDArray[np.float32]] = {}
        try:
            with _open(segment.path) as file:
                groups = rows[places] // ROW_GROUP
                for group in np.unique(groups):
                    mine = places[groups == group]
                    matrix = _matrix(file.read_row_group(int(group), columns=["vector"]).column("vector"))
                    picked = matrix[rows[mine] - group * ROW_GROUP]  # a copy, so that the rest can go
                    found.update(zip((wanted[place] for place in mine), picked, strict=True))
        except Exception as error:
            self._segments[model][segment.path.name] = None
            _warn(segment.path, error)
            return {}
        return found


def _load_index(path: Path) -> _Segment | None:
    import numpy as np

    try:
        with _open(path) as file:
            digests = file.read(columns=["digest"]).column("digest")
            if any(file.metadata.row_group(group).num_rows != ROW_GROUP for group in range(file.num_row_groups - 1)):
                raise ValueError("its row groups have another size")
        found = _array(digests.to_pylist())
    except Exception as error:
        _warn(path, error)
        return None
    if not len(found):
        return None
    order = np.argsort(found, kind="stable")
    return _Segment(path, found[order], order.astype(np.int64))


def _open(path: Path) -> pq.ParquetFile:
    import pyarrow.parquet as pq

    return pq.ParquetFile(path, page_checksum_verification=True, memory_map=False)


def _array(digests: Sequence[bytes]) -> npt.NDArray[np.bytes_]:
    """Return digests as fixed-width strings: numpy ignores trailing NULs, which at one length confuses no two."""
    import numpy as np

    return np.frombuffer(b"".join(digests), dtype=f"S{DIGEST_BYTES}")


def _matrix(column: pa.ChunkedArray) -> npt.NDArray[np.float32]:
    import numpy as np

    array = column.combine_chunks()
    flat = array.flatten().to_numpy(zero_copy_only=False)
    return np.asarray(flat, dtype=np.float32).reshape(len(array), -1)


def _warn(path: Path, error: Exception) -> None:
    reason = (str(error).splitlines() or [""])[0]
    log.warning("A segment of embeddings is left aside, and what it held is computed again: %s: %s", path, reason)
