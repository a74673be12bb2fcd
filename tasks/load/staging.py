"""A scratch database for a dataset that is being read, which moves to disk what does not fit, and its Parquet files.

Every batch is a transaction of its own, for DuckDB keeps the rows of an open one in memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from leadline.evaluators.core.error_codes import ErrorCode
from leadline.evaluators.core.errors import StoreError
from leadline.tasks.db.connection import DATASET_TABLES, literal
from leadline.tasks.db.statements import sql
from leadline.tasks.store.scratch import scratch_folder

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from leadline.tasks.load.dataset_models import Model
    from leadline.tasks.store.store import Store

MEMORY: Final = "500MB"
"""Memory of the staging database; what does not fit goes to disk."""

ROW_GROUP: Final = 20_480
"""Rows of a Parquet row group: what is skipped or read as a whole."""


@contextmanager
def staging(store: Store) -> Iterator[DuckDBPyConnection]:
    """Open an empty staging database in the store; it is deleted when the block ends.

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
            # Tables that are read once or twice are not worth compressing, nor a checkpoint every 16 MB.
            connection.execute("SET force_compression = 'uncompressed'; SET wal_autocheckpoint = '256MB'")
            connection.execute("SET enable_progress_bar = false")  # DuckDB would draw one on standard output
            connection.execute(sql("load/macros"))
            connection.execute(sql("load/staging"))
            try:
                yield connection
            except (duckdb.IOException, duckdb.OutOfMemoryException, OSError) as error:
                reason = str(error).splitlines()[0]
                hint = f"Check the free space in {store.root}: a load needs up to three times the file's size."
                raise StoreError(
                    f"The dataset cannot be stored: {reason}.", hint=hint, code=ErrorCode.STORE_FAILED
                ) from error


def write_tables(connection: DuckDBPyConnection, models: list[Model], folder: Path) -> None:
    """Write the five Parquet files of a dataset.

    Args:
        connection: The staging database.
        models: The models that answer.
        folder: Where to write.
    """
    connection.execute(
        "CREATE TABLE staged_models (model_id USMALLINT, model_key VARCHAR, name VARCHAR, version VARCHAR)"
    )
    for model in models:
        line = [model.id, model.key, model.name, model.version]
        connection.execute("INSERT INTO staged_models VALUES (?, ?, ?, ?)", line)
    connection.execute(sql("load/row_cases"))
    queries = {table: sql(f"load/write_{table}") for table in DATASET_TABLES}
    queries["digests"] = queries["digests"].format(cases=literal(folder / "cases.parquet"))
    for table in DATASET_TABLES:
        connection.execute(
            f"COPY ({queries[table]}) TO {literal(folder / f'{table}.parquet')} "
            f"(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {ROW_GROUP})"
        )
