"""Names of temporary files and folders, and deleting those of killed processes.

A temporary name has the host, as 8 hex digits, and the process, as its number and its start:
``.<name>.<host>.<number>-<start>.<token>.tmp``.
"""

from __future__ import annotations

import hashlib
import logging
import re
import secrets
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

from leadline.tasks.ground.processes import has_ended, this_host, this_process

log = logging.getLogger("leadline.store")

DAY: Final = 24 * 3600.0

_PLACES: Final = (
    "datasets", "scores/*", "scores/*/*", "vectors", "vectors/*", "runs/*", "runs/*/plan", "runs/*/unscored",
    "comparisons", "versions/*", "alive", "labels/*", "labels/*/samples", "judges/*/*",
)  # fmt: skip
"""Folders of a store in which files and folders appear."""

MONTH: Final = 30 * DAY
"""Temporary files older than this are deleted, whichever host created them."""

_NAME: Final = re.compile(r"\..+\.([0-9a-f]{8})\.([0-9]+)-([0-9A-Za-z?]+)\.[0-9a-f]{8}\.tmp", re.DOTALL)

_MARK: Final = re.compile(r"\.swept-[0-9a-f]{8}")


def temporary_beside(path: Path) -> Path:
    """Return an unused name for what is to become ``path``."""
    _, number, started = this_process().rsplit(":", 2)
    return path.with_name(f".{path.name}.{host_tag()}.{number}-{started}.{secrets.token_hex(4)}.tmp")


def clean_stale(root: Path) -> None:
    """Delete the temporary files that killed processes left in a store; does its work once a day.

    Files touched within a day stay: a container may have its neighbour's host name and not see its neighbour's
    processes. Files of other hosts are deleted once they were not touched for a month.

    Args:
        root: The store's folder.
    """
    mark = root / f".swept-{host_tag()}"
    try:
        if mark.exists() and not _untouched(mark, DAY):
            return
        mark.touch()
    except OSError as error:  # another user's mark
        log.warning("Stale temporary files in %s are not deleted: %s", root, error)
        return
    for path in stale_files(root):
        try:
            remove(path)
        except OSError as error:  # another user's, or deleted concurrently
            log.warning("A stale temporary file cannot be deleted: %s: %s", path, error)


def stale_files(root: Path) -> Iterator[Path]:
    """Yield the temporary files that killed processes left in a store, as :func:`clean_stale` deletes them."""
    for place in (".swept-*", *(f"{place}/.*.tmp" for place in _PLACES)):
        for path in root.glob(place):
            with suppress(OSError):  # another user's, or deleted concurrently
                if _is_stale(path):
                    yield path


def remove(path: Path) -> None:
    """Delete a file or a folder if it exists; of a folder whatever can be deleted.

    Raises:
        OSError: It is a file that cannot be deleted.
    """
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _is_stale(path: Path) -> bool:
    found = _NAME.fullmatch(path.name)
    if found is None or found[1] != host_tag():
        known = found or _MARK.fullmatch(path.name)
        return known is not None and _untouched(path, MONTH)
    return has_ended(f"{this_host()}:{found[2]}:{found[3]}") and _untouched(path, DAY)


def _untouched(path: Path, seconds: float) -> bool:
    return time.time() - path.lstat().st_mtime > seconds


@cache
def host_tag() -> str:
    """Return the tag of this host in the names of files."""
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]
