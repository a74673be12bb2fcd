"""Files that appear under their final names complete or not at all, and the digests that name them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from leadline.tasks.ground.permissions import hand_out
from leadline.tasks.ground.tmpfiles import remove, temporary_beside


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
    """Write a JSON file atomically.

    Args:
        value: A JSON value.
    """
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def publish_folder(path: Path, fill: Callable[[Path], None]) -> Path:
    """Make a folder appear complete under its name; if another process was first, its folder stays.

    Its files are on disk by then: nobody looks at them again before later runs read them.

    Args:
        path: The folder.
        fill: Writes its files into the temporary folder that it is given.
    """
    if path.exists():
        return path
    try:
        with replacing(path) as temporary:
            temporary.mkdir()
            fill(temporary)
            for file in temporary.rglob("*"):
                if file.is_file():
                    _bring_to_disk(file)
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
