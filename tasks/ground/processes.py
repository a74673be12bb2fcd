"""Processes: identifying the one that made a call or a run, whether it has ended, and ending with one's parent.

A host's name does not say which processes can be seen from here: containers may share one. So a process is known by
its host's name, by its *place* (the machine, or the container, and the start of its system), by its number there, and
by its own start.

Each holds one end of a pipe whose other end only its parent has: the kernel closes that when the parent dies, however
it does. Unlike a signal on the parent's death (``PR_SET_PDEATHSIG``), that works on every Unix, below a forkserver, and
where the parent's *thread* that started the process has ended.
"""

from __future__ import annotations

import gc
import hashlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from multiprocessing import parent_process
from pathlib import Path
from threading import Thread
from typing import Any, Final, NoReturn

FOREIGN_S: Final = 3600.0
"""A call that was begun this long ago on another host, whose processes cannot be seen from here, is given up."""

BEAT_S: Final = 15.0
"""Seconds between two signs of life of a process with calls in flight, where several hosts share a ledger."""

SILENT_S: Final = 120.0
"""Seconds without a sign of life after which a process of another host is gone; allows for clocks that differ."""

PS_S: Final = 5.0
"""Longest wait for ``ps``."""

_UNKNOWN: Final = "?"
"""Start of a process that cannot be inspected."""

_ENDED: Final = "ZX"
"""States of a process that has ended, while its parent has not asked after it; in many containers nobody ever does."""

_OUTERMOST: Final = 0xEFFFFFFC
"""Number that Linux gives the process namespace of a machine, which is no container's."""

_ORPHANED: Final = 1
"""Exit code of a process whose parent is gone; nobody is left to look at it."""


def _started(pid: int) -> str | None:
    """Return when a process started, in ticks since boot (macOS: by the clock), ``None`` for one that is gone.

    A pid alone may be another process by now.
    """
    if sys.platform == "darwin":
        return _started_by_ps(pid)
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:  # gone, or there is no /proc, or it shows no processes of other users
        return _signalled(pid)
    state, *fields = stat.rpartition(")")[2].split()
    return None if state in _ENDED else fields[18]


def _started_by_ps(pid: int) -> str | None:
    """Ask ``ps``, where there is no ``/proc``."""
    try:
        done = subprocess.run(  # noqa: S603 - a number is all that varies
            ["/bin/ps", "-o", "lstart=", "-p", str(pid)],
            env={"LC_ALL": "C", "TZ": "UTC"},
            capture_output=True,
            text=True,
            timeout=PS_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return _signalled(pid)
    return "-".join(done.stdout.replace(":", ".").split()) or None


def _signalled(pid: int) -> str | None:
    """Check by a signal, without ``/proc``, if there is such a process."""
    if os.name == "nt":  # there it would be no question, but Ctrl-C
        return _UNKNOWN
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        return _UNKNOWN
    return _UNKNOWN


@cache
def this_place() -> str:
    """Return which of the hosts of this name this is: ``m<machine>.<boot>``, ``c<boot>.<container>``, or ``""``.

    It is empty where there is no ``/proc``: there a process starts at a time, which tells it from others.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()[:8]
        namespace = Path("/proc/self/ns/pid").stat().st_ino
        machine = Path("/etc/machine-id").read_text(encoding="utf-8").strip() if namespace == _OUTERMOST else ""
    except OSError:
        return ""
    return f"m{hashlib.sha256(machine.encode()).hexdigest()[:8]}.{boot}" if machine else f"c{boot}.{namespace}"


def this_process() -> str:
    """Return what identifies this process in the ledger: its host, the host's place, its pid and start."""
    return _identity(os.getpid())


def process_record() -> dict[str, Any]:
    """Return the parts of :func:`this_process`, for the record of a run."""
    _, pid, started = this_process().rsplit(":", 2)
    return {"pid": int(pid), "host": socket.gethostname(), "place": this_place(), "started": started}


def process_of(record: object) -> str:
    """Return the process of a :func:`process_record` as :func:`this_process` names it, ``""`` if there is none."""
    if not isinstance(record, Mapping):
        return ""
    return f"{_host(record['host'], record.get('place', ''))}:{record['pid']}:{record['started']}"


@cache
def _identity(pid: int) -> str:
    return f"{this_host()}:{pid}:{_started(pid)}"


def this_host() -> str:
    """Return this host's name and place, as they stand in :func:`this_process`."""
    return _host(socket.gethostname(), this_place())


def _host(name: str, place: str) -> str:
    return f"{name}+{place}" if place else name


def same_host(process: str) -> bool:
    """Return whether a process, as :func:`this_process` names it, is or was one of this host."""
    return process.rsplit(":", 2)[0] == this_host() or _before_this_boot(process)


def _before_this_boot(process: str) -> bool:
    """Return whether a process was one of this machine, no container's, before the machine was started anew."""
    host, here = process.rsplit(":", 2)[0], this_host()
    return host != here and this_place().startswith("m") and host.rpartition(".")[0] == here.rpartition(".")[0]


def has_ended(process: str) -> bool:
    """Return whether a process of this host has ended; ``False`` for one of another host, which cannot be seen."""
    _, pid, started = process.rsplit(":", 2)
    if not same_host(process):
        return False
    if _before_this_boot(process):
        return True
    found = _started(int(pid))
    return found is None or (found != started and _UNKNOWN not in (found, started))


def is_alive(process: str) -> bool:
    """Return whether a process of this host lives for certain: it can be looked at, and began when it is said to."""
    host, pid, started = process.rsplit(":", 2)
    return host == this_host() and started != _UNKNOWN and _started(int(pid)) == started


def is_gone(process: str, intended_at: float, now: float | None = None, *, seen_at: float | None = None) -> bool:
    """Return whether a process that began a call has ended without recording the outcome.

    Args:
        process: The process, as :func:`this_process` named it.
        intended_at: When the call was begun, in seconds since 1970.
        now: The time; the clock's by default.
        seen_at: Time of its last sign of life, if the ledger has it.
    """
    if same_host(process):
        return has_ended(process)
    now = time.time() if now is None else now
    return now - intended_at > FOREIGN_S if seen_at is None else now - max(seen_at, intended_at) > SILENT_S


def end_with_parent() -> None:
    """End this process, which :mod:`multiprocessing` started, as soon as the one that wanted it is gone.

    Its work is not waited for: what it writes appears complete or not at all.
    """
    parent = parent_process()
    if parent is not None:
        Thread(target=_end_after, args=(parent.join,), name="leadline-parent", daemon=True).start()


def end_with_input() -> None:
    """End this process when its standard input ends, which is a pipe that only its parent writes to."""
    Thread(target=_end_after, args=(_read_input,), name="leadline-parent", daemon=True).start()


def _read_input() -> None:
    while os.read(0, 4096):
        pass


def _end_after(wait: Callable[[], object]) -> NoReturn:
    wait()
    os._exit(_ORPHANED)


@contextmanager
def without_collection() -> Iterator[None]:
    """Keep the cyclic collector from going through many objects that are read again and again: few are in a cycle."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
