"""Dispatchers: plug-ins that have chunks scored by an engine of their own (Prefect's workers need none); failures."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import TracebackType
from typing import Final, Protocol, cast

from leadline.evaluators.core import Lane
from leadline.evaluators.ground import ErrorCode, LeadlineError, UsageError, loaded
from leadline.tasks.plan.jobs import Chunk
from leadline.tasks.score.chunk import ChunkResult

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
            lanes: The lanes that the run may need.
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
