"""A scratch database on disk that holds a dataset while it is read, so that memory stays bounded.

Every batch is a transaction of its own, for DuckDB keeps the rows of an open one in memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from leadline.evaluators.core.error_codes import ErrorCode
from leadline.evaluators.core.errors import StoreError
from leadline.tasks.db.statements import sql
from leadline.tasks.store.scratch import scratch_folder

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from leadline.tasks.store.store import Store

MEMORY: Final = "800MB"


@contextmanager
def staging(store: Store) -> Iterator[DuckDBPyConnection]:
    """Open an empty staging database in the store; it is gone when the block ends.

    Raises:
        StoreError: The store has no room for it.
    """
    import duckdb

    with scratch_folder(store, "load") as folder:
        config: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": MEMORY,
            "temp_directory": str(folder / "spill"),
            "threads": min(4, os.cpu_count() or 1),
            "preserve_insertion_order": True,
        }
        with duckdb.connect(str(folder / "stage.duckdb"), config=config) as connection:
            # What is read once or twice is not worth compressing, nor saving every 16 MB.
            connection.execute("SET force_compression = 'uncompressed'; SET wal_autocheckpoint = '256MB'")
            connection.execute("SET enable_progress_bar = false")  # DuckDB would draw one on standard output
            connection.execute(sql("load/staging"))
            try:
                yield connection
            except (duckdb.IOException, duckdb.OutOfMemoryException, OSError) as error:
                said = str(error).splitlines()[0]
                hint = f"Is there room in {store.root}? A load needs up to three times the file's size."
                raise StoreError(
                    f"The dataset cannot be stored: {said}.", hint=hint, code=ErrorCode.STORE_FAILED
                ) from error
