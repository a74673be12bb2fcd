"""Parquet files of the store: they appear complete or not at all, and damage inside them is noticed.

A power cut or a full disk can still damage a file: it is ignored with a warning, and its rows are computed again.

A segment carries its digest: 48 bytes between its pages and its footer, a place that readers of Parquet do not look at.
They are a mark and the SHA-256 of all other bytes. So a segment stays one file, whose digest goes with it into buckets
and backups.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from leadline.evaluators.ground import ErrorCode, StoreError
from leadline.tasks.ground.files import replacing

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_MARK: Final = b"leadline:sha256:"
_DIGEST_BYTES: Final = 32
_SEAL: Final = len(_MARK) + _DIGEST_BYTES
_MAGIC: Final = b"PAR1"
_END: Final = 8
"""Bytes behind the footer of a Parquet file: the footer's length, and the magic."""
_ENDS: Final = _END + len(_MAGIC)
"""Bytes of a Parquet file outside of its content and footer."""

_BLOCK: Final = 1 << 20


def seal(path: Path) -> None:
    """Put a Parquet file's digest into it, while nobody reads it yet; one that has a digest keeps it.

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
    if size < _ENDS:
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


log = logging.getLogger("leadline.store")

GROUP_BYTES: Final = 1 << 20
"""Bytes of rows that are buffered for one row group: 20,000 scores without evidence are one group."""


@contextmanager
def atomic_parquet(path: Path) -> Iterator[AtomicParquetWriter]:
    """Yield a writer; its file appears when the block ends without an error, if rows were added."""
    with ExitStack() as opened:
        file = AtomicParquetWriter(path, opened)
        yield file
        file.flush()


class AtomicParquetWriter:
    """Writes a Parquet file row group by row group, in a temporary file that is made with the first group."""

    def __init__(self, path: Path, opened: ExitStack) -> None:
        self.path = path
        self.rows = 0
        self._opened = opened
        self._buffered: list[pa.Table] = []
        self._writer: pq.ParquetWriter | None = None

    def add(self, rows: pa.Table) -> None:
        """Add rows, all with the same columns."""
        self.rows += len(rows)
        self._buffered.append(rows)
        if sum(table.nbytes for table in self._buffered) >= GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the buffered rows as one row group."""
        from pyarrow import concat_tables, parquet

        if not self._buffered:
            return
        table = concat_tables(self._buffered)
        self._buffered = []
        if self._writer is None:
            temporary = self._opened.enter_context(replacing(self.path))
            self._opened.push(partial(_seal_if_written, temporary))
            self._writer = self._opened.enter_context(
                parquet.ParquetWriter(temporary, table.schema, compression="zstd", write_page_checksum=True)
            )
        self._writer.write_table(table, row_group_size=len(table))


def _seal_if_written(path: Path, error: type[BaseException] | None, *_: object) -> None:
    if error is None:
        seal(path)


def intact_parquet_files(folder: Path, what: str) -> list[Path]:
    """Return the Parquet files of a folder by name; damaged ones are ignored with a warning.

    Only the first and last bytes of a file are checked; reading the rest may still fail.

    Args:
        what: Contents of the files, for the warning: ``"scores"``.

    Raises:
        StoreError: A file cannot be read just now, which does not mean that it is damaged.
    """
    return [path for path in sorted(folder.glob("[!.]*.parquet")) if _is_intact(path, what)]


@cache
def warn_damaged(path: Path, what: str, reason: str) -> None:
    """Warn once per process that a damaged file is ignored."""
    log.warning(
        "A damaged file of %s is ignored, and its rows are computed again: %s: %s", what, path, reason or "unreadable"
    )


def _is_intact(path: Path, what: str) -> bool:
    try:
        fault = _fault(path)
    except FileNotFoundError:
        return False
    except PermissionError:
        fault = "no permission to read it"
    except OSError as error:
        raise StoreError(
            f"{path} cannot be read: {error.strerror or error}.", hint="Try again.", code=ErrorCode.STORE_FAILED
        ) from error
    if fault:
        warn_damaged(path, what, fault)
    return not fault


def _fault(path: Path) -> str:
    """Return the damage at a file's ends, ``""`` if there is none."""
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        if size <= _ENDS:
            return "it is empty" if not size else "it is cut off"
        head = file.read(len(_MAGIC))
        file.seek(-_END, os.SEEK_END)
        tail = file.read(_END)
    if head != _MAGIC or tail[4:] != _MAGIC or int.from_bytes(tail[:4], "little") + _ENDS > size:
        return "not a complete Parquet file"
    return ""
