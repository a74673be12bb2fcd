"""Which process made a call, and whether it is still there to see its end."""

from __future__ import annotations

import os
import socket
import time
from functools import cache
from pathlib import Path
from typing import Final

FOREIGN_S: Final = 3600.0
"""A call that was begun this long ago on another host, whose processes cannot be seen from here, is given up."""

BEAT_S: Final = 15.0
"""How often a process with calls in flight says that it lives, where several hosts share a ledger."""

SILENT_S: Final = 120.0
"""A process of another host that was not heard of for so long is gone; leaves room for clocks that differ."""


def _started(pid: int) -> str | None:
    """Return when a process started, in ticks since boot: a pid alone may be another process by now."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None if Path("/proc/self/stat").exists() else _signalled(pid)
    except OSError:
        return None
    return stat.rpartition(")")[2].split()[19]


def _signalled(pid: int) -> str | None:
    """Do without ``/proc``: only tell whether there is such a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        return "?"
    return "?"


def this_process() -> str:
    """Return what identifies this process in the ledger."""
    return _identity(os.getpid())


@cache
def _identity(pid: int) -> str:
    return f"{socket.gethostname()}:{pid}:{_started(pid)}"


def same_host(process: str) -> bool:
    """Return whether a process, as :func:`this_process` says it, is or was one of this host."""
    return process.rsplit(":", 2)[0] == socket.gethostname()


def is_gone(process: str, intended_at: float, now: float | None = None, *, seen_at: float | None = None) -> bool:
    """Return whether a process has ended that began a call and never said how it went.

    Args:
        process: What :func:`this_process` said there.
        intended_at: When the call was begun, in seconds since 1970.
        now: The time; the clock's by default.
        seen_at: When it was last heard of, if the ledger keeps that.
    """
    _, pid, started = process.rsplit(":", 2)
    if same_host(process):
        return _started(int(pid)) != started
    now = time.time() if now is None else now
    return now - intended_at > FOREIGN_S if seen_at is None else now - max(seen_at, intended_at) > SILENT_S
