"""Which Parquet files of a folder are whole: a power cut or a full disk can leave others."""

from __future__ import annotations

import logging
import os
from functools import cache
from pathlib import Path
from typing import Final

from leadline.evaluators.core.errors import StoreError

log = logging.getLogger("leadline.store")

_MAGIC: Final = b"PAR1"
_ENDS: Final = 12
"""Bytes around a Parquet file's content: the magic, the footer's length, and the magic again."""


def intact_parquet_files(folder: Path, what: str) -> list[Path]:
    """Return the Parquet files of a folder in order of their names; those that are not whole are left aside.

    Only the ends of a file are looked at. A later error of whoever reads the rest is not ruled out.

    Args:
        folder: The folder; it need not exist.
        what: What the files hold, for the warning: ``"scores"``.

    Raises:
        StoreError: A file could not be looked at, which says nothing of it.
    """
    return [path for path in sorted(folder.glob("[!.]*.parquet")) if _is_whole(path, what)]


@cache
def leave_aside(path: Path, what: str, reason: str) -> None:
    """Warn, once in a process, that a file is not used."""
    log.warning(
        "A segment of %s is left aside, and what it held is computed again: %s: %s", what, path, reason or "unreadable"
    )


def _is_whole(path: Path, what: str) -> bool:
    try:
        fault = _fault(path)
    except FileNotFoundError:
        return False
    except PermissionError:
        fault = "it may not be read"
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}.", hint="Try again.") from error
    if fault:
        leave_aside(path, what, fault)
    return not fault


def _fault(path: Path) -> str:
    """Return what is wrong with a file's ends, ``""`` where nothing is."""
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        if size <= _ENDS:
            return "it is empty" if not size else "it is cut off"
        head = file.read(len(_MAGIC))
        file.seek(-8, os.SEEK_END)
        tail = file.read(8)
    if head != _MAGIC or tail[4:] != _MAGIC or int.from_bytes(tail[:4], "little") + _ENDS > size:
        return "it is no whole Parquet file"
    return ""
