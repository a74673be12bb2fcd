"""Vectors of texts: those computed before, passes that coroutines share, and the most similar candidates."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

import numpy as np
from cachetools import LRUCache

if TYPE_CHECKING:
    import numpy.typing as npt

Embed: TypeAlias = "Callable[[Sequence[str]], npt.NDArray[np.float32]]"

MEMORY_BYTES: Final = 512 * 1024 * 1024
_ENTRY_OVERHEAD: Final = 300

_BLOCK: Final = 4_000_000
"""Similarities in memory at a time (16 MB)."""


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


class Passes:
    """Embedding for coroutines: those that ask while the model is busy share its next pass.

    Hundreds of rows that a judge answers one after the other would otherwise go through the model three texts at a
    time. It belongs to one event loop, and blocks it at no time.

    Args:
        embed: Returns the vectors of texts, one row per text in order; called in a thread, never twice at once.
    """

    def __init__(self, embed: Embed) -> None:
        self._embed = embed
        self._waiting: list[tuple[list[str], asyncio.Future[npt.NDArray[np.float32]]]] = []
        self._work: asyncio.Task[None] | None = None

    async def of(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return the vectors of texts, one row per text in order; raises what embedding them alone raises."""
        future: asyncio.Future[npt.NDArray[np.float32]] = asyncio.get_running_loop().create_future()
        self._waiting.append((list(texts), future))
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._run())
        return await future

    async def _run(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            try:
                await self._together(batch)
            except Exception:  # a text may be too long for the memory: find out whose
                for one in batch:
                    await self._alone(one)

    async def _together(self, batch: Sequence[tuple[list[str], asyncio.Future[npt.NDArray[np.float32]]]]) -> None:
        distinct = list(dict.fromkeys(text for texts, _ in batch for text in texts))
        matrix = await asyncio.to_thread(self._embed, distinct)
        place = {text: row for row, text in enumerate(distinct)}
        for texts, future in batch:
            if not future.done():
                future.set_result(matrix[[place[text] for text in texts]])

    async def _alone(self, one: tuple[list[str], asyncio.Future[npt.NDArray[np.float32]]]) -> None:
        try:
            await self._together([one])
        except Exception as error:
            if not one[1].done():
                one[1].set_exception(error)


class Best(NamedTuple):
    """For each of ``n`` sentences the candidate that is most similar to it.

    Attributes:
        values: Similarities in [0, 1], float64 of shape ``(n,)``; 0 without candidates.
        places: Which candidate, the first of equals, of shape ``(n,)``; -1 without candidates.
    """

    values: npt.NDArray[np.float64]
    places: npt.NDArray[np.int64]


def best_matches(sentences: npt.NDArray[np.float32], candidates: npt.NDArray[np.float32]) -> Best:
    """Return for each sentence its most similar candidate, in memory that does not grow with their product.

    All vectors have unit length (or are zero for text of white space alone), so that a dot product is the cosine. A
    cosine lies in [-1, 1]; the metrics' range is [0, 1], so negative ones count as 0.

    Args:
        sentences: Vectors of shape ``(n, d)``.
        candidates: Vectors of shape ``(m, d)``.
    """
    values = np.zeros(len(sentences))
    places = np.full(len(sentences), -1, dtype=np.int64)
    if len(candidates):
        step = max(1, _BLOCK // len(candidates))
        for start in range(0, len(sentences), step):
            product = sentences[start : start + step] @ candidates.T
            best = product.argmax(axis=1)
            places[start : start + step] = best
            values[start : start + step] = product[np.arange(len(best)), best]
    return Best(np.clip(values, 0.0, 1.0), places)
