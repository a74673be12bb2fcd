"""The time of a run: its parts, which add up to the whole, and a profile of trace events.

At every moment exactly one part is on: ``start`` at first, the part of the innermost ``with timeline.part(…)`` block,
and, outside of all blocks, ``end`` once results were published. Steps are stretches within parts, lanes are the wall
time of each lane of scoring, which overlap. What was measured is also kept as spans, for a profile.

Each process is a group of tracks, each thread a track of it, and so is each place of a judge call in flight: the calls
are those on record in the ledger, so that they are there whichever process made them.
"""

from __future__ import annotations

import heapq
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from importlib.machinery import ExtensionFileLoader, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from leadline.tasks.ground.files import handed_out
from leadline.tasks.ground.processes import this_process

START: Final = "start"
SCORE: Final = "score"
PUBLISH: Final = "publish"
END: Final = "end"
PARTS: Final = (START, "load", "plan", SCORE, "aggregate", PUBLISH, END)
"""The parts of an evaluation in the order in which they are told."""

MOST_SPANS: Final = 20_000
"""Spans that are kept of a run; what comes later is only counted."""

_SLOWEST_START_S: Final = 30.0
"""Longest time that an interpreter is believed to take before it reaches our first line."""

_LEAST_IMPORT_S: Final = 0.001
"""Imports that take less are left out of a profile; a run makes thousands."""

MOST_CALLS: Final = 20_000
"""Calls that a profile contains, the first ones."""

_CALLS: Final = "judge calls"
_EXECUTE: Final = "exec_module"


def process_began(first: float) -> float:
    """Return when this process was started, on the clock of :func:`time.monotonic`.

    Args:
        first: The earliest moment that its own code knows of. It is returned where the system does not say more, and
            where the process was another program before (``exec`` in a script that had run for long).
    """
    try:
        # The name of the program, in parentheses, may contain anything; the 20th number after it is the start.
        stat = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace")
        ticks = int(stat.rpartition(")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return first
    began = time.monotonic() - age
    return began if 0 <= first - began < _SLOWEST_START_S else first


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """A stretch of work in one thread; spans of a thread lie in or beside each other, to the microsecond.

    Attributes:
        kind: ``part``, ``step``, ``chunk``, ``evaluator`` or ``import``.
        began: When, in microseconds since 1970.
        process: The process, as :func:`leadline.tasks.ground.processes.this_process` names it.
    """

    name: str
    kind: str
    began: int
    ended: int
    process: str
    thread: str

    @property
    def seconds(self) -> float:
        """Its length."""
        return (self.ended - self.began) / 1e6


@dataclass(frozen=True, slots=True)
class RunTime:
    """The time of a run, in seconds.

    Attributes:
        total: From the command to the end.
        parts: The parts, one after another; they add up to the total.
        lanes: Wall time of each lane of scoring, from the start of scoring to its last chunk; lanes overlap.
        steps: Steps of the parts, by part; what no step covers is not listed.
        processor: Processor time of this process in each part; a pool's processes and Prefect's server are others.
    """

    total: float
    parts: Mapping[str, float]
    lanes: Mapping[str, float] = field(default_factory=dict)
    steps: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    processor: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the times as a run's record contains them."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> RunTime | None:
        """Return the times in a run's record, ``None`` where it has none."""
        time_ = record.get("time")
        return cls(**time_) if isinstance(time_, dict) else None

    def in_words(self) -> str:
        """Return one line: "4.2 s: start 1.1, load 0.1, plan 0.1, score 1.2 (cpu 1.2), …"."""
        lanes = ", ".join(f"{lane} {seconds:.1f}" for lane, seconds in self.lanes.items())
        parts = (
            f"{part} {seconds:.1f}" + (f" ({lanes})" if part == SCORE and lanes else "")
            for part, seconds in self.parts.items()
        )
        return f"{self.total:.1f} s: {', '.join(parts)}"


class Timeline:
    """Measures a run.

    Args:
        began: When the command began, on the clock; now if it is not given.
    """

    def __init__(self, began: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        now = clock()
        self._origin = now, microseconds()
        self._since = now if began is None else min(began, now)
        # What this thread alone can have used since the command began.
        self._used = max(0.0, time.process_time() - (now - self._since))
        self._processor: dict[str, float] = {}
        self._on: list[str] = [START]
        self._parts: dict[str, float] = {}
        self._lanes: dict[str, tuple[float, float]] = {}
        self._steps: dict[str, dict[str, float]] = {}
        self._spans: list[TimeSpan] = []
        self._dropped = 0
        self._chunks: dict[str, list[float]] = {}
        self._evaluators: dict[str, float] = {}
        self._lock = threading.Lock()

    @property
    def spans(self) -> Sequence[TimeSpan]:
        """Spans of all that was measured so far, in the order in which it ended."""
        with self._lock:
            return (*self._spans, self._span(self._on[-1], "part", self._since, self._clock()))

    @property
    def lane_spans(self) -> Sequence[TimeSpan]:
        """When each lane of scoring was at work, from its first mark to its last."""
        with self._lock:
            return [self._span(lane, "lane", first, last) for lane, (first, last) in self._lanes.items()]

    @property
    def dropped(self) -> int:
        """Number of spans beyond :data:`MOST_SPANS`, which were not kept."""
        return self._dropped

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count the time of the block to a part; afterwards the surrounding part goes on."""
        with self._lock:
            self._count()
            self._on.append(name)
        try:
            yield
        finally:
            with self._lock:
                self._count()
                self._on.pop()
                if name == PUBLISH:
                    self._on[0] = END

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measure the block as a step of the part that is on; steps of one name add up."""
        began, part = self._clock(), self._on[-1]
        try:
            yield
        finally:
            self.add_step(part, name, began, self._clock())

    def add_step(self, part: str, name: str, began: float, ended: float) -> None:
        """Add a step that was measured elsewhere.

        Args:
            began: When it began, on the clock.
        """
        with self._lock:
            steps = self._steps.setdefault(part, {})
            steps[name] = steps.get(name, 0.0) + ended - began
            self._keep(self._span(name, "step", began, ended))

    def mark_lane(self, name: str) -> None:
        """Note that a lane is at work now: its wall time reaches from the first mark to the last."""
        now = self._clock()
        with self._lock:
            first, _ = self._lanes.get(name, (now, now))
            self._lanes[name] = (first, now)

    def add_chunk(self, lane: str, seconds: float, evaluators: Mapping[str, float]) -> None:
        """Add the time of a chunk."""
        with self._lock:
            self._chunks.setdefault(lane, []).append(round(seconds, 3))
            for name, each in evaluators.items():
                self._evaluators[name] = self._evaluators.get(name, 0.0) + each

    @property
    def evaluators(self) -> Mapping[str, float]:
        """Seconds that each evaluator was at work, in all chunks together."""
        with self._lock:
            return {name: round(seconds, 3) for name, seconds in self._evaluators.items()}

    @property
    def chunks(self) -> Mapping[str, Sequence[float]]:
        """Seconds of each chunk that was scored, by lane; a run has some hundreds."""
        with self._lock:
            return {lane: list(seconds) for lane, seconds in self._chunks.items()}

    def add(self, spans: Iterable[TimeSpan]) -> None:
        """Add spans that were measured elsewhere, also in other processes."""
        with self._lock:
            for span in spans:
                self._keep(span)

    def so_far(self) -> RunTime:
        """Return the time until now."""
        with self._lock:
            on, used = self._on[-1], time.process_time() - self._used
            counted = self._parts | {on: self._parts.get(on, 0.0) + self._clock() - self._since}
            parts = {name: round(counted[name], 3) for name in sorted(counted, key=_place)}
            worked = self._processor | {on: self._processor.get(on, 0.0) + used}
            processor = {name: round(worked[name], 3) for name in parts}
            lanes = {name: round(last - first, 3) for name, (first, last) in self._lanes.items()}
            steps = {part: {name: round(s, 3) for name, s in each.items()} for part, each in self._steps.items()}
        return RunTime(round(sum(parts.values()), 3), parts, lanes, steps, processor)

    def _count(self) -> None:
        """Count the time since the last change to the part that is on."""
        now, used, name = self._clock(), time.process_time(), self._on[-1]
        self._parts[name] = self._parts.get(name, 0.0) + now - self._since
        self._processor[name] = self._processor.get(name, 0.0) + used - self._used
        self._used = used
        self._keep(self._span(name, "part", self._since, now))
        self._since = now

    def _span(self, name: str, kind: str, began: float, ended: float) -> TimeSpan:
        return TimeSpan(name, kind, self._since_1970(began), self._since_1970(ended), this_process(), f"{kind}s")

    def _since_1970(self, moment: float) -> int:
        """Return a moment of the clock in microseconds since 1970."""
        origin, since_1970 = self._origin
        return since_1970 + round((moment - origin) * 1e6)

    def _keep(self, span: TimeSpan) -> None:
        if len(self._spans) < MOST_SPANS:
            self._spans.append(span)
        else:
            self._dropped += 1


def _place(part: str) -> int:
    return PARTS.index(part) if part in PARTS else len(PARTS)


_current: ContextVar[Timeline | None] = ContextVar("timeline", default=None)


@contextmanager
def timed_by(timeline: Timeline) -> Iterator[Timeline]:
    """Make a timeline that of the block, which :func:`current` returns there."""
    before = _current.set(timeline)
    try:
        yield timeline
    finally:
        _current.reset(before)


def current() -> Timeline | None:
    """Return the timeline of the command that is being run, if there is one."""
    return _current.get()


@contextmanager
def in_part(name: str) -> Iterator[None]:
    """Count the time of the block to a part of the command that is being run, if there is one."""
    timeline = current()
    with timeline.part(name) if timeline else nullcontext():
        yield


@contextmanager
def in_step(name: str) -> Iterator[None]:
    """Measure the block as a step of the command that is being run, if there is one."""
    timeline = current()
    with timeline.step(name) if timeline else nullcontext():
        yield


def microseconds() -> int:
    """Return the microseconds since 1970."""
    return time.time_ns() // 1000


def span(name: str, kind: str, began: int) -> TimeSpan:
    """Return the span of work in this thread that began at ``began``, in microseconds since 1970, and ends now."""
    # Threads of several pools may share a name, and a number may be used again once its thread has ended.
    thread = f"{threading.current_thread().name} {threading.get_native_id()}"
    return TimeSpan(name, kind, began, max(began, microseconds()), this_process(), thread)


@contextmanager
def noting_imports(timeline: Timeline) -> Iterator[None]:
    """Add the imports of the block, in this process, to a timeline; a module's time includes what it imports."""
    loaders: tuple[type[Any], ...] = (SourceFileLoader, ExtensionFileLoader)
    before = [loader.__dict__.get(_EXECUTE) for loader in loaders]

    def noted(execute: Callable[[Any, ModuleType], None]) -> Callable[[Any, ModuleType], None]:
        def exec_module(loader: Any, module: ModuleType) -> None:
            began = microseconds()
            try:
                execute(loader, module)
            finally:
                done = span(module.__name__, "import", began)
                if done.seconds >= _LEAST_IMPORT_S:
                    timeline.add([done])

        return exec_module

    for loader in loaders:
        setattr(loader, _EXECUTE, noted(getattr(loader, _EXECUTE)))
    try:
        yield
    finally:
        for loader, own in zip(loaders, before, strict=True):
            if own is None:  # it was inherited
                delattr(loader, _EXECUTE)
            else:
                setattr(loader, _EXECUTE, own)


def write_trace(path: Path, spans: Sequence[TimeSpan], calls: Sequence[Mapping[str, Any]], **about: Any) -> None:
    """Write a profile; the file appears complete or not at all.

    Args:
        calls: Lines of ``ledger/call_times``, by time.
        **about: What else the file says of itself.
    """
    every: list[tuple[TimeSpan, dict[str, Any]]] = [(each, {}) for each in spans]
    every += _in_flight(calls)
    origin = min((each.began for each, _ in every), default=0)
    with handed_out(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.write('{"displayTimeUnit": "ms", "otherData": ')
        json.dump({"began": origin / 1e6, **about}, file)
        file.write(', "traceEvents": [\n')
        for at, event in enumerate(_events(every, origin)):
            file.write(",\n" if at else "")
            json.dump(event, file)
        file.write("\n]}\n")


def _events(every: Sequence[tuple[TimeSpan, dict[str, Any]]], origin: int) -> Iterator[dict[str, Any]]:
    """Yield the events: complete ones with microseconds since the first, and the names of processes and threads."""
    processes: dict[str, int] = {}
    threads: dict[tuple[str, str], int] = {}
    for each, args in every:
        if each.process not in processes:
            processes[each.process] = len(processes) + 1
            yield _name("process_name", processes[each.process], 0, _readable(each.process))
        pid = processes[each.process]
        place = (each.process, each.thread)
        if place not in threads:
            threads[place] = len(threads) + 1
            yield _name("thread_name", pid, threads[place], each.thread)
        yield {
            "name": each.name,
            "cat": each.kind,
            "ph": "X",
            "ts": each.began - origin,
            "dur": each.ended - each.began,
            "pid": pid,
            "tid": threads[place],
            "args": args,
        }


def _in_flight(calls: Sequence[Mapping[str, Any]]) -> Iterator[tuple[TimeSpan, dict[str, Any]]]:
    """Yield each call in the lowest place that is free when it begins, with what is known of it."""
    free: list[int] = []
    taken: list[tuple[int, int]] = []
    for call in calls:
        began = round(call["intended_at"] * 1e6)
        ended = max(began, round(call["ended_at"] * 1e6))
        while taken and taken[0][0] <= began:
            heapq.heappush(free, heapq.heappop(taken)[1])
        place = heapq.heappop(free) if free else len(taken) + 1
        heapq.heappush(taken, (ended, place))
        shown = TimeSpan(call["purpose"], "call", began, ended, _CALLS, f"in flight {place}")
        yield shown, {name: call[name] for name in ("state", "tries", "seconds")}


def _name(kind: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}


def _readable(process: str) -> str:
    """Return the name of a process that :func:`leadline.tasks.ground.processes.this_process` names."""
    host, _, rest = process.partition(":")
    return f"process {rest.partition(':')[0]} on {host}" if rest else process
