"""Embeddings that were computed before: in memory for one process, in a store for all of them."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from cachetools import LRUCache

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MEMORY_BYTES: Final = 512 * 1024 * 1024
_ENTRY_OVERHEAD: Final = 300


def text_digest(text: str) -> bytes:
    """Return the 16 bytes that stand for a text; any Python string has them, lone surrogates included."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class VectorStore(Protocol):
    """A store in which embeddings outlive the process. Losing one costs time, never a result."""

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
        self._lock = threading.Lock()
        self._kept: LRUCache[tuple[str, bytes], npt.NDArray[np.float32]] = LRUCache(
            limit, getsizeof=lambda vector: vector.nbytes + _ENTRY_OVERHEAD
        )

    def get(self, model: str, texts: Sequence[bytes]) -> dict[bytes, npt.NDArray[np.float32]]:
        """Return the vectors that are still here."""
        with self._lock:
            return {text: self._kept[model, text] for text in texts if (model, text) in self._kept}

    def put(self, model: str, texts: Sequence[bytes], vectors: Iterable[npt.NDArray[np.float32]]) -> None:
        """Keep vectors, each as an array of its own, so that dropping one frees its memory."""
        with self._lock:
            for text, vector in zip(texts, vectors, strict=True):
                if (model, text) not in self._kept and self._kept.getsizeof(vector) <= self._kept.maxsize:
                    self._kept[model, text] = vector.copy()

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self._kept.clear()
