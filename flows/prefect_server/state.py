"""Where Leadline keeps what belongs to the user and to no store: the kept server's record, and logs."""

from __future__ import annotations

import os
import time
from pathlib import Path

from leadline.tasks.store.locks import locked as locked
from leadline.tasks.store.user_folder import state_folder as state_folder


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
