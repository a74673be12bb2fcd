"""What machine a figure was measured on, and a stopwatch."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


def describe() -> str:
    """Return one line about this machine."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{platform.machine()}, {cores} cores, {memory:.0f} GiB, Python {platform.python_version()}"


@dataclass
class Timing:
    """Wall time of a block, in seconds."""

    seconds: float = 0.0


@contextmanager
def timed() -> Iterator[Timing]:
    """Measure the wall time of a block."""
    timing = Timing()
    started = time.perf_counter()
    try:
        yield timing
    finally:
        timing.seconds = time.perf_counter() - started


def verdict(name: str, ratio: float, limit: float, *, at_least: bool = True) -> str:
    """Return a line that holds a ratio against what is asked of it."""
    good = ratio >= limit if at_least else ratio <= limit
    relation = "at least" if at_least else "at most"
    return f"{name}: {ratio:.2f} ({relation} {limit:g} wanted: {'met' if good else 'MISSED'})"
