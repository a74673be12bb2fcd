"""Faults of the machine that a command runs on, in words: a full disk, a read-only file system, too few open files."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import Final

from leadline.evaluators.ground import count

_REASONS: Final = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk's quota is used up",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "permission is denied",
    errno.EPERM: "permission is denied",
    errno.EMFILE: "this process may open no more files, which `ulimit -n` sets",
    errno.ENFILE: "the machine may open no more files",
    errno.EFBIG: "a file may not grow as large as that, which `ulimit -f` sets",
    errno.ENOLCK: "the file system has no file locks",
    errno.EOPNOTSUPP: "the file system has no file locks",
    errno.ENOSYS: "the file system has no file locks",
    errno.EIO: "the disk fails to read or write",
}
_NATIVE: Final = ("duckdb", "_duckdb", "pyarrow", "sqlite3", "sqlalchemy")
"""Packages whose errors say what the system said in their text alone."""

_PATH: Final = re.compile(r"""["'](/[^"'\\]+)""")
_LONGEST: Final = 300

_FEW: Final = 100
"""Inodes below which they, and not bytes, may be what a disk is out of: a failed command has removed some files."""


def host_fault(error: BaseException, store: str) -> str | None:
    """Return a sentence about what the machine refused, where that is what an error or one of its causes is about.

    Args:
        store: The store's folder or address, which is where it was where the error does not say.
    """
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno in _REASONS:
            return _sentence(_REASONS[seen.errno], seen.filename if isinstance(seen.filename, str) else store)
        if type(seen).__module__.partition(".")[0] in _NATIVE:
            text = " ".join(str(seen).split())
            for number, reason in _REASONS.items():
                if os.strerror(number).lower() in text.lower():
                    path = _PATH.search(text)
                    return _sentence(reason, path[1] if path else text[:_LONGEST])
        seen = seen.__cause__
    return None


def _sentence(reason: str, where: str) -> str:
    free = _free(where) if reason == _REASONS[errno.ENOSPC] else ""
    return f"{reason[0].upper()}{reason[1:]}{f': {where}' if where else ''}{free}."


def _few_inodes(left: os.statvfs_result) -> bool:
    """Return whether a file system, which may have no such limit, can hold hardly another file."""
    return left.f_files > 0 and left.f_favail < _FEW


def _free(path: str) -> str:
    """Say how much room there is, where that can be told."""
    if not path.startswith(os.sep):
        return ""
    for place in (Path(path), *Path(path).parents):
        try:
            left = os.statvfs(place)
        except (OSError, ValueError):
            continue
        files = f" and {count(left.f_favail, 'inode')}, of which each file takes one," if _few_inodes(left) else ""
        return f", with {left.f_bavail * left.f_frsize / 2**20:,.0f} MiB{files} left"
    return ""
