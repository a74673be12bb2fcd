"""Permissions of what a process writes: its user alone has them, but for what somebody asked to have elsewhere.

A command makes its files for its user alone. Its product outside of the store, as ``-o`` names it, has the permissions
that the user's umask gives, since it is meant to be handed on. A store whose folder others may read is shared on
purpose, for Leadline makes none like that: what is written then follows the folder.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

PRIVATE: Final = 0o077
"""The umask that leaves a file to its user."""

_users_umask: int | None = None


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
    """Give a new file or folder the permissions that the user's umask says.

    Args:
        path: What somebody asked to have in this place.
    """
    if _users_umask is not None:
        path.chmod((0o777 if path.is_dir() else 0o666) & ~_users_umask)


def copy_out(source: Path, target: Path) -> None:
    """Copy a folder's files to where somebody asked for them; other files there, and folders, stay as they are.

    Args:
        source: The folder.
        target: The folder to copy to; it is made if need be.
    """
    import shutil

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
