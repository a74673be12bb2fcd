"""Locks between processes, on files; the kernel frees them when a process dies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from filelock import FileLock


def locked(path: Path, *, wait: bool = True) -> FileLock:
    """Return a lock between processes, to hold in a ``with`` block; its file and folder are made if need be.

    Entering the block raises an ``OSError`` on a file system without locks.

    Args:
        path: The lock's file.
        wait: Wait for a lock that another process holds, instead of raising a ``TimeoutError``.
    """
    from filelock import FileLock

    return FileLock(path, timeout=-1 if wait else 0, thread_local=False, fallback_to_soft=False)


def is_held(path: Path) -> bool:
    """Return whether some process holds a lock.

    Raises:
        FileNotFoundError: There is no such file.
    """
    from filelock import Timeout

    path.stat()
    try:
        with locked(path, wait=False):
            return False
    except Timeout:
        return True
