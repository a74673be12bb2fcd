"""Shards: flow runs on workers that score chunks in turn, watched from one thread until they end, and shown to people.

Chunks wait for a moment, until no more come, and are then shared out: each idle worker gets one shard, so that the
start of its process, with its imports and models, is paid once. A chunk's result is known when its task run ends; those
that a shard did not come to, because it died, are shared out anew.
"""

from __future__ import annotations

import contextvars
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Final, Self, cast
from uuid import UUID

import httpx
from prefect.artifacts import create_markdown_artifact
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import ArtifactUpdate
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.deployments import run_deployment
from prefect.events.filters import EventFilter, EventNameFilter, EventOccurredFilter, EventResourceFilter
from prefect.exceptions import PrefectException
from prefect.states import Cancelling
from prefect.utilities.urls import url_for

from leadline.evaluators.core import Lane
from leadline.evaluators.ground import ErrorCode, LeadlineError
from leadline.flows.dispatch.lanes import NoWorkers, Stopped, WorkerLost
from leadline.flows.dispatch.pools import deployment_name, look_at
from leadline.flows.dispatch.score_chunk import (
    JUDGE_DOWN,
    NO_DEVICE,
    UNFIT,
    flow_run_name,
    read_result,
    take_outcome,
    task_run_name,
)
from leadline.flows.prefect.server_outage import not_waiting
from leadline.tasks.plan.jobs import Chunk
from leadline.tasks.score.chunk import ChunkResult, JudgeDown

log = logging.getLogger("leadline.dispatch")

SHOWN_EVERY_S: Final = 5.0
"""Pause between two changes of the artifact with the shards."""

ARTIFACT: Final = "leadline-shards"
"""Key of the artifact."""

HEARTBEAT_S: Final = 30
"""Pause between two heartbeats of a shard; Prefect's least."""

LONGEST_GATHERING_S: Final = 15.0
"""Longest time for which chunks wait for others to share a worker's start with."""

_PAGE: Final = 200
"""Runs that Prefect's API returns at once, at most."""

_ENVIRONMENT: Final = {
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": str(HEARTBEAT_S),
    "PREFECT_LOGGING_EXTRA_LOGGERS": "leadline",
    # Where the worker has died, a line on its closed pipe, as of each task run's end, would end the process.
    "PREFECT_LOGGING_LOGGERS_PREFECT_TASK_RUNS_LEVEL": "CRITICAL",
}
_PASSING: Final = (StateType.PENDING, StateType.CANCELLING)
"""States that a worker soon ends, if it lives."""

HEARTBEAT: Final = "prefect.flow-run.heartbeat"


@dataclass(frozen=True, slots=True)
class ShardTimeouts:
    """Time limits in seconds; every wait has one.

    Attributes:
        poll: Pause between two looks at all shards, and without another chunk before those waiting are shared out.
        start: From a worker's taking a shard until its process runs, and from a cancellation to its end.
        silence: Without a heartbeat of the process, before it is looked for and, if it sent none, replaced.
        offline: Without a worker online in the pool while shards wait for one.
        waiting: In the queue of a pool whose workers are busy.
        running: From the start of a shard, or the end of its last chunk, to the end of its next.
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


@dataclass
class Waiting:
    """A chunk that somebody waits for.

    Attributes:
        attempt: How often it was given to a worker before.
        outcome: Set once with its result or with why there is none.
    """

    chunk: Chunk
    attempt: int
    outcome: Future[ChunkResult] = field(default_factory=Future)
    since: float = field(default_factory=time.monotonic)


@dataclass
class Shard:
    """A flow run that scores chunks in turn.

    Attributes:
        since: When that state was first seen, or the last of its chunks ended.
    """

    parts: Sequence[Waiting]
    id: UUID
    state: StateType = StateType.SCHEDULED
    since: float = field(default_factory=time.monotonic)

    @property
    def lane(self) -> Lane:
        """The lane of its chunks."""
        return self.parts[0].chunk.lane

    @property
    def name(self) -> str:
        """Name of its first chunk, and how many more it has."""
        more = f" and {len(self.parts) - 1} more" if len(self.parts) > 1 else ""
        return f"{self.parts[0].chunk.name}{more}"

    @property
    def attempt(self) -> int:
        """The most times that one of its chunks was given to a worker before."""
        return max(part.attempt for part in self.parts)

    @property
    def open(self) -> list[Waiting]:
        """The chunks without an outcome."""
        return [part for part in self.parts if not part.outcome.done()]


class Shards:
    """Gives chunks to workers and waits for them.

    Leaving the block cancels the flow runs that have not ended.

    Args:
        changed: Called with all shards so far when one of them has changed, and at the end.
    """

    def __init__(
        self,
        workers: Mapping[Lane, int],
        timeouts: ShardTimeouts = TIMEOUTS,
        changed: Callable[[Mapping[UUID, Shard]], None] = lambda _: None,
    ) -> None:
        self.all: dict[UUID, Shard] = {}
        self._workers = workers
        self._waiting: list[Waiting] = []
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
            left = [shard for shard in self.all.values() if shard.open]
            waiting, self._waiting = self._waiting, []
        for part in waiting:
            self._end(part, Stopped(f"{part.chunk.name}: the run is ending."))
        for shard in left:
            self._give_up(shard, lambda name: Stopped(f"{name}: the run is ending."))
            with not_waiting():
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
        with self._starting:
            if self.ending:
                raise Stopped(f"{chunk.name}: the run is ending.")
            attempt = self._attempts.get(chunk.name, 0)
            self._attempts[chunk.name] = attempt + 1
            part = Waiting(chunk, attempt)
            self._waiting.append(part)
        limits = self._timeouts
        return part.outcome.result(timeout=limits.waiting + (len(self._attempts) + 1) * limits.running)

    def _share_out(self) -> None:
        """Start shards for the chunks that wait, once no more of their lane come."""
        now = time.monotonic()
        with self._starting:
            for lane in {part.chunk.lane for part in self._waiting}:
                waiting = [part for part in self._waiting if part.chunk.lane == lane]
                if now - waiting[-1].since < self._timeouts.poll and now - waiting[0].since < LONGEST_GATHERING_S:
                    continue
                self._waiting = [part for part in self._waiting if part.chunk.lane != lane]
                waiting.sort(key=lambda part: part.chunk.number)
                busy = sum(shard.lane == lane and bool(shard.open) for shard in self.all.values())
                count = min(max(1, self._workers.get(lane, 1) - busy), len(waiting))
                for first in range(count):
                    self._start(waiting[first::count])

    def _start(self, parts: Sequence[Waiting]) -> None:
        chunks = [part.chunk for part in parts]
        lane, run, attempt = chunks[0].lane, chunks[0].run, max(part.attempt for part in parts)
        try:
            started = run_deployment(
                deployment_name(lane),
                parameters={"chunks": [asdict(chunk) for chunk in chunks]},
                flow_run_name=flow_run_name(chunks) + (f", attempt {attempt + 1}" if attempt else ""),
                tags=["leadline", f"run:{run}", f"lane:{lane}"],
                idempotency_key=f"leadline-{run}-{chunks[0].name}-{parts[0].attempt}",
                job_variables={"env": dict(_ENVIRONMENT)},
                timeout=0,
            )
        except Exception as error:  # whatever it is: nobody else would end the wait for these chunks
            for part in parts:
                self._end(part, WorkerLost(f"{part.chunk.name} could not be given to a worker: {error}"))
            return
        self._online[lane] = time.monotonic()
        shard = Shard(parts, cast("FlowRun", started).id)
        self.all[shard.id] = shard

    def _watch(self) -> None:
        with not_waiting():  # it has limits of its own, and knows what an outage means for them
            self._watch_until_ending()

    def _watch_until_ending(self) -> None:
        while not self._ending.wait(self._timeouts.poll):
            open_: dict[UUID, Shard] = {}
            try:
                self._share_out()
                with self._starting:
                    open_ = {shard.id: shard for shard in self.all.values() if shard.open}
                if open_:
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
            log.warning("Prefect's API has not answered for %.0f s: %s", silent, error)
        else:
            what = f"nobody could look after it ({type(error).__name__}: {error})"
            traceback = log.isEnabledFor(logging.DEBUG)  # once a second is too often for anybody else
            log.error("Nobody could look after the chunks on workers for %.0f s: %r", silent, error, exc_info=traceback)
        if silent > self._timeouts.api:
            for shard in open_.values():
                self._give_up(shard, lambda name: WorkerLost(f"{name}: {what} for {silent:.0f} s."))

    def _look(self, open_: Mapping[UUID, Shard]) -> None:
        found: dict[UUID, FlowRun] = {}
        ids = list(open_)
        for first in range(0, len(ids), _PAGE):
            some = FlowRunFilter(id=FlowRunFilterId(any_=ids[first : first + _PAGE]))
            found |= {run.id: run for run in self._client.read_flow_runs(flow_run_filter=some, limit=_PAGE)}
        self._look_for_workers({shard.lane for shard in open_.values() if shard.state == StateType.SCHEDULED})
        changed = self._look_at_chunks([shard for shard in open_.values() if len(shard.open) > 1])
        for id_, shard in open_.items():
            run = found.get(id_)
            if run is None:
                gone = f"its flow run {id_} was deleted."
                self._give_up(shard, lambda name, gone=gone: WorkerLost(f"{name}: {gone}"))  # type: ignore[misc]
                changed = True
            elif run.state is not None:
                changed |= self._take_note(shard, run.state)
                self._check_timeouts(shard)
        if changed:
            self._changed(dict(self.all))

    def _look_at_chunks(self, shards: Sequence[Shard]) -> bool:
        """Take over the results of chunks whose shard goes on with others; return whether there are any."""
        changed = False
        for shard in shards:
            runs = self._client.read_task_runs(
                flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=[shard.id])), limit=_PAGE
            )
            states = {run.name: run.state for run in runs if run.state is not None}
            for part in shard.open:
                state = states.get(task_run_name(part.chunk))
                if state is not None and state.type == StateType.COMPLETED:
                    part.outcome.set_result(read_result(part.chunk, take_outcome(part.chunk, shard.id)))
                elif state is not None and state.type == StateType.FAILED:
                    self._fail(part, state.name or "", state.message or "")
                if part.outcome.done():
                    shard.since, changed = time.monotonic(), True
        return changed

    def _fail(self, part: Waiting, state: str, message: str) -> None:
        """End the wait for a chunk that failed on its worker."""
        if state == JUDGE_DOWN:
            self._end(part, JudgeDown(message))
        else:
            self._end(part, WorkerLost(f"{part.chunk.name} failed on its worker: {message[:1000]}"))

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
        message = state.message or ""
        if state.type == StateType.FAILED and state.name in (UNFIT, NO_DEVICE):
            code = ErrorCode.MODEL_DEVICE if state.name == NO_DEVICE else None
            self._give_up(shard, lambda name: NoWorkers(f"{name}: {message}", code=code))
        elif state.is_final():
            self._conclude(shard, state)
        shard.state, shard.since = state.type, time.monotonic()
        return True

    def _conclude(self, shard: Shard, state: State[object]) -> None:
        """End the wait for the chunks of a shard that has ended; those of which it left nothing were not scored."""
        message = state.message or ""
        for part in shard.open:
            outcome = take_outcome(part.chunk, shard.id)
            if outcome is not None and "failed" in outcome:
                self._fail(part, str(outcome["failed"]), str(outcome.get("message", "")))
            elif outcome is not None or state.type == StateType.COMPLETED:
                part.outcome.set_result(read_result(part.chunk, outcome))
            else:
                self._fail(part, state.name or "", f"{state.type.value.lower()}: {message}")

    def _check_timeouts(self, shard: Shard) -> None:
        """Give up a shard that cannot be waited for any longer."""
        if not shard.open:
            return
        timeouts, now = self._timeouts, time.monotonic()
        waited = now - shard.since
        why = ""
        kind: type[LeadlineError] = WorkerLost
        if shard.state == StateType.SCHEDULED:
            absent = now - self._online[shard.lane]
            if absent > timeouts.offline:
                why, kind = f"no worker of the lane {shard.lane!r} has been online for {absent:.0f} s.", NoWorkers
            elif waited > timeouts.waiting:
                why = f"no worker took it within {waited:.0f} s."
        elif shard.state in _PASSING and waited > timeouts.start:
            why = f"it was {shard.state.value.lower()} for {waited:.0f} s."
        elif waited > timeouts.running:
            why = f"it was not done within {waited:.0f} s."
        elif shard.state == StateType.RUNNING and self._heartbeats.missing(shard.id, shard.since):
            why = f"its process was not heard of for {timeouts.silence:.0f} s."
        if why:
            self._cancel(shard)
            self._give_up(shard, lambda name: kind(f"{name}: {why}"))

    def _give_up(self, shard: Shard, error: Callable[[str], LeadlineError]) -> None:
        """End the wait for all chunks of a shard that have no outcome yet, with an error made from each one's name."""
        for part in shard.open:
            self._end(part, error(part.chunk.name))

    def _end(self, part: Waiting, error: LeadlineError) -> None:
        with suppress(Exception):  # it has just ended by itself
            part.outcome.set_exception(error)

    def _cancel(self, shard: Shard) -> None:
        """Tell the worker, if there still is one, that nobody waits for a shard."""
        try:
            self._client.set_flow_run_state(shard.id, Cancelling(message="Nobody waits for this chunk any more."))
        except (httpx.HTTPError, PrefectException) as error:
            log.warning("The flow run %s could not be cancelled: %s", shard.id, error)


class Heartbeats:
    """Looks for a shard's last heartbeat once per period of silence.

    A process is taken for lost when it was heard before and sent nothing new within a full period. Events are compared
    by their ids, so the clocks of the hosts do not matter. A process that was never heard of, for instance because
    heartbeats are switched off, is not judged by them.

    Args:
        silence: The period, in seconds; several times the pause between heartbeats.
    """

    def __init__(self, client: SyncPrefectClient, silence: float) -> None:
        self._client = client
        self._silence = silence
        self._looked: dict[UUID, float] = {}
        self._last: dict[UUID, UUID] = {}

    def missing(self, flow_run: UUID, running_since: float) -> bool:
        """Return whether a process has stopped sending heartbeats.

        Args:
            running_since: Time of its start in monotonic seconds.

        Raises:
            httpx.HTTPError: The API does not answer.
        """
        now = time.monotonic()
        known = self._last.get(flow_run)
        looked = self._looked.get(flow_run, running_since)
        if now - looked < (self._silence if known else self._silence / 4):
            return False
        self._looked[flow_run] = now
        newest = self._newest(flow_run)
        if newest is None:
            return False
        self._last[flow_run] = newest
        return newest == known

    def reset_timers(self, flow_runs: Iterable[UUID]) -> None:
        """Begin a new period for these, since their heartbeats may not have reached the API."""
        self._looked |= dict.fromkeys(flow_runs, time.monotonic())

    def _newest(self, flow_run: UUID) -> UUID | None:
        now = datetime.now(UTC)
        page = self._client.read_events(
            EventFilter(
                event=EventNameFilter(name=[HEARTBEAT]),
                resource=EventResourceFilter(id=[f"prefect.flow-run.{flow_run}"]),
                occurred=EventOccurredFilter(since=now - timedelta(days=2), until=now + timedelta(days=1)),
            ),
            limit=1,
        )
        return page.events[0].id if page.events else None


class Board:
    """Keeps the artifact ``leadline-shards`` of the flow that waits for them."""

    def __init__(self) -> None:
        self._id: UUID | None = None
        self._shown = 0.0

    def show(self, shards: Mapping[UUID, Shard]) -> None:
        """Show the shards, at most every few seconds unless all have ended; failing to costs nothing but the sight."""
        now = time.monotonic()
        if now - self._shown < SHOWN_EVERY_S and any(shard.open for shard in shards.values()):
            return
        self._shown = now
        try:
            self._write(table(shards))
        except (httpx.HTTPError, PrefectException) as error:
            log.warning("The table of shards could not be shown: %s", error)

    def _write(self, text: str) -> None:
        if self._id is None:
            title = f"{ARTIFACT}: chunks on workers"
            self._id = cast("UUID", create_markdown_artifact(text, key=ARTIFACT, description=title))
            return
        with get_client(sync_client=True) as client:
            client.update_artifact(self._id, ArtifactUpdate(data=text))


def table(shards: Mapping[UUID, Shard]) -> str:
    """Return a Markdown table: those that run or failed first, then those that wait, then the completed ones."""
    order = {StateType.COMPLETED: 2, StateType.SCHEDULED: 1}
    lines = sorted(shards.values(), key=lambda shard: (order.get(shard.state, 0), shard.name, shard.attempt))
    counts = [
        f"{sum(shard.state == state for shard in lines)} {state.value.lower()}"
        for state in dict.fromkeys(shard.state for shard in lines)
    ]
    return "\n".join(
        [
            f"{len(lines)} shards: {', '.join(counts)}",
            "",
            "| chunks | attempt | state | ended | rows | flow run |",
            "|---|---|---|---|---|---|",
            *(
                f"| {shard.name} | {shard.attempt + 1} | {shard.state.value.lower()} "
                f"| {len(shard.parts) - len(shard.open)} of {len(shard.parts)} "
                f"| {sum(part.chunk.rows for part in shard.parts)} "
                f"| [{shard.id}]({url_for('flow-run', obj_id=shard.id)}) |"
                for shard in lines
            ),
        ]
    )
