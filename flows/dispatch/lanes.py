"""The lanes of a run: those that workers serve, and the others on this machine."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from threading import Semaphore
from types import TracebackType
from typing import Final, Self

from leadline.evaluators.core.base import Lane
from leadline.flows.dispatch.board import Board
from leadline.flows.dispatch.pools import NoWorkers
from leadline.flows.dispatch.shards import TIMEOUTS, Shards, ShardTimeouts
from leadline.flows.shared.settings import Dispatch
from leadline.tasks.plan.chunks import Chunk
from leadline.tasks.score.chunk import ChunkResult
from leadline.tasks.score.executor import POOL_WORTH, LocalLanes
from leadline.tasks.score.subchunks import score_on_all_cores

log = logging.getLogger("leadline.dispatch")

AT_ONCE: Final = 80
"""Chunks of a lane that wait for workers at a time; each occupies a thread of the flow."""


class Lanes(AbstractContextManager["Lanes"]):
    """Scores chunks on workers where a lane has them, and on this machine otherwise.

    Args:
        processes: Processes of the cpu lane on this machine.
        chunks: All chunks to come.
        workers: Workers online, for the lanes that they serve.
        dispatch: With ``auto``, little work for the cpu lane is done here, and a lane whose workers all vanish, or do
            not see the store.
        timeouts: How long workers may take.
    """

    def __init__(
        self,
        processes: int,
        chunks: Sequence[Chunk],
        workers: Mapping[Lane, int],
        dispatch: Dispatch = Dispatch.AUTO,
        timeouts: ShardTimeouts = TIMEOUTS,
    ) -> None:
        self._local = LocalLanes(processes, chunks)
        served = {chunk.lane for chunk in chunks} & set(workers)
        if dispatch == Dispatch.AUTO and _little(chunks):
            served.discard("cpu")
        self.widths: Mapping[Lane, int] = dict(self._local.widths) | dict.fromkeys(served, AT_ONCE)
        self._places = {lane: Semaphore(1) for lane in served}
        self._served = frozenset(served)
        self._deserted: set[Lane] = set()
        self._falls_back = dispatch == Dispatch.AUTO
        self._shards = Shards(timeouts, Board().show) if served else None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self._local)
            if self._shards is not None:
                stack.enter_context(self._shards)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, value, traceback)

    @property
    def ending(self) -> bool:
        """True when no chunk is to be tried again."""
        return self._shards is not None and self._shards.ending

    def score(self, chunk: Chunk) -> ChunkResult:
        """Score a chunk in its lane and wait for it.

        Raises:
            LeadlineError: It was not scored; see :meth:`Shards.score`.
            BrokenProcessPool: A process of this machine died.
        """
        if chunk.lane not in self._served or self._shards is None:
            return self._local.score(chunk)
        if chunk.lane not in self._deserted:
            try:
                return self._shards.score(chunk)
            except NoWorkers as error:
                if not self._falls_back:
                    raise
                log.warning("%s It is scored here.", error)
                self._deserted.add(chunk.lane)
        with self._places[chunk.lane]:  # it was cut for a worker that has nothing else to do
            return score_on_all_cores(chunk)


def _little(chunks: Sequence[Chunk]) -> bool:
    """Return whether the rules are done here before a worker has started a process."""
    return sum(chunk.scores for chunk in chunks if chunk.lane == "cpu") < POOL_WORTH
