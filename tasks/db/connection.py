"""DuckDB: connections to the run's database, its SQL statements, and helpers of the steps over it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from leadline.evaluators.data import RowField
from leadline.evaluators.ground import ErrorCode, StoreError, UsageError
from leadline.tasks.db.run_tables import run_definitions
from leadline.tasks.ground.files import replacing
from leadline.tasks.store.store import DROPPED, Run, Store

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_STATEMENT: Final = re.compile(r"^-- statement: (\w+)\n", re.MULTILINE)
"""Statements are in files beside the modules that run them, cut at lines ``-- statement: <name>``."""
_ROOMS: Final = ("tasks", "flows", "plugins")


@cache
def sql(name: str) -> str:
    """Return SQL: ``"publish/models"`` is a statement of ``publish.sql``, ``"dataset"`` is all of ``dataset.sql``."""
    topic, _, statement = name.partition("/")
    return _statements(topic)[statement] if statement else _read(topic)


@cache
def _statements(topic: str) -> Mapping[str, str]:
    parts = _STATEMENT.split(_read(topic))
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def _read(topic: str) -> str:
    found = (files_of(room) for room in _ROOMS)
    return next(files[topic] for files in found if topic in files).read_text(encoding="utf-8")


@cache
def files_of(room: str) -> Mapping[str, Path]:
    """Return the files of SQL of a room by their topics; no two rooms or folders have one of the same."""
    return {path.stem: path for path in (Path(__file__).parents[2] / room).rglob("*.sql")}


DATASET_TABLES: Final = ("models", "cases", "relationships", "rows", "digests")

TURNS: Final = "turns"
"""The table of conversations and their turns, which only datasets that have some have; see ``dataset.sql``."""
TURNS_FILE: Final = f"{TURNS}.parquet"

SEARCHED_FILE: Final = "searched.parquet"
"""The texts of a large dataset in small letters, see ``load/searched``."""

FEW_ROWS: Final = 5_000
"""Rows of a dataset up to which one thread is faster: the others would mostly wait for each other."""

_FEW_BYTES: Final = 8 << 20
"""Size of a dataset's files up to which a run that is kept open holds it in memory."""

_kept: Final[dict[Path, DuckDBPyConnection | None]] = {}
"""Databases that stay open between steps, each with its connection once there is one."""

MEGABYTE: Final = 2**20

_MOST_MEGABYTES: Final = 1_536
"""Memory that the database of a run may take before it goes to disk, beside itself in the store, however large the
machine is: NumPy, Python and the report have the rest of the 2 GiB that a run of 10,000,000 rows keeps to."""

_MOST_IN_MEMORY: Final = 1_024
"""The same for a database that compares two runs: the values of a metric and the families of cases lie beside it."""

_MOST_SHARE: Final = 0.25
"""Share of a small machine's memory that it may take, 80 % by default: processes that score, models and other runs are
on the machine too."""

_OF_CONTAINER: Final = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Files that tell how much memory a container may use, of both versions of Linux' control groups."""

_LEAST_SIZE: Final = 4 << 20
"""Bytes of a file below which rewriting saves too little."""

_LEAST_FREE: Final = 0.2
"""Share of blocks that must be free."""


def megabytes_here() -> int:
    """Return the memory of this machine, or of the container, in megabytes; 8,000 where neither says."""
    sizes = []
    with suppress(AttributeError, ValueError, OSError):
        sizes.append(int(os.sysconf("SC_PAGE_SIZE")) * int(os.sysconf("SC_PHYS_PAGES")))
    for limit in _OF_CONTAINER:
        with suppress(ValueError, OSError):  # "max" is no limit
            sizes.append(int(limit.read_bytes()))
    return min(sizes, default=8_000 * MEGABYTE) // MEGABYTE


def literal(path: Path) -> str:
    """Return a path as an SQL string literal."""
    return "'" + str(path).replace("'", "''") + "'"


def connect(
    database: Path | None = None,
    *,
    read_only: bool = False,
    threads: int | None = None,
    block_size: int | None = None,
    spill: Path | None = None,
) -> DuckDBPyConnection:
    """Open a database, in memory without a path, as a program does: with no progress bar on standard output.

    Args:
        block_size: Bytes of a block of a new file; each of its tables takes a block or more.
        spill: Folder to which one in memory goes beyond 1 GiB, or a quarter of the machine; without, it takes what it
            needs.
    """
    import duckdb

    config: dict[str, str | bool | int | float | list[str]] = {} if threads is None else {"threads": threads}
    if spill is not None:
        config["temp_directory"] = str(spill)
    if database is not None or spill is not None:
        most = _MOST_MEGABYTES if spill is None else _MOST_IN_MEMORY
        config["memory_limit"] = f"{min(most, int(_MOST_SHARE * megabytes_here()))}MiB"
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


def attach_dataset(connection: DuckDBPyConnection, dataset: Path, *, held: bool = False) -> None:
    """Show a loaded dataset's Parquet files as the views of ``dataset.sql``.

    ``rows`` are what is counted: answers, and conversations as a whole. ``all_rows`` are what is scored, with
    ``all_digests``: the turns of conversations too, each with its own question; ``unit`` says which are which.

    Args:
        held: Read them into memory, for many statements: each that reads a view opens the files again.
    """
    kind = "TABLE" if held else "VIEW"
    connection.execute(
        ";".join(
            f"CREATE OR REPLACE TEMP {kind} {table} AS FROM read_parquet({literal(dataset / f'{table}.parquet')})"
            for table in DATASET_TABLES
        )
    )
    turns = dataset / TURNS_FILE
    trials = sql("turns/trials").format(turns="turns", cases="cases")
    views = sql("turns/views").format(turns=literal(turns), trials=trials)
    if not turns.exists():
        views = sql("turns/without_turns")
    connection.execute(views)


def has_turns(connection: DuckDBPyConnection) -> bool:
    """Return whether the dataset that is attached has conversations."""
    return bool(connection.execute("SELECT EXISTS (FROM turns)").fetchall()[0][0])


@contextmanager
def kept_open(run: Run) -> Iterator[None]:
    """Let the steps in the block share a connection to the database of a small run: each one's own takes 10 to 30 ms.

    In a large run the temporary tables of a step would take the memory of the next ones.
    """
    if run.read_current().get("rows", 0) > FEW_ROWS:
        yield
        return
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
    """Return the size of the blocks of a run's database, small for a small run: most of its tables have few lines."""
    return 1 << 14 if record.get("rows", FEW_ROWS + 1) <= FEW_ROWS else 1 << 16


def threads_for(record: Mapping[str, Any]) -> int | None:
    """Return the number of threads for a run's database, ``None`` for one per core."""
    return 1 if record.get("rows", FEW_ROWS + 1) <= FEW_ROWS else None


@contextmanager
def open_run(store: Store, run: Run, *, create: bool = False, read_only: bool = False) -> Iterator[DuckDBPyConnection]:
    """Open a run's database with its dataset's views; only one process at a time may do so for writing.

    Args:
        run: The run; its record names the dataset.
        create: Make its tables.

    Raises:
        UsageError: The run has no results yet, its dataset is gone, or another version of Leadline made it.
        StoreError: Another process uses the database.
    """
    record = run.read_current()
    if not create:
        store.fetch_database(run)
    if not create and (record.get(DROPPED) or not run.database.exists()):
        raise run.without_results()
    held = _kept.get(run.database)
    if held is not None:
        yield held
        return
    connection = _connected(store, run, record, create=create, read_only=read_only and run.database not in _kept)
    if run.database in _kept:
        _kept[run.database] = connection
        yield connection
        return
    with connection:
        yield connection


def _connected(
    store: Store, run: Run, record: Mapping[str, Any], *, create: bool, read_only: bool
) -> DuckDBPyConnection:
    """Return a new connection to a run's database, with its dataset's views."""
    import duckdb

    size = block_size_for(record) if create else None
    try:
        connection = connect(run.database, read_only=read_only, threads=threads_for(record), block_size=size)
    except duckdb.IOException as error:
        raise StoreError(
            f"The database of run {run.id!r} is in use by another process: {str(error).splitlines()[0]}",
            hint="Try again when that process has ended.",
            code=ErrorCode.STORE_IN_USE,
        ) from error
    try:
        if create:
            connection.execute(f"BEGIN; {run_definitions()} COMMIT")
        dataset = record["dataset"]
        if not store.has_dataset(dataset):
            raise UsageError(
                f"The dataset {dataset} of run {run.id!r} is no longer in the store.", code=ErrorCode.STORE_NO_DATASET
            )
        folder = store.dataset(dataset)
        held = run.database in _kept and sum(file.stat().st_size for file in folder.iterdir()) <= _FEW_BYTES
        attach_dataset(connection, folder, held=held)
    except BaseException:
        connection.close()
        raise
    return connection


def compact(database: Path) -> bool:
    """Rewrite a database that nobody has open if much of its file is free, and return whether that was so."""
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


_MEASURED: Final = frozenset({RowField.DURATION_S, RowField.COST_USD, RowField.INPUT_TOKENS, RowField.OUTPUT_TOKENS})
_OF_OTHER_ROWS: Final = frozenset({RowField.ORIGINAL_ANSWER, RowField.RIVAL_ANSWERS})
OF_CONVERSATIONS: Final = frozenset(
    {
        *(RowField.MESSAGES, RowField.HISTORY, RowField.TOOL_CALLS, RowField.TOOLS, RowField.STEPS),
        *(RowField.EXPECTED_TOOL_CALLS, RowField.EXPECTED_OUTCOME, RowField.SCENARIO),
    }
)
"""The fields that only datasets of conversations hold, with their digests."""
STORED: Final = tuple(field for field in RowField if field not in _MEASURED | _OF_OTHER_ROWS | OF_CONVERSATIONS)
"""The fields whose digests every dataset holds."""


def show_row_scores(connection: DuckDBPyConnection) -> None:
    """Create the view ``row_scores(metric_id, row_id, status, reason, value)``: trials averaged within their row.

    With one trial per row, the usual case, it is the table ``scores`` itself and costs nothing.
    """
    (trials,) = connection.execute("SELECT coalesce(max(trial), 0) FROM scores").fetchall()[0]
    if trials:
        connection.execute(sql("row_scores/row_means"))
    source = "row_means" if trials else "scores"
    connection.execute(
        f"CREATE OR REPLACE TEMP VIEW row_scores AS SELECT metric_id, row_id, status, reason, value FROM {source}"
    )


def show_targets(connection: DuckDBPyConnection) -> None:
    """Create ``row_scores`` and the table ``targets``: how each metric's values compare with its threshold."""
    show_row_scores(connection)
    connection.execute(sql("row_scores/targets"))


def show_turn_means(connection: DuckDBPyConnection) -> None:
    """Create the table ``targets``, and the view ``turn_means``: the values of turns and whether they fail."""
    connection.execute(sql("row_scores/targets"))
    connection.execute(sql("row_scores/turn_means"))


def records(connection: DuckDBPyConnection, statement: str, params: object = None) -> list[dict[str, Any]]:
    """Run a query and return its lines by column name."""
    cursor = connection.execute(statement, params) if params is not None else connection.execute(statement)
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, line, strict=True)) for line in cursor.fetchall()]


def replace_lines(connection: DuckDBPyConnection, table: str, lines: Iterable[Mapping[str, Any]]) -> int:
    """Replace all lines of a table in one transaction, and return their number."""
    found = list(lines)
    connection.execute("BEGIN")
    try:
        connection.execute(f"DELETE FROM {table}")
        if found:
            columns = {name: [line[name] for line in found] for name in found[0]}
            connection.execute(f"INSERT INTO {table} BY NAME {_selected(columns)}", list(columns.values()))
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    return len(found)


@contextmanager
def lines_shown(connection: DuckDBPyConnection, table: str, columns: Mapping[str, Sequence[object]]) -> Iterator[None]:
    """Show columns of plain values, at least one of each, as a temporary table within the block.

    They go as parameters and not as Arrow's tables, because Arrow imports pandas for its first array: 0.2 s of a
    command. Arrays of numbers are registered as they are, which costs nothing at all.
    """
    connection.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS {_selected(columns)}", list(columns.values()))
    try:
        yield
    finally:
        connection.execute(f"DROP TABLE {table}")


def _selected(columns: Mapping[str, Sequence[object]]) -> str:
    return f"SELECT {', '.join(f'unnest(${place}) AS {name}' for place, name in enumerate(columns, start=1))}"


def digests_of(fields: Iterable[RowField], *, turns: bool = False) -> str:
    """Return what to select from for the digests of some fields, one column for each; NULL where a field is absent.

    A dataset has the digests of its texts in a table. Numbers are digested when they are asked for, and whether a case
    is a copy of another, and which other models answered it, is looked up only then.

    Args:
        turns: Those of the turns of conversations too.
    """
    wanted = frozenset(fields)
    joined = ["all_digests" if turns else "digests"]
    if wanted & OF_CONVERSATIONS:
        joined.append("LEFT JOIN turn_digests USING (row_id)")
    if wanted & _MEASURED:
        joined.append(f"JOIN ({sql('field_digests/measured_digests')}) AS measured USING (row_id)")
    if RowField.ORIGINAL_ANSWER in wanted:
        joined.append(f"LEFT JOIN ({original_digests()}) AS copies USING (row_id)")
    if RowField.RIVAL_ANSWERS in wanted:
        joined.append(f"LEFT JOIN ({sql('field_digests/rival_digests')}) AS rivals USING (row_id)")
    return " ".join(joined)


def original_digests() -> str:
    """Return the query of the digest of the original's answer, by ``row_id`` of the copy."""
    return sql("field_digests/original_digests").format(originals=sql("field_digests/originals"))
