"""Embeddings that were computed before: in memory for one process, in a store for all of them."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MEMORY_BYTES: Final = 512 * 1024 * 1024
_ENTRY_OVERHEAD: Final = 300


def text_digest(text: str) -> bytes:
    """Return the 16 bytes that stand for a text; any Python string has them, lone surrogates included."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class VectorStore(Protocol):
    """Where embeddings outlive the process. Losing one costs time, never a result."""

    def get(self, model: str, texts: Sequence[bytes]) -> Mapping[bytes, npt.NDArray[np.float32]]:
        """Return the vectors that are there.

        Args:
            model: Digest of the model's identity.
            texts: Digests of texts (:func:`text_digest`).
        """
        ...

    def put(self, model: str, texts: Sequence[bytes], vectors: npt.NDArray[np.float32]) -> None:
        """Keep vectors, one row per digest.

        Raises:
            OSError: They cannot be written; the caller goes on without.
        """
        ...


class MemoryVectors:
    """Vectors of this process, the least recently used dropped when they take too much memory."""

    def __init__(self, limit: int = MEMORY_BYTES) -> None:
        self._limit = limit
        self._size = 0
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, bytes], npt.NDArray[np.float32]] = OrderedDict()

    def get(self, model: str, texts: Sequence[bytes]) -> dict[bytes, npt.NDArray[np.float32]]:
        """Return the vectors that are still here."""
        found = {}
        with self._lock:
            for text in texts:
                vector = self._kept.get((model, text))
                if vector is not None:
                    self._kept.move_to_end((model, text))
                    found[text] = vector
        return found

    def put(self, model: str, texts: Sequence[bytes], vectors: Iterable[npt.NDArray[np.float32]]) -> None:
        """Keep vectors, each as an array of its own, so that dropping one frees its memory."""
        with self._lock:
            for text, vector in zip(texts, vectors, strict=True):
                if (model, text) not in self._kept:
                    self._kept[model, text] = vector.copy()
                    self._size += vector.nbytes + _ENTRY_OVERHEAD
            while self._size > self._limit and self._kept:
                _, dropped = self._kept.popitem(last=False)
                self._size -= dropped.nbytes + _ENTRY_OVERHEAD

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self._kept.clear()
            self._size = 0
