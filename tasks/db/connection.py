"""Connections to DuckDB: the run's database, and the views over its dataset."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from leadline.evaluators.core.error_codes import ErrorCode
from leadline.evaluators.core.errors import StoreError, UsageError
from leadline.tasks.db.statements import sql

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from leadline.tasks.store.store import Run, Store

DATASET_TABLES: Final = ("models", "cases", "relationships", "rows", "digests")


def literal(path: Path) -> str:
    """Return a path as an SQL string literal."""
    return "'" + str(path).replace("'", "''") + "'"


def connect(database: Path | None = None, *, read_only: bool = False, threads: int | None = None) -> DuckDBPyConnection:
    """Open a database, in memory without a path, as a program does: with no progress bar on standard output.

    Args:
        database: The file; ``None`` for one in memory.
        read_only: Open for reading.
        threads: Threads at most.
    """
    import duckdb

    config: dict[str, str | bool | int | float | list[str]] = {} if threads is None else {"threads": threads}
    connection = duckdb.connect(str(database or ":memory:"), read_only=read_only, config=config)
    connection.execute("SET enable_progress_bar = false")
    return connection


def attach_dataset(connection: DuckDBPyConnection, dataset: Path) -> None:
    """Show a loaded dataset's Parquet files as the views of ``dataset.sql``.

    Args:
        connection: Gets the views.
        dataset: Folder of the loaded dataset.
    """
    for table in DATASET_TABLES:
        connection.execute(
            f"CREATE OR REPLACE TEMP VIEW {table} AS "
            f"SELECT * FROM read_parquet({literal(dataset / f'{table}.parquet')})"
        )


@contextmanager
def open_run(store: Store, run: Run, *, create: bool = False, read_only: bool = False) -> Iterator[DuckDBPyConnection]:
    """Open a run's database with its dataset's views; only one process at a time may do so for writing.

    Args:
        store: The store that contains the run and its dataset.
        run: The run; its record names the dataset.
        create: Make the tables of ``run.sql``.
        read_only: Open for reading.

    Raises:
        UsageError: The run has no results yet, or another version of Leadline made it.
        StoreError: Another process uses the database.
    """
    import duckdb

    dataset = run.read_current()["dataset"]
    if not create:
        store.fetch_database(run)
    if not create and not run.database.exists():
        raise UsageError(
            f"Run {run.id!r} has no results yet.", hint="Look at: leadline runs", code=ErrorCode.STORE_NO_RESULTS
        )
    try:
        connection = connect(run.database, read_only=read_only)
    except duckdb.IOException as error:
        raise StoreError(
            f"The database of run {run.id!r} is in use by another process: {str(error).splitlines()[0]}",
            hint="Try again when that process has ended.",
            code=ErrorCode.STORE_IN_USE,
        ) from error
    try:
        if create:
            connection.execute(sql("run"))
        store.has_dataset(dataset)
        attach_dataset(connection, store.dataset(dataset))
        yield connection
    finally:
        connection.close()
