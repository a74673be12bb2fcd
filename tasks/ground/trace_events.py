"""A run's profile in the Trace Event Format, which Perfetto, ``chrome://tracing`` and Firefox's profiler open.

Each process is a group of tracks, each thread a track of it, and so is each place of a judge call in flight: the calls
are those on record in the ledger, so that they are there whichever process made them.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.machinery import ExtensionFileLoader, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from leadline.tasks.ground.files import handed_out
from leadline.tasks.ground.timeline import Timeline, TimeSpan, microseconds, span

LEAST_IMPORT_S: Final = 0.001
"""Imports that take less are left out of a profile; a run makes thousands."""

MOST_CALLS: Final = 20_000
"""Calls that a profile contains, the first ones."""

_CALLS: Final = "judge calls"
_EXECUTE: Final = "exec_module"


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
                if done.seconds >= LEAST_IMPORT_S:
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
        spans: Parts, steps, chunks, evaluators and imports.
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
