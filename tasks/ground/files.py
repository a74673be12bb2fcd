"""Files that appear complete or not at all, private unless asked otherwise: temporary names, locks, digests.

Here are the folders of scratch files too, and the user's folder for what belongs to no store.

A command makes its files for its user alone. Its product outside of the store, as ``-o`` names it, has the permissions
that the user's umask gives, since it is meant to be handed on. A store whose folder others may read is shared on
purpose, for Leadline makes none like that: what is written then follows the folder.

A temporary name has the host, as 8 hex digits, and the process, as its number and its start:
``.<name>.<host>.<number>-<start>.<token>.tmp``.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import logging
import os
import re
import secrets
import shutil
import socket
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from leadline.evaluators.ground import ErrorCode, StoreError
from leadline.tasks.ground.processes import has_ended, this_host, this_process

if TYPE_CHECKING:
    from filelock import FileLock

PRIVATE: Final = 0o077
"""The umask that leaves a file to its user."""

_users_umask: int | None = None
log = logging.getLogger("leadline.store")
DAY: Final = 24 * 3600.0
_PLACES: Final = (
    "datasets", "scores/*", "scores/*/*", "vectors", "vectors/*", "runs/*", "runs/*/plan", "runs/*/unscored",
    "comparisons", "versions/*", "alive", "labels/*", "labels/*/samples", "judges/*/*",
)  # fmt: skip
"""Folders of a store in which files and folders appear."""

_MONTH: Final = 30 * DAY
"""Temporary files older than this are deleted, whichever host created them."""

_NAME: Final = re.compile(r"\..+\.([0-9a-f]{8})\.([0-9]+)-([0-9A-Za-z?]+)\.[0-9a-f]{8}\.tmp", re.DOTALL)
_MARK: Final = re.compile(r"\.swept-[0-9a-f]{8}")

_STAGING: Final = "staging"
_TMP: Final = "tmp"
"""The store's folders of scratch files: with a lock in each, and of DuckDB's own."""

_LOCK: Final = ".lock"
"""File of a scratch folder that its process holds locked while it lives."""

_SETTLED: Final = 60.0
"""Seconds after which a scratch folder surely has its lock."""

_ABANDONED: Final = DAY
"""Seconds after which a scratch folder of another host, or one without a lock file, is deleted."""


class Listed(NamedTuple):
    """Facts about a file of a store.

    Attributes:
        size: Bytes.
        modified: When it was written, in seconds since 1970.
    """

    size: int
    modified: float


def digest(value: Any) -> str:
    """Return the 32 hex digits that identify a JSON value, whatever the order of its keys."""
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:32]


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; renamed to it when the block ends well, removed otherwise.

    A file is on disk before it has its name, so that a power cut leaves none that is empty. A folder's files are not:
    whoever must be able to trust them later, as with :func:`publish_folder`, brings them to disk.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_beside(path)
    try:
        yield temporary
        if not temporary.is_dir():
            _bring_to_disk(temporary)
        os.replace(temporary, path)
    except BaseException:
        remove(temporary)
        raise


@contextmanager
def handed_out(path: Path) -> Iterator[Path]:
    """Do what :func:`replacing` does for a file that somebody asked to have there, who may hand it on."""
    with replacing(path) as temporary:
        yield temporary
        hand_out(temporary)


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file atomically."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")


def publish_folder(path: Path, fill: Callable[[Path], None]) -> Path:
    """Make a folder appear complete under its name; if another process was first, its folder stays.

    Its files are on disk by then: nobody looks at them again before later runs read them.

    Args:
        fill: Writes its files into the temporary folder that it is given.
    """
    if path.exists():
        return path
    try:
        with replacing(path) as temporary:
            temporary.mkdir()
            fill(temporary)
            with ThreadPoolExecutor(8) as threads:  # each waits for the disk
                list(threads.map(_bring_to_disk, filter(Path.is_file, temporary.rglob("*"))))
    except OSError:
        if not path.exists():
            raise
    return path


def _bring_to_disk(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def keep_private(store: Path) -> None:
    """Make this process, and those that it starts, write files for its user alone.

    Args:
        store: The store's folder; where it is there and others may use it, they may use what is written as well.
    """
    global _users_umask
    mask = PRIVATE
    try:
        found = store.stat()
        if stat.S_ISDIR(found.st_mode):
            mask = PRIVATE & ~stat.S_IMODE(found.st_mode)
    except (OSError, ValueError):
        pass
    before = os.umask(mask)
    _users_umask = before if _users_umask is None else _users_umask


def hand_out(path: Path) -> None:
    """Give a new file or folder the permissions that the user's umask says."""
    if _users_umask is not None:
        path.chmod((0o777 if path.is_dir() else 0o666) & ~_users_umask)


def copy_out(source: Path, target: Path) -> None:
    """Copy a folder's files to where somebody asked for them; other files there, and folders, stay as they are."""
    new = not target.exists()
    target.mkdir(parents=True, exist_ok=True)
    if new:
        hand_out(target)
    for path in sorted(source.iterdir()):
        if path.is_dir():
            copy_out(path, target / path.name)
        else:
            new = not (target / path.name).exists()
            shutil.copyfile(path, target / path.name)
            if new:
                hand_out(target / path.name)


def locked(path: Path, *, wait: bool = True) -> FileLock:
    """Return a lock between processes, to hold in a ``with`` block; its file and folder are made if need be.

    Entering the block raises an ``OSError`` on a file system without locks.

    Args:
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
    path.stat()
    try:
        with locked(path, wait=False):
            return False
    except TimeoutError:
        return True


def temporary_beside(path: Path) -> Path:
    """Return an unused name for what is to become ``path``."""
    _, number, started = this_process().rsplit(":", 2)
    return path.with_name(f".{path.name}.{host_tag()}.{number}-{started}.{secrets.token_hex(4)}.tmp")


def clean_stale(root: Path) -> None:
    """Delete the temporary files that killed processes left in a store; does its work once a day.

    Files touched within a day stay: a container may have its neighbour's host name and not see its neighbour's
    processes. Files of other hosts are deleted once they were not touched for a month.
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
        return known is not None and _untouched(path, _MONTH)
    return has_ended(f"{this_host()}:{found[2]}:{found[3]}") and _untouched(path, DAY)


def _untouched(path: Path, seconds: float) -> bool:
    return time.time() - path.lstat().st_mtime > seconds


@cache
def host_tag() -> str:
    """Return the tag of this host in the names of files."""
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]


@contextmanager
def scratch_folder(root: Path, purpose: str) -> Iterator[Path]:
    """Make a folder in a store; it is gone when the block ends, or when the next one is made if that is killed."""
    room = root / _STAGING
    room.mkdir(parents=True, exist_ok=True)
    for folder in room.iterdir():
        if _is_abandoned(folder):
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


def stale_folders(root: Path) -> list[Path]:
    """Return what killed processes left of their scratch files: of loads and collections, queries and comparisons."""
    staged, others = (list(folder.iterdir()) if folder.is_dir() else [] for folder in (root / _STAGING, root / _TMP))
    return sorted(path for path in (*staged, *others) if _is_abandoned(path))


def _is_abandoned(folder: Path) -> bool:
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


def state_folder() -> Path:
    """Return the user's folder for what belongs to no store (working copies, a server's record, logs), made if need be.

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
