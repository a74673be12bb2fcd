"""Folders for scratch files, which go with the process that made them."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from leadline.tasks.ground.files import host_tag, is_held, locked

if TYPE_CHECKING:
    from leadline.tasks.store.store import Store

_STAGING: Final = "staging"
_TMP: Final = "tmp"
"""The store's folders of scratch files: with a lock in each, and of DuckDB's own."""

_LOCK: Final = ".lock"
"""File of a scratch folder that its process holds locked while it lives."""

_SETTLED: Final = 60.0
"""Seconds after which a scratch folder surely has its lock."""

_ABANDONED: Final = 24 * 3600.0
"""Seconds after which a scratch folder of another host, or one without a lock file, is deleted."""


@contextmanager
def scratch_folder(store: Store, purpose: str) -> Iterator[Path]:
    """Make a folder in the store; it is gone when the block ends, or when the next one is made if that is killed.

    Args:
        purpose: Begins the folder's name.
    """
    room = store.root / _STAGING
    room.mkdir(parents=True, exist_ok=True)
    for folder in room.iterdir():
        if _is_stale(folder):
            shutil.rmtree(folder, ignore_errors=True)
    prefix = f"{purpose}-{host_tag()}-"
    with (
        tempfile.TemporaryDirectory(prefix=prefix, dir=room, ignore_cleanup_errors=True) as name,
        ExitStack() as opened,
    ):
        folder = Path(name)
        try:
            opened.enter_context(locked(folder / _LOCK))
        except OSError:  # a file system without locks: only the age of the folder counts
            (folder / _LOCK).unlink(missing_ok=True)
        yield folder


def stale_folders(store: Store) -> list[Path]:
    """Return what killed processes left of their scratch files: of loads and collections, queries and comparisons."""
    staged, others = (
        list(folder.iterdir()) if folder.is_dir() else [] for folder in (store.root / _STAGING, store.root / _TMP)
    )
    return sorted(path for path in (*staged, *others) if _is_stale(path))


def _is_stale(folder: Path) -> bool:
    """Return whether the process that made a scratch folder was killed: the kernel has freed its lock then.

    Locks of other hosts are not seen on every file system, so that only the age of their folders counts.
    """
    try:
        age = time.time() - folder.stat().st_mtime
        if f"-{host_tag()}-" in folder.name and (folder / _LOCK).exists():
            return age > _SETTLED and not is_held(folder / _LOCK)
    except OSError:  # deleted concurrently, or owned by another user
        return False
    return age > _ABANDONED
