"""The user's folder for what belongs to no store in a folder of its own: working copies, a server's record, logs."""

from __future__ import annotations

import getpass
import os
import stat
import tempfile
from pathlib import Path

from leadline.evaluators.ground import ErrorCode, StoreError


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
        user = os.getuid() if hasattr(os, "getuid") else getpass.getuser()
        folder = Path(tempfile.gettempdir()) / f"leadline-{user}"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = folder.lstat()
        if found.st_uid != os.getuid() or found.st_mode & 0o077 or not stat.S_ISDIR(found.st_mode):
            raise StoreError(
                f"{folder} is not this user's alone, and somebody else may have made it.",
                hint="Set XDG_STATE_HOME to a folder of your own.",
                code=ErrorCode.STORE_FAILED,
            ) from None
    return folder
