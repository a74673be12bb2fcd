"""Locks between processes, on files; the kernel frees them when a process dies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
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


@contextmanager
def locked_if_possible(path: Path) -> Iterator[None]:
    """Hold a lock between processes for a block; on a file system without locks the block just runs."""
    with ExitStack() as held:
        with suppress(OSError):
            held.enter_context(locked(path))
        yield


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
