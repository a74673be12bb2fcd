"""Shards: chunks that are flow runs on workers, watched from one thread until they end."""

from __future__ import annotations

import contextvars
import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Final, Self, cast
from uuid import UUID

import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.deployments import run_deployment
from prefect.exceptions import PrefectException
from prefect.states import Cancelling

from leadline.evaluators.core.base import Lane
from leadline.evaluators.core.error_codes import ErrorCode
from leadline.evaluators.core.errors import LeadlineError
from leadline.flows.dispatch.heartbeats import Heartbeats
from leadline.flows.dispatch.pools import NoWorkers, deployment_name, look_at
from leadline.flows.dispatch.score_chunk import JUDGE_DOWN, UNFIT, flow_run_name, read_result
from leadline.tasks.plan.chunks import Chunk
from leadline.tasks.score.chunk import ChunkResult, JudgeDown

log = logging.getLogger("leadline.dispatch")


class WorkerLost(LeadlineError):
    """A chunk's process or its host is gone, or it failed there; another worker may do better."""

    code = ErrorCode.WORKER_LOST


class Stopped(LeadlineError):
    """The flow that waits for the chunk is ending."""

    code = ErrorCode.RUN_STOPPED


@dataclass(frozen=True, slots=True)
class ShardTimeouts:
    """Time limits in seconds; every wait has one.

    Attributes:
        poll: Pause between two looks at all shards.
        start: From a worker's taking a shard until its process runs, and from a cancellation to its end.
        silence: Without a heartbeat of the process, before it is looked for and, if it sent none, replaced.
        offline: Without a worker online in the pool while shards wait for one.
        waiting: In the queue of a pool whose workers are busy.
        running: From the start of a shard to its end.
        api: Without an answer of Prefect's API, or without a look at the shards that succeeds.
    """

    poll: float = 1.0
    start: float = 180.0
    silence: float = 120.0
    offline: float = 60.0
    waiting: float = 12 * 3600.0
    running: float = 6 * 3600.0
    api: float = 900.0


TIMEOUTS: Final = ShardTimeouts()

HEARTBEAT_S: Final = 30
"""Pause between two heartbeats of a shard; Prefect's least."""

_ENVIRONMENT: Final = {
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": str(HEARTBEAT_S),
    "PREFECT_LOGGING_EXTRA_LOGGERS": "leadline",
}


_PASSING: Final = (StateType.PENDING, StateType.CANCELLING)
"""States that a worker soon ends, if it lives."""


@dataclass
class Shard:
    """A chunk that is a flow run.

    Attributes:
        chunk: The chunk.
        attempt: How often it was given to a worker before.
        id: The flow run.
        outcome: Set once with its result or with why there is none.
        state: The last state that was seen.
        since: When that state was first seen.
    """

    chunk: Chunk
    attempt: int
    id: UUID
    outcome: Future[ChunkResult] = field(default_factory=Future)
    state: StateType = StateType.SCHEDULED
    since: float = field(default_factory=time.monotonic)


class Shards:
    """Gives chunks to workers and waits for them.

    Leaving the block cancels the flow runs that have not ended.

    Args:
        timeouts: How long things may take.
        changed: Called with all shards so far when one of them has changed, and at the end.
    """

    def __init__(
        self, timeouts: ShardTimeouts = TIMEOUTS, changed: Callable[[Mapping[UUID, Shard]], None] = lambda _: None
    ) -> None:
        self.all: dict[UUID, Shard] = {}
        self._timeouts = timeouts
        self._changed = changed
        self._attempts: dict[str, int] = {}
        self._starting = Lock()
        self._ending = Event()
        self._client: SyncPrefectClient = get_client(sync_client=True)
        self._heartbeats = Heartbeats(self._client, timeouts.silence)
        self._answered = time.monotonic()
        self._online: dict[Lane, float] = {}
        self._looked = 0.0
        context = contextvars.copy_context()  # Prefect keeps the API's address and its settings there
        self._watcher = Thread(target=context.run, args=(self._watch,), name="leadline-shards", daemon=True)

    def __enter__(self) -> Self:
        self._client.__enter__()
        self._watcher.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Cancel what has not ended, so that no worker goes on for nobody."""
        self._ending.set()
        with self._starting:
            left = [shard for shard in self.all.values() if not shard.outcome.done()]
        for shard in left:
            self._end(shard, Stopped(f"{shard.chunk.name}: the run is ending."))
            self._cancel(shard)
        self._watcher.join(timeout=self._timeouts.poll + 90)  # a request of Prefect's client ends within 60 s
        if self.all:
            self._changed(dict(self.all))
        self._client.__exit__(kind, value, traceback)

    @property
    def ending(self) -> bool:
        """True when no chunk is to be tried again."""
        return self._ending.is_set()

    def score(self, chunk: Chunk) -> ChunkResult:
        """Have a chunk scored by a worker and wait for it. Each call is another attempt, by another flow run.

        Raises:
            JudgeDown: As :func:`leadline.tasks.score.chunk.score_chunk` raises it.
            WorkerLost: The process died, was heard no more, or failed.
            NoWorkers: Nobody is there to take it, or who took it cannot score it.
            Stopped: The block was left.
        """
        return self._start(chunk).outcome.result(timeout=self._timeouts.waiting + self._timeouts.running + 600)

    def _start(self, chunk: Chunk) -> Shard:
        with self._starting:  # Prefect numbers the runs of a task without a lock
            if self.ending:
                raise Stopped(f"{chunk.name}: the run is ending.")
            attempt = self._attempts.get(chunk.name, 0)
            self._attempts[chunk.name] = attempt + 1
            try:
                started = run_deployment(
                    deployment_name(chunk.lane),
                    parameters={"chunk": asdict(chunk)},
                    flow_run_name=flow_run_name(chunk) + (f", attempt {attempt + 1}" if attempt else ""),
                    tags=["leadline", f"run:{chunk.run}", f"lane:{chunk.lane}"],
                    idempotency_key=f"leadline-{chunk.run}-{chunk.name}-{attempt}",
                    job_variables={"env": dict(_ENVIRONMENT)},
                    timeout=0,
                )
            except (httpx.HTTPError, PrefectException) as error:
                raise WorkerLost(f"{chunk.name} could not be given to a worker: {error}") from error
            shard = Shard(chunk, attempt, cast("FlowRun", started).id)
            self._online[chunk.lane] = time.monotonic()
            self.all[shard.id] = shard
            return shard

    def _watch(self) -> None:
        while not self._ending.wait(self._timeouts.poll):
            with self._starting:
                open_ = {shard.id: shard for shard in self.all.values() if not shard.outcome.done()}
            if not open_:
                self._answered = time.monotonic()
                continue
            try:
                self._look(open_)
                self._answered = time.monotonic()
            except Exception as error:  # whatever it is: this thread is all that ends the wait for the shards
                self._bear(open_, error)

    def _bear(self, open_: Mapping[UUID, Shard], error: Exception) -> None:
        """Go on after a look that failed; give the shards up when all have failed for too long."""
        self._heartbeats.reset_timers(open_)  # what the API missed, nobody can tell
        self._online = dict.fromkeys(self._online, time.monotonic())
        silent = time.monotonic() - self._answered
        if isinstance(error, httpx.HTTPError | PrefectException):
            what = "Prefect's API was away"
            log.warning("Prefect's API does not answer since %.0f s: %s", silent, error)
        else:
            what = f"nobody could look after it ({type(error).__name__}: {error})"
            traceback = log.isEnabledFor(logging.DEBUG)  # once a second is too often for anybody else
            log.error("Nobody could look after the chunks on workers for %.0f s: %r", silent, error, exc_info=traceback)
        if silent > self._timeouts.api:
            for shard in open_.values():
                self._end(shard, WorkerLost(f"{shard.chunk.name}: {what} for {silent:.0f} s."))

    def _look(self, open_: Mapping[UUID, Shard]) -> None:
        found: dict[UUID, FlowRun] = {}
        ids = list(open_)
        for first in range(0, len(ids), 200):
            some = FlowRunFilter(id=FlowRunFilterId(any_=ids[first : first + 200]))
            found |= {run.id: run for run in self._client.read_flow_runs(flow_run_filter=some, limit=200)}
        self._look_for_workers({shard.chunk.lane for shard in open_.values() if shard.state == StateType.SCHEDULED})
        changed = False
        for id_, shard in open_.items():
            run = found.get(id_)
            if run is None:
                self._end(shard, WorkerLost(f"{shard.chunk.name}: its flow run {id_} was deleted."))
                changed = True
            elif run.state is not None:
                changed |= self._take_note(shard, run.state)
                self._check_timeouts(shard)
        if changed:
            self._changed(dict(self.all))

    def _look_for_workers(self, lanes: set[Lane]) -> None:
        """Note when each lane with waiting shards was last seen with a worker online."""
        now = time.monotonic()
        if now - self._looked < min(15.0, self._timeouts.offline / 3):
            return
        self._looked = now
        for lane in lanes:
            if look_at(self._client, lane).workers:
                self._online[lane] = now

    def _take_note(self, shard: Shard, state: State[object]) -> bool:
        """Take over a shard's state; return whether it is another than before."""
        if state.type == shard.state:
            return False
        name, message = shard.chunk.name, state.message or ""
        if state.type == StateType.COMPLETED:
            shard.outcome.set_result(read_result(shard.chunk, message))
        elif state.type == StateType.FAILED and state.name == JUDGE_DOWN:
            self._end(shard, JudgeDown(message))
        elif state.type == StateType.FAILED and state.name == UNFIT:
            self._end(shard, NoWorkers(f"{name}: {message}"))
        elif state.is_final():
            self._end(shard, WorkerLost(f"{name} was {state.type.value.lower()} on its worker: {message[:1000]}"))
        shard.state, shard.since = state.type, time.monotonic()
        return True

    def _check_timeouts(self, shard: Shard) -> None:
        """Give up a shard that cannot be waited for any longer."""
        if shard.outcome.done():
            return
        timeouts, name, now = self._timeouts, shard.chunk.name, time.monotonic()
        waited = now - shard.since
        error: LeadlineError | None = None
        if shard.state == StateType.SCHEDULED:
            absent = now - self._online[shard.chunk.lane]
            if absent > timeouts.offline:
                error = NoWorkers(f"{name}: no worker of the lane {shard.chunk.lane!r} is online since {absent:.0f} s.")
            elif waited > timeouts.waiting:
                error = WorkerLost(f"{name}: no worker took it within {waited:.0f} s.")
        elif shard.state in _PASSING and waited > timeouts.start:
            error = WorkerLost(f"{name}: it was {shard.state.value.lower()} for {waited:.0f} s.")
        elif waited > timeouts.running:
            error = WorkerLost(f"{name}: it was not done within {waited:.0f} s.")
        elif shard.state == StateType.RUNNING and self._heartbeats.missing(shard.id, shard.since):
            error = WorkerLost(f"{name}: its process was not heard of for {timeouts.silence:.0f} s.")
        if error is not None:
            self._cancel(shard)
            self._end(shard, error)

    def _end(self, shard: Shard, error: LeadlineError) -> None:
        with suppress(Exception):  # it has just ended by itself
            shard.outcome.set_exception(error)

    def _cancel(self, shard: Shard) -> None:
        """Tell the worker, if there still is one, that nobody waits for a shard."""
        try:
            self._client.set_flow_run_state(shard.id, Cancelling(message="Nobody waits for this chunk any more."))
        except (httpx.HTTPError, PrefectException) as error:
            log.warning("The flow run %s could not be cancelled: %s", shard.id, error)
