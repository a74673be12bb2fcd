"""The processes below a process, by ``/proc``, and which of them live."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path


def descendants(pid: int) -> list[tuple[int, str]]:
    """Return the living processes below a process, each with its start: a number alone may be used again."""
    parents: dict[int, tuple[int, str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (stat := _stat(int(entry.name))):
            parents[int(entry.name)] = (int(stat[1]), stat[19])
    found: list[tuple[int, str]] = []
    todo = [pid]
    while todo:
        above = todo.pop()
        children = [(child, started) for child, (parent, started) in parents.items() if parent == above]
        found += children
        todo += [child for child, _ in children]
    return found


def alive(processes: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return those processes that have not ended; one whose end nobody has asked for has ended all the same."""
    found = [(pid, started, _stat(pid)) for pid, started in processes]
    return [(pid, started) for pid, started, stat in found if stat and stat[19] == started and stat[0] != "Z"]


def ended(processes: Sequence[tuple[int, str]], seconds: float = 60) -> list[tuple[int, str]]:
    """Return which processes are still there when the time is up."""
    deadline = time.monotonic() + seconds
    while (left := alive(processes)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def kill_below(process: subprocess.Popen[bytes], *, itself: bool = False) -> None:
    """``kill -9`` all processes below a process, after itself if that is to end too: it could start others."""
    below = descendants(process.pid)
    if itself:
        process.kill()
        process.wait()
    for child, _ in below:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def kill_started_since(moment: float) -> None:
    """Kill the processes below this one that were started after a time in seconds since 1970, where there is ``/proc``.

    It counts in hundredths of a second; what was started in that of the moment is spared.
    """
    if Path("/proc/self/stat").exists():
        since = time.clock_gettime(time.CLOCK_BOOTTIME) - (time.time() - moment)
        for pid, started in descendants(os.getpid()):
            if int(started) > int(since * os.sysconf("SC_CLK_TCK")):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def _stat(pid: int) -> list[str]:
    """Return the fields of a process from its state on, none for one that is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()
