"""The dispatcher that gives chunks to long-lived Dask workers through a scheduler, and waits for them.

Prefect's own task runner for Dask is not used: it runs Prefect's engine on each worker, which then needs Prefect's
API, asks for no resources, and takes no note of a task whose worker was lost. Here the task run, if there is a flow, is
one of the flow's own process, which waits for Dask.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from leadline.evaluators.core import Lane
from leadline.flows.dispatch.lanes import NoWorkers, Stopped, WorkerLost
from leadline.flows.shared.settings import Dispatch
from leadline.plugins.dask.dask_cluster import (
    PLACES,
    LocalCluster,
    connect,
    dask_workers,
    scheduler_address,
    workers_by_lane,
)
from leadline.plugins.dask.dask_task import score as score_there
from leadline.tasks.plan.jobs import Chunk
from leadline.tasks.score.chunk import ChunkResult, JudgeDown

if TYPE_CHECKING:
    from distributed import Client, Future


class DaskDispatcher:
    """See :class:`leadline.flows.dispatch.lanes.Dispatcher`."""

    def workers(self, dispatch: str, lanes: Collection[Lane], processes: int) -> Mapping[Lane, int]:
        """Return the lanes that a cluster serves. See :func:`.dask_workers`."""
        return dask_workers(dispatch, lanes, processes)

    def elsewhere(self, dispatch: str, workers: Mapping[Lane, int]) -> DaskChunks:
        """Return what scores chunks on a cluster."""
        return DaskChunks(dispatch, workers)


log = logging.getLogger("leadline.dispatch")

LOST_AT_MOST: Final = 3
"""How often a chunk is given anew after the scheduler was lost, within an attempt."""


@dataclass(frozen=True, slots=True)
class DaskTimeouts:
    """Time limits in seconds; every wait has one.

    Attributes:
        poll: Pause between two looks at a chunk.
        look: Pause between two looks at the scheduler's workers.
        offline: Without a worker of the lane, or without an answer of the scheduler.
        running: From a chunk's start to its end.
    """

    poll: float = 0.5
    look: float = 3.0
    offline: float = 60.0
    running: float = 6 * 3600.0


TIMEOUTS: Final = DaskTimeouts()


class DaskChunks:
    """Gives chunks to Dask workers and waits for them.

    A lane has as many chunks with Dask at a time as its workers have places: those that wait would be taken for
    suspects when a worker dies. Leaving the block cancels the chunks that have not ended.

    Args:
        dispatch: ``dask``, for a cluster of the run's own, or a scheduler's address.
        workers: Worker processes by lane; of a cluster of the run's own, those to start.
        timeouts: How long things may take.
    """

    def __init__(self, dispatch: str, workers: Mapping[Lane, int], timeouts: DaskTimeouts = TIMEOUTS) -> None:
        self._timeouts = timeouts
        self._cluster = LocalCluster(workers) if dispatch == Dispatch.DASK else None
        self._address = scheduler_address(dispatch)
        self._stack = ExitStack()
        self._client: Client | None = None
        self._ending = threading.Event()
        self._places = threading.Condition()
        self._with_dask: Counter[Lane] = Counter()
        self._killers: dict[str, str] = {}
        self._unfit: dict[str, str] = {}
        self._looking = threading.Lock()
        self._looked = 0.0
        self._workers: Mapping[Lane, tuple[str, ...]] = {}
        self._seen: dict[Lane, float] = {}

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            if self._cluster is not None:
                stack.enter_context(self._cluster)
                self._address = self._cluster.address
            security = self._cluster.security if self._cluster is not None else None
            self._client = connect(self._address, security, self._timeouts.offline)
            stack.callback(self._client.close, timeout=5)
            self._look()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Cancel what has not ended, so that no worker goes on for nobody."""
        self._ending.set()
        with self._places:
            self._places.notify_all()
        self._stack.__exit__(kind, value, traceback)

    @property
    def ending(self) -> bool:
        """True when no chunk is to be tried again."""
        return self._ending.is_set()

    def score(self, chunk: Chunk) -> ChunkResult:
        """Have a chunk scored by a worker and wait for it.

        Raises:
            JudgeDown: As :func:`leadline.tasks.score.chunk.score_chunk` raises it.
            WorkerLost: It failed, or brought down one worker after the other.
            NoWorkers: The scheduler is away, or nobody is there who could take it.
            Stopped: The block was left.
        """
        if chunk.name in self._killers:
            raise WorkerLost(self._killers[chunk.name])
        for _ in range(LOST_AT_MOST):
            with self._place(chunk):
                outcome = self._outcome(chunk, self._fit(chunk))
            if outcome is not None:
                kind, message = outcome.get("failed"), str(outcome.get("message", ""))
                if kind is None:
                    return ChunkResult.from_plain(outcome)
                if kind == "JudgeDown":
                    raise JudgeDown(message)
                if kind == "Stopped":
                    raise Stopped(message)
                if kind != "Unfit":
                    raise WorkerLost(f"{chunk.name} failed on {outcome.get('host')}: {message[:1000]}")
        raise WorkerLost(f"{chunk.name}: the Dask scheduler at {self._address} was lost again and again.")

    @contextmanager
    def _place(self, chunk: Chunk) -> Iterator[None]:
        """Wait until a worker of the lane has a place for a chunk, and keep it."""
        lane = chunk.lane
        with self._places:
            while self._with_dask[lane] >= max(1, PLACES[lane] * len(self._workers.get(lane, ()))):
                self._check(chunk)
                self._places.wait(self._timeouts.look)
            self._with_dask[lane] += 1
        try:
            yield
        finally:
            with self._places:
                self._with_dask[lane] -= 1
                self._places.notify_all()

    def _fit(self, chunk: Chunk) -> list[str] | None:
        """Return the workers that may take a chunk, or ``None`` for all."""
        if not self._unfit:
            return None
        here = self._workers.get(chunk.lane, ())
        if not (fit := [address for address in here if address not in self._unfit]):
            raise NoWorkers(f"{chunk.name}: {next(iter(self._unfit.values()))}")
        return fit

    def _outcome(self, chunk: Chunk, workers: Collection[str] | None) -> Mapping[str, Any] | None:
        """Return what a worker made of a chunk; ``None`` if it has to be given to a worker anew."""
        from distributed import KilledWorker  # not above: dask_cluster says what to install

        self._check(chunk)
        future = self._submit(chunk, workers)
        try:
            if not self._wait(chunk, future, workers):
                return None
            if future.status == "error":
                error = future.exception(timeout=self._timeouts.offline)
                if isinstance(error, KilledWorker):
                    why = f"{chunk.name}: the processes of {error.allowed_failures + 1} Dask workers died of it."
                    self._killers[chunk.name] = why
                    raise WorkerLost(why)
                raise WorkerLost(f"{chunk.name} could not be run by Dask: {type(error).__name__}: {error}")
            if future.status != "finished":  # cancelled or lost with the scheduler
                return None
            outcome: Mapping[str, Any] = future.result(timeout=self._timeouts.offline)
        except TimeoutError:
            return None
        finally:
            future.release()
        if outcome.get("failed") == "Unfit":
            self._unfit[str(outcome["worker"])] = str(outcome["message"])
        return outcome

    def _submit(self, chunk: Chunk, workers: Collection[str] | None) -> Future:
        assert self._client is not None  # noqa: S101
        try:
            return self._client.submit(
                score_there,
                asdict(chunk),
                key=f"leadline-{chunk.run}-{chunk.name}-{time.monotonic_ns()}",
                resources={chunk.lane: 1},
                workers=workers,
                pure=False,
            )
        except Exception as error:  # the client was closed in between
            raise NoWorkers(f"{chunk.name} could not be given to Dask: {error}") from error

    def _wait(self, chunk: Chunk, future: Future, workers: Collection[str] | None) -> bool:
        """Wait for the end of a chunk; return ``False`` if none of the workers that may take it is there any more.

        A process that takes the place of one that died has another address, so Dask would wait for ever.
        """
        done = threading.Event()
        future.add_done_callback(lambda _: done.set())
        started = seen = time.monotonic()
        try:
            while not done.wait(self._timeouts.poll) and not future.done():
                self._check(chunk)
                now, here = time.monotonic(), set(self._workers.get(chunk.lane, ()))
                if workers is None or here & set(workers):
                    seen = now
                elif here - set(self._unfit) or now - seen > self._timeouts.offline:
                    future.cancel()
                    return False
                if now - started > self._timeouts.running:
                    raise WorkerLost(f"{chunk.name}: it was not done within {self._timeouts.running:.0f} s.")
        except BaseException:
            future.cancel()
            raise
        return True

    def _check(self, chunk: Chunk) -> None:
        """Look whether there is still somebody to wait for.

        Raises:
            NoWorkers: There is not.
            Stopped: The block was left.
        """
        if self.ending:
            raise Stopped(f"{chunk.name}: the run is ending.")
        self._look()
        assert self._client is not None  # noqa: S101
        absent = time.monotonic() - self._seen.setdefault(chunk.lane, time.monotonic())
        if self._client.status == "closed" or absent > self._timeouts.offline:
            raise NoWorkers(
                f"{chunk.name}: the Dask scheduler at {self._address} has been away, or has had no worker of the lane "
                f"{chunk.lane!r}, for {absent:.0f} s."
            )

    def _look(self) -> None:
        """Note which workers each lane has, once every few seconds and by one thread."""
        if time.monotonic() - self._looked < self._timeouts.look or not self._looking.acquire(blocking=False):
            return
        try:
            assert self._client is not None  # noqa: S101
            self._workers = workers_by_lane(self._client, self._timeouts.look)
            self._seen.update(dict.fromkeys(self._workers, time.monotonic()))
        except Exception as error:  # away, or frozen: that nobody was seen is what counts
            log.debug("The Dask scheduler at %s does not answer: %r", self._address, error)
        finally:
            self._looked = time.monotonic()
            self._looking.release()
