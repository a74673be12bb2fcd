"""Log files of servers and of failures, in the user's folder."""

from __future__ import annotations

import os
import time
from pathlib import Path

from leadline.tasks.ground.files import state_folder


def new_log(name: str) -> Path:
    """Return the path of a new log file of this process; the file does not exist yet."""
    return log_folder() / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"


def log_folder() -> Path:
    """Return the folder of log files, made if need be."""
    folder = state_folder() / "logs"
    folder.mkdir(exist_ok=True, mode=0o700)
    return folder


def tail(log: Path, lines: int = 5) -> str:
    """Return the last lines of a log that are not blank, joined by ``|``.

    Args:
        log: The file.
        lines: How many lines at most.
    """
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    filled = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(filled[-lines:])
