"""The lanes of a run: those whose chunks go to other processes, and the others on this machine.

An engine that has chunks scored elsewhere is a :class:`Dispatcher`: Prefect's workers, or a plug-in's. Without a
Prefect server there are no workers.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from threading import Semaphore
from types import TracebackType
from typing import Final, Protocol, Self, cast

from leadline.evaluators.core import Lane
from leadline.evaluators.ground import ErrorCode, LeadlineError, UsageError, loaded
from leadline.flows.shared.settings import Dispatch
from leadline.tasks.plan.jobs import Chunk
from leadline.tasks.score.chunk import ChunkResult
from leadline.tasks.score.executor import POOL_WORTH, LocalLanes, score_on_all_cores

GROUP: Final = "leadline.dispatchers"
"""Group of entry points: a class with the methods of :class:`Dispatcher`, by the engine's name."""


class Elsewhere(Protocol):
    """Has chunks scored by other processes."""

    @property
    def ending(self) -> bool:
        """True when no chunk is to be tried again."""

    def score(self, chunk: Chunk) -> ChunkResult:
        """Have a chunk scored and wait for it.

        Raises:
            JudgeDown: As :func:`leadline.tasks.score.chunk.score_chunk` raises it.
            WorkerLost: The process died, was heard no more, or failed.
            NoWorkers: Nobody is there to take it, or who took it cannot score it.
            Stopped: The run is ending.
        """

    def __enter__(self) -> object:
        """Begin."""

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Give up what has not ended."""


class Dispatcher(Protocol):
    """Gives the chunks of a run to an engine."""

    def workers(self, dispatch: str, lanes: Collection[Lane], processes: int) -> Mapping[Lane, int]:
        """Return the lanes that the engine serves, each with the number of its worker processes.

        Args:
            dispatch: The engine, or the address of one that runs.
            processes: Processes of the cpu lane in an engine of the run's own.
        """

    def elsewhere(self, dispatch: str, workers: Mapping[Lane, int]) -> Elsewhere:
        """Return what scores the chunks of the lanes that workers serve."""


def dispatcher(name: str) -> Dispatcher:
    """Return the dispatcher for an engine.

    Raises:
        UsageError: No plug-in brings it.
    """
    found = loaded(GROUP, name)
    if found is None:
        raise UsageError(
            f"No plug-in scores chunks on {name}.",
            hint="Use --dispatch local, workers or auto.",
            code=ErrorCode.CONFIG_OPTION,
        )
    return cast("Dispatcher", found())


class NoWorkers(LeadlineError):
    """Chunks were to be scored on workers, and nobody is there who could."""

    code = ErrorCode.WORKER_NONE


class WorkerLost(LeadlineError):
    """A chunk's process or its host is gone, or it failed there; another worker may do better."""

    code = ErrorCode.WORKER_LOST


class Stopped(LeadlineError):
    """The flow that waits for the chunk is ending."""

    code = ErrorCode.RUN_STOPPED


log = logging.getLogger("leadline.dispatch")

AT_ONCE: Final = 80
"""Chunks of a lane that wait for workers at a time; each occupies a thread of the flow."""


class Lanes(AbstractContextManager["Lanes"]):
    """Scores chunks elsewhere where a lane is served there, and on this machine otherwise.

    Args:
        elsewhere: Who scores them; not needed if there are none.
        falls_back: Score a lane here once nobody is left elsewhere who could.
    """

    def __init__(
        self,
        processes: int,
        chunks: Sequence[Chunk],
        served: frozenset[Lane] = frozenset(),
        elsewhere: Elsewhere | None = None,
        *,
        falls_back: bool = True,
    ) -> None:
        self._local = LocalLanes(processes, chunks)
        self._served = served if elsewhere is not None else frozenset()
        self._elsewhere = elsewhere
        self._falls_back = falls_back
        self.widths: Mapping[Lane, int] = dict(self._local.widths) | dict.fromkeys(self._served, AT_ONCE)
        self._places = {lane: Semaphore(1) for lane in self._served}
        self._deserted: set[Lane] = set()
        self._stack = ExitStack()
        self._entered = 0

    def __enter__(self) -> Self:
        """Begin; entered again by who scores in several goes, they stay open until the outermost block ends."""
        if self._entered:
            self._entered += 1
            return self
        with ExitStack() as stack:
            stack.enter_context(self._local)
            if self._elsewhere is not None:
                stack.enter_context(self._elsewhere)
            self._stack = stack.pop_all()
        self._entered = 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End with the outermost block, or at once where a block is left by an exception."""
        self._entered -= 1
        if kind is not None or not self._entered:
            self._stack.__exit__(kind, value, traceback)
            self._stack = ExitStack()

    @property
    def ending(self) -> bool:
        """True when no chunk is to be tried again."""
        return self._elsewhere is not None and self._elsewhere.ending

    def score(self, chunk: Chunk) -> ChunkResult:
        """Score a chunk in its lane and wait for it.

        Raises:
            LeadlineError: It was not scored; see :meth:`Elsewhere.score`.
            BrokenProcessPool: A process of this machine died.
        """
        if chunk.lane not in self._served or self._elsewhere is None:
            return self._local.score(chunk)
        if chunk.lane not in self._deserted:
            try:
                return self._elsewhere.score(chunk)
            except NoWorkers as error:
                if not self._falls_back:
                    raise
                if chunk.lane not in self._deserted:
                    log.warning("%s The lane %s is scored here.", error, chunk.lane)
                self._deserted.add(chunk.lane)
        with self._places[chunk.lane]:  # it was cut for a worker that has nothing else to do
            return score_on_all_cores(chunk)


def open_lanes(
    processes: int, chunks: Sequence[Chunk], workers: Mapping[Lane, int], dispatch: str, engine: Dispatcher
) -> Lanes:
    """Return the lanes of a run.

    With ``auto``, little work for the cpu lane is done here, and so is a lane whose workers all vanish or do not see
    the store. The latter holds with Dask too.

    Args:
        workers: Workers online, or places on Dask workers, for the lanes that they serve.
    """
    served = {chunk.lane for chunk in chunks} & set(workers)
    if dispatch == Dispatch.AUTO and _little(chunks):
        served.discard("cpu")
    if not served:
        return Lanes(processes, chunks)
    elsewhere = engine.elsewhere(dispatch, {lane: workers[lane] for lane in served})
    return Lanes(processes, chunks, frozenset(served), elsewhere, falls_back=dispatch != Dispatch.WORKERS)


def _little(chunks: Sequence[Chunk]) -> bool:
    """Return whether the rules are done here before a worker has started a process."""
    return sum(chunk.scores for chunk in chunks if chunk.lane == "cpu") < POOL_WORTH
