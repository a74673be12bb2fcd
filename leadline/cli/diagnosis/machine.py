"""The machine: room, open files, and a clock that agrees with others."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from leadline.cli.diagnosis.diagnosis import Diagnosis, State

LEAST_FREE_GB: Final = 1.0
"""Free space below which a run of middling size may not end."""

LEAST_FILES: Final = 1024
"""Open files below which many processes, judge calls and segments at once may fail."""

MOST_SKEW_S: Final = 5.0
"""Difference between the clocks of this machine and of the store's file system from which on signs of life mislead."""

_SENSIBLE_SINCE: Final = datetime(2026, 1, 1, tzinfo=UTC)


def examine_disk(store: Path) -> Iterator[Diagnosis]:
    """Yield the free space of the store and of temporary files.

    Args:
        store: The store's folder, or that of its working copy; it need not be there.
    """
    import shutil

    for name, folder in (("store", _existing(store)), ("temporary files", Path(tempfile.gettempdir()))):
        free = shutil.disk_usage(folder).free / 1e9
        found = f"{free:,.1f} GB free for {name} ({folder})"
        if free < LEAST_FREE_GB:
            advice = (
                "Make room: leadline store gc --dry-run says what could go" if name == "store" else "Make room there"
            )
            yield Diagnosis("disk", State.BROKEN, found, advice)
        else:
            yield Diagnosis("disk", State.OK, found)


def examine_clock(store: Path) -> Iterator[Diagnosis]:
    """Yield whether this machine's clock agrees with that of the store's file system.

    Args:
        store: The store's folder; it need not be there.
    """
    now = datetime.now(UTC)
    if now < _SENSIBLE_SINCE:
        yield Diagnosis("clock", State.BROKEN, f"it is {now:%Y-%m-%d %H:%M} here", "Set the clock, for instance by NTP")
        return
    folder = _existing(store)
    if not os.access(folder, os.W_OK):
        folder = Path(tempfile.gettempdir())
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".doctor-") as file:
        skew = Path(file.name).stat().st_mtime - time.time()
    found = f"{now:%Y-%m-%d %H:%M} UTC, {abs(skew):.1f} s from the clock of the store's file system"
    if abs(skew) > MOST_SKEW_S:
        yield Diagnosis("clock", State.BROKEN, found, "Set both clocks by NTP: hosts that share a store go by them")
    else:
        yield Diagnosis("clock", State.OK, found)


def examine_limits() -> Iterator[Diagnosis]:
    """Yield whether the system lets a process open enough files and make locks and memory as it needs."""
    try:
        import resource
    except ImportError:  # Windows has no such limits
        yield Diagnosis("limits", State.OK, "none on this system")
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    memory, _ = resource.getrlimit(resource.RLIMIT_AS)
    unlimited = resource.RLIM_INFINITY
    if soft != unlimited and soft < LEAST_FILES:
        most = "no limit" if hard == unlimited else f"{hard:,}"
        yield Diagnosis(
            "limits", State.BROKEN, f"{soft:,} open files (ulimit -n)", f"ulimit -n {LEAST_FILES}; at most {most} here"
        )
    else:
        files = "any number of" if soft == unlimited else f"{soft:,}"
        room = "any" if memory == unlimited else f"{memory / 1e9:,.1f} GB of"
        yield Diagnosis("limits", State.OK, f"{files} open files, {room} address space")


def _existing(folder: Path) -> Path:
    """Return the nearest folder above that exists."""
    absolute = folder.absolute()
    return next(path for path in (absolute, *absolute.parents) if path.is_dir())
