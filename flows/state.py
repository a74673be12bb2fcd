"""Where Leadline keeps what belongs to the user and to no store: the kept server's record, and logs."""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def state_folder() -> Path:
    """Return the user's folder for Leadline's state, made if need be.

    It is ``leadline`` below ``$XDG_STATE_HOME`` (default ``~/.local/state``), or below the system's folder for
    temporary files where that cannot be written.
    """
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    folder = Path(base) / "leadline"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:
        folder = Path(tempfile.gettempdir()) / f"leadline-{os.getuid()}"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def new_log(name: str) -> Path:
    """Return the path of a log file that nobody else writes; it does not exist yet."""
    folder = state_folder() / "logs"
    folder.mkdir(exist_ok=True, mode=0o700)
    return folder / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"


def tail(log: Path, lines: int = 5) -> str:
    """Return the last lines of a log that say something, joined by ``|``."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    said = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(said[-lines:])


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait for a lock between processes, and hold it for the block; the kernel frees it when a process dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
