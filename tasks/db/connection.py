"""Connections to DuckDB: the run's database, compacted at its end, and the views over its dataset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from leadline.evaluators.ground import ErrorCode, StoreError
from leadline.tasks.db.run_tables import run_definitions
from leadline.tasks.ground.files import replacing
from leadline.tasks.store.store import DROPPED, Run, Store

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


DATASET_TABLES: Final = ("models", "cases", "relationships", "rows", "digests")

FEW_ROWS: Final = 5_000
"""Rows of a dataset up to which one thread is faster: the others would mostly wait for each other."""

_kept: Final[dict[Path, DuckDBPyConnection | None]] = {}
"""Databases that stay open between steps, each with a connection once it is open."""

_LEAST_SIZE: Final = 4 << 20
"""Bytes of a file below which rewriting saves too little."""

_LEAST_FREE: Final = 0.2
"""Share of blocks that must be free."""


def literal(path: Path) -> str:
    """Return a path as an SQL string literal."""
    return "'" + str(path).replace("'", "''") + "'"


def connect(
    database: Path | None = None, *, read_only: bool = False, threads: int | None = None, block_size: int | None = None
) -> DuckDBPyConnection:
    """Open a database, in memory without a path, as a program does: with no progress bar on standard output.

    Args:
        database: The file; ``None`` for one in memory.
        read_only: Open for reading.
        threads: Threads at most.
        block_size: Bytes of a block of a new file; each of its tables takes a block or more.
    """
    import duckdb

    config: dict[str, str | bool | int | float | list[str]] = {} if threads is None else {"threads": threads}
    if block_size is not None:
        config["default_block_size"] = str(block_size)
    connection = duckdb.connect(str(database or ":memory:"), read_only=read_only, config=config)
    without_progress_bar(connection)
    return connection


def without_progress_bar(connection: DuckDBPyConnection) -> None:
    """Keep DuckDB from drawing a progress bar on standard output, or in a notebook."""
    import duckdb

    with suppress(duckdb.InvalidInputException):  # a notebook without ipywidgets has none, and takes no setting of it
        connection.execute("SET enable_progress_bar = false")


def attach_dataset(connection: DuckDBPyConnection, dataset: Path) -> None:
    """Show a loaded dataset's Parquet files as the views of ``dataset.sql``.

    Args:
        connection: Gets the views.
        dataset: Folder of the loaded dataset.
    """
    connection.execute(
        ";".join(
            f"CREATE OR REPLACE TEMP VIEW {table} AS FROM read_parquet({literal(dataset / f'{table}.parquet')})"
            for table in DATASET_TABLES
        )
    )


@contextmanager
def kept_open(run: Run) -> Iterator[None]:
    """Keep a run's database open between the steps in the block, since opening and closing takes 10 to 30 ms each."""
    _kept[run.database] = None
    try:
        yield
    finally:
        release(run)
        del _kept[run.database]


def release(run: Run) -> None:
    """Close a run's database if it is kept open: its file is complete then, and another database can attach it."""
    held = _kept.get(run.database)
    if held is not None:
        _kept[run.database] = None
        held.close()


def block_size_for(record: Mapping[str, Any]) -> int:
    """Return the size of the blocks of a run's database, small for a small run: most of its tables have few lines.

    Args:
        record: The run's record.
    """
    return 1 << 14 if record.get("rows", FEW_ROWS + 1) <= FEW_ROWS else 1 << 16


def threads_for(record: Mapping[str, Any]) -> int | None:
    """Return the number of threads for a run's database, ``None`` for one per core.

    Args:
        record: The run's record.
    """
    return 1 if record.get("rows", FEW_ROWS + 1) <= FEW_ROWS else None


@contextmanager
def open_run(store: Store, run: Run, *, create: bool = False, read_only: bool = False) -> Iterator[DuckDBPyConnection]:
    """Open a run's database with its dataset's views; only one process at a time may do so for writing.

    Args:
        store: The store that contains the run and its dataset.
        run: The run; its record names the dataset.
        create: Make its tables.
        read_only: Open for reading.

    Raises:
        UsageError: The run has no results yet, or another version of Leadline made it.
        StoreError: Another process uses the database.
    """
    import duckdb

    record = run.read_current()
    dataset = record["dataset"]
    kept = run.database in _kept
    if not create:
        store.fetch_database(run)
    if not create and (record.get(DROPPED) or not run.database.exists()):
        raise run.without_results()
    try:
        size = block_size_for(record) if create else None
        connection = connect(
            run.database, read_only=read_only and not kept, threads=threads_for(record), block_size=size
        )
    except duckdb.IOException as error:
        raise StoreError(
            f"The database of run {run.id!r} is in use by another process: {str(error).splitlines()[0]}",
            hint="Try again when that process has ended.",
            code=ErrorCode.STORE_IN_USE,
        ) from error
    if kept and _kept[run.database] is None:  # a second connection: closing the first closes its cursors too
        _kept[run.database] = connect(run.database, threads=threads_for(record))
    try:
        if create:
            connection.execute(f"BEGIN; {run_definitions()} COMMIT")
        store.has_dataset(dataset)
        attach_dataset(connection, store.dataset(dataset))
        yield connection
    finally:
        connection.close()


def compact(database: Path) -> bool:
    """Rewrite a database that nobody has open if much of its file is free, and return whether that was so.

    Args:
        database: The file.
    """
    if database.stat().st_size < _LEAST_SIZE:
        return False
    with connect() as connection:
        connection.execute(f"ATTACH {literal(database)} AS old (READ_ONLY)")
        ((size, free, total),) = connection.execute(
            "SELECT block_size, free_blocks, total_blocks FROM pragma_database_size() WHERE database_name = 'old'"
        ).fetchall()
        if free < _LEAST_FREE * total:
            return False
        with replacing(database) as draft:
            connection.execute(f"ATTACH {literal(draft)} AS new (BLOCK_SIZE {size})")
            connection.execute("COPY FROM DATABASE old TO new")
            connection.execute("DETACH new")
    return True
