"""Digests by which damage inside a file is noticed.

A segment carries its own: 48 bytes between its pages and its footer, a place that readers of Parquet do not look at.
They are a mark and the SHA-256 of all other bytes. So a segment stays one file, whose digest goes with it into buckets
and backups, and segments without one are as good as before.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import BinaryIO, Final

_MARK: Final = b"leadline:sha256:"
_DIGEST_BYTES: Final = 32
_SEAL: Final = len(_MARK) + _DIGEST_BYTES
_MAGIC: Final = b"PAR1"
_END: Final = 8
"""Bytes behind the footer of a Parquet file: the footer's length, and the magic."""

_BLOCK: Final = 1 << 20


def seal(path: Path) -> None:
    """Put a Parquet file's digest into it; one that has a digest keeps it.

    Args:
        path: The file, which nobody reads yet.

    Raises:
        ValueError: It is no Parquet file.
    """
    with path.open("r+b") as file:
        footer_at = _footer_at(file)
        if _seal_of(file, footer_at) is not None:
            return
        digest = hashlib.sha256()
        _hash(file, 0, footer_at, digest)
        file.seek(footer_at)
        tail = file.read()
        digest.update(tail)
        file.seek(footer_at)
        file.write(_MARK + digest.digest() + tail)


def is_sealed(path: Path) -> bool:
    """Return whether a Parquet file has a digest in it.

    Raises:
        ValueError: It is no Parquet file.
    """
    with path.open("rb") as file:
        return _seal_of(file, _footer_at(file)) is not None


def seal_fault(path: Path) -> str:
    """Return what is wrong with a sealed Parquet file, ``""`` if it has the bytes that were written.

    Raises:
        ValueError: It is no Parquet file.
    """
    with path.open("rb") as file:
        footer_at = _footer_at(file)
        written = _seal_of(file, footer_at)
        digest = hashlib.sha256()
        _hash(file, 0, footer_at - _SEAL, digest)
        file.seek(footer_at)
        digest.update(file.read())
    return "" if digest.digest() == written else "its bytes are not those that were written"


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file, as 64 hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _hash(file: BinaryIO, first: int, end: int, digest: hashlib._Hash) -> None:
    file.seek(first)
    left = end - first
    while left > 0 and (block := file.read(min(left, _BLOCK))):
        digest.update(block)
        left -= len(block)


def _footer_at(file: BinaryIO) -> int:
    """Return where the footer of a Parquet file begins."""
    size = file.seek(0, os.SEEK_END)
    if size < _END + len(_MAGIC):
        raise ValueError("it is cut off")
    file.seek(-_END, os.SEEK_END)
    end = file.read(_END)
    footer_at = size - _END - int.from_bytes(end[:4], "little")
    file.seek(0)
    if end[4:] != _MAGIC or file.read(len(_MAGIC)) != _MAGIC or footer_at < len(_MAGIC):
        raise ValueError("it is no complete Parquet file")
    return footer_at


def _seal_of(file: BinaryIO, footer_at: int) -> bytes | None:
    if footer_at < _SEAL:
        return None
    file.seek(footer_at - _SEAL)
    found = file.read(_SEAL)
    return found[len(_MARK) :] if found.startswith(_MARK) else None
