"""Parquet files that are written while their rows come, and appear complete or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from leadline.tasks.store.files import replacing

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

GROUP_BYTES: Final = 1 << 20
"""Bytes of rows that wait in memory to become a row group: 20,000 scores without evidence are one group."""


@contextmanager
def atomic_parquet(path: Path) -> Iterator[AtomicParquetWriter]:
    """Yield a file to add rows to; it appears when the block ends well, if there are any."""
    with ExitStack() as opened:
        file = AtomicParquetWriter(path, opened)
        yield file
        file.flush()


class AtomicParquetWriter:
    """A Parquet file in the making. While it has less than a row group, it has no temporary file either.

    Attributes:
        path: Where it will be.
        rows: How many it has.
    """

    def __init__(self, path: Path, opened: ExitStack) -> None:
        self.path = path
        self.rows = 0
        self._opened = opened
        self._waiting: list[pa.Table] = []
        self._writer: pq.ParquetWriter | None = None

    def add(self, rows: pa.Table) -> None:
        """Add rows, all with the same columns."""
        self.rows += len(rows)
        self._waiting.append(rows)
        if sum(table.nbytes for table in self._waiting) >= GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the rows that wait, as one row group."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        if not self._waiting:
            return
        table = pa.concat_tables(self._waiting)
        self._waiting = []
        if self._writer is None:
            temporary = self._opened.enter_context(replacing(self.path))
            self._writer = self._opened.enter_context(pq.ParquetWriter(temporary, table.schema, compression="zstd"))
        self._writer.write_table(table, row_group_size=len(table))
