"""Parquet files of the store: written so that they appear complete or not at all, and checked before they are read.

A power cut or a full disk can still damage a file: it is ignored with a warning, and its rows are computed again.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from leadline.evaluators.ground import ErrorCode, StoreError
from leadline.tasks.ground.files import replacing
from leadline.tasks.store.digests import seal

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

log = logging.getLogger("leadline.store")

GROUP_BYTES: Final = 1 << 20
"""Bytes of rows that are buffered for one row group: 20,000 scores without evidence are one group."""

_MAGIC: Final = b"PAR1"
_ENDS: Final = 12
"""Bytes around a Parquet file's content: the magic, the footer's length, and the magic again."""


@contextmanager
def atomic_parquet(path: Path) -> Iterator[AtomicParquetWriter]:
    """Yield a writer; its file appears when the block ends without an error, if rows were added."""
    with ExitStack() as opened:
        file = AtomicParquetWriter(path, opened)
        yield file
        file.flush()


class AtomicParquetWriter:
    """Writes a Parquet file row group by row group, in a temporary file that is made with the first group.

    Attributes:
        path: The file that will appear.
        rows: Rows added.
    """

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
        import pyarrow as pa
        import pyarrow.parquet as pq

        if not self._buffered:
            return
        table = pa.concat_tables(self._buffered)
        self._buffered = []
        if self._writer is None:
            temporary = self._opened.enter_context(replacing(self.path))
            self._opened.push(partial(_seal_if_written, temporary))
            self._writer = self._opened.enter_context(
                pq.ParquetWriter(temporary, table.schema, compression="zstd", write_page_checksum=True)
            )
        self._writer.write_table(table, row_group_size=len(table))


def _seal_if_written(path: Path, error: type[BaseException] | None, *_: object) -> None:
    if error is None:
        seal(path)


def intact_parquet_files(folder: Path, what: str) -> list[Path]:
    """Return the Parquet files of a folder by name; damaged ones are ignored with a warning.

    Only the first and last bytes of a file are checked; reading the rest may still fail.

    Args:
        folder: The folder; it need not exist.
        what: Contents of the files, for the warning: ``"scores"``.

    Raises:
        StoreError: A file cannot be read just now, which does not mean that it is damaged.
    """
    return [path for path in sorted(folder.glob("[!.]*.parquet")) if _is_intact(path, what)]


@cache
def warn_damaged(path: Path, what: str, reason: str) -> None:
    """Warn once per process that a damaged file is ignored.

    Args:
        what: Contents of the file: ``"scores"``.
        reason: The damage.
    """
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
        file.seek(-8, os.SEEK_END)
        tail = file.read(8)
    if head != _MAGIC or tail[4:] != _MAGIC or int.from_bytes(tail[:4], "little") + _ENDS > size:
        return "not a complete Parquet file"
    return ""
