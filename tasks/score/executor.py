"""Scoring chunks on this machine: a pool or a thread per lane, and large chunks in parts on all cores.

The cpu lane is a pool of processes, since rules and n-grams hold the interpreter's lock; little work is done in this
process, which is sooner ready than a pool. The gpu lane is one thread: one resident model. The judge lane is some
threads that wait for one event loop, so that the last replies of a chunk come while those of the next are asked for.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from itertools import pairwise
from queue import SimpleQueue
from threading import Lock
from types import TracebackType
from typing import Final, Protocol, TypeVar

from leadline.evaluators.core import Lane
from leadline.evaluators.judge_client.event_loop import cancel_all
from leadline.tasks.ground.processes import end_with_parent
from leadline.tasks.plan.jobs import Chunk
from leadline.tasks.score.chunk import MOST_SPANS, ChunkResult, score_chunk

POOL_WORTH: Final = 4_000
"""Row scores of rules below which a process pool costs more (a second or two) than it saves."""

JUDGED_AT_ONCE: Final = 4
"""Chunks of the judge lane in work; the limiter, not this, bounds the calls in flight."""

_PRELOAD: Final = ["leadline.tasks.score.chunk", "duckdb", "pyarrow.parquet", "leadline.evaluators.core.registry"]
PARTS: Final = 16
"""Parts of a chunk, however many cores there are: scoring it again elsewhere must write the same files."""


def default_processes() -> int:
    """Return how many processes the cpu lane gets: one per core that this process may use."""
    return max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


class LocalLanes(AbstractContextManager["LocalLanes"]):
    """Scores chunks on this machine.

    Args:
        chunks: All chunks to come; decides whether a pool is worth its start.
    """

    def __init__(self, processes: int, chunks: Sequence[Chunk]) -> None:
        rules = [chunk for chunk in chunks if chunk.lane == "cpu"]
        pooled = processes > 1 and len(rules) > 1 and sum(chunk.scores for chunk in rules) >= POOL_WORTH
        self.widths: Mapping[Lane, int] = {"cpu": processes if pooled else 1, "gpu": 1, "judge": JUDGED_AT_ONCE}
        self._pooled = pooled
        self._pool: ProcessPoolExecutor | None = None
        self._lock = Lock()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop the processes; when leaving by an exception, without waiting for chunks in work."""
        try:
            if kind is not None:
                cancel_all()
        finally:
            with self._lock:
                if self._pool is not None:
                    self._pool.shutdown(wait=kind is None, cancel_futures=True)
                    self._pool = None

    def score(self, chunk: Chunk) -> ChunkResult:
        """Score a chunk in its lane and wait for it.

        Raises:
            BrokenProcessPool: A process died; the pool is made anew for the next call.
        """
        if chunk.lane != "cpu" or not self._pooled:
            return score_chunk(chunk)
        pool = self._running_pool()
        try:
            with self._lock, _without_main():
                scoring = pool.submit(score_chunk, chunk)
            return scoring.result()
        except BrokenProcessPool:
            with self._lock:
                if self._pool is pool:
                    self._pool = None
            raise

    def _running_pool(self) -> ProcessPoolExecutor:
        with self._lock:
            if self._pool is None:
                methods = multiprocessing.get_all_start_methods()
                context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
                if context.get_start_method() == "forkserver":
                    context.set_forkserver_preload(_PRELOAD)
                self._pool = ProcessPoolExecutor(self.widths["cpu"], context, _belong_to_the_parent)
            return self._pool


@contextmanager
def _without_main() -> Iterator[None]:
    """Start processes that do not run the caller's script again, which may lack the ``__main__`` idiom.

    What is submitted is importable without it; ``multiprocessing`` looks for the script in these two attributes.
    """
    main = sys.modules["__main__"]
    spec, file = getattr(main, "__spec__", None), main.__dict__.pop("__file__", None)
    main.__spec__ = None
    try:
        yield
    finally:
        main.__spec__ = spec
        if file is not None:
            main.__file__ = file


def _belong_to_the_parent() -> None:
    """Let a pool's process finish its chunk when Ctrl-C reaches all its processes, and end when its parent is gone.

    The parent ends the pool, unless it is killed. Its processes would then wait for chunks for ever, and the forkserver
    for its last process.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()


class Notifying(Protocol):
    """A future that can call back."""

    def add_done_callback(self, fn: Callable[..., None], /) -> None:
        """Call ``fn`` once the future is done."""


F = TypeVar("F", bound=Notifying)


def drive(
    chunks: Sequence[Chunk],
    widths: Mapping[Lane, int],
    submit: Callable[[Chunk], F],
    finished: Callable[[Chunk, F], None],
) -> None:
    """Submit chunks so that each lane has at most its width in work, and report each as it finishes.

    Args:
        chunks: What to score; the order is kept within a lane.
        widths: Chunks in work at a time, by lane.
        finished: Called in this thread with each chunk and its finished future.
    """
    waiting: dict[Lane, list[Chunk]] = {}
    for chunk in reversed(chunks):
        waiting.setdefault(chunk.lane, []).append(chunk)
    done: SimpleQueue[tuple[Chunk, F]] = SimpleQueue()
    in_work = 0

    def start(lane: Lane) -> int:
        if not waiting.get(lane):
            return 0
        chunk = waiting[lane].pop()
        future = submit(chunk)
        future.add_done_callback(lambda _: done.put((chunk, future)))
        return 1

    for lane in list(waiting):
        for _ in range(widths[lane]):
            in_work += start(lane)
    while in_work:
        chunk, future = done.get()
        in_work -= 1
        finished(chunk, future)
        in_work += start(chunk.lane)


def score_on_all_cores(chunk: Chunk) -> ChunkResult:
    """Score a chunk that was cut for a worker; doing it again writes the same.

    Raises:
        JudgeDown: As :func:`leadline.tasks.score.chunk.score_chunk` raises it.
        BrokenProcessPool: A process died.
    """
    if chunk.lane != "cpu" or chunk.scores < POOL_WORTH:
        return score_chunk(chunk)
    parts, processes = subchunks(chunk), default_processes()
    results: list[ChunkResult] = []

    def finished(part: Chunk, future: Future[ChunkResult]) -> None:
        results.append(future.result())

    with LocalLanes(processes, parts) as lanes, ThreadPoolExecutor(processes) as threads:
        drive(parts, lanes.widths, lambda part: threads.submit(lanes.score, part), finished)
    return _combined(chunk, results)


def subchunks(chunk: Chunk) -> tuple[Chunk, ...]:
    """Return parts of a chunk, each with about as many rows, whose numbers no other chunk of the run has.

    A lane has fewer than 1,000 chunks, so the parts' numbers begin above.
    """
    width = chunk.last - chunk.first + 1
    bounds = [chunk.first + width * part // PARTS for part in range(PARTS + 1)]
    return tuple(
        replace(
            chunk,
            number=(chunk.number + 1) * 1_000 + part,
            first=first,
            last=after - 1,
            rows=-(-chunk.rows // PARTS),
            scores=-(-chunk.scores // PARTS),
        )
        for part, (first, after) in enumerate(pairwise(bounds))
        if first < after
    )


def _combined(chunk: Chunk, results: Sequence[ChunkResult]) -> ChunkResult:
    seconds: Counter[str] = Counter()
    for result in results:
        seconds.update(result.seconds)
    return ChunkResult(
        chunk.name,
        scored=sum(result.scored for result in results),
        unscored=sum(result.unscored for result in results),
        seconds={name: round(value, 3) for name, value in seconds.items()},
        spans=tuple(each for result in results for each in result.spans)[:MOST_SPANS],
    )
