"""SQL over all runs together, for reading only, within limits of time and memory.

What a query may read is known by its words before anything is opened. Then the tables that it needs are copied from the
small databases of runs, which costs less than to keep them open; large ones are attached for reading; and the datasets'
Parquet files are shown beside them. The statement of the user can change nothing and reach nothing else: it must be a
query, and it has no access to files (but those Parquet files), to the network or to settings.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import duckdb

from leadline.evaluators.ground import ErrorCode, UsageError, dump_plain
from leadline.tasks.db import DATASET_TABLES, MEGABYTE, TURNS, connect, definition, literal, run_definitions, sql
from leadline.tasks.runs.run_facts import RunSummary, summary
from leadline.tasks.store.store import DROPPED, Run, Store

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection


RUN_TABLES: Final = (
    "evaluators",
    "metrics",
    "scores",
    "evidence",
    "turn_scores",
    "turn_evidence",
    "aggregates",
    "corrections",
    "certificates",
    "trial_spread",
    "stopping",
    "repeats",
    "slices",
    "slice_rows",
    "flips",
    "flip_rates",
    "flip_causes",
    "baseline",
    "model_changes",
    "metric_changes",
    "row_changes",
    "problems",
    "insights",
)
SPARE_FILES: Final = 100
LARGE: Final = 2 * 2**20
"""Bytes of a run's database from which on it is attached. One that is attached takes most of a megabyte of memory."""
COPIED_TOGETHER: Final = 50
"""Small databases that are open at the same time."""
LONGEST_TEXT: Final = 20_000
LONGEST_LIST: Final = 1_000
"""Characters of a text and values of a list on a page of a result."""

_VIEW: Final = re.compile(r"^CREATE VIEW (\w+) AS(.+?);$", re.MULTILINE | re.DOTALL)
_WORD: Final = re.compile(r"\w+")
_CHANGING_NODE: Final = re.compile(r'"type":"(?:INSERT|UPDATE|DELETE|MERGE|COPY)\w*_NODE"')
_CHANGES: Final = re.compile(
    r"\b(?:alter|attach|call|checkpoint|copy|create|delete|drop|export|import|insert|install|load|merge|pragma"
    r"|reset|set|truncate|update|use|vacuum)\b",
    re.IGNORECASE,
)


@dataclass
class Archive:
    """All runs of a store behind one connection.

    Attributes:
        connection: Has the views of ``query.sql`` and the table ``runs``.
        skipped: Runs and datasets that are missing, one line each.
    """

    connection: DuckDBPyConnection
    skipped: list[str] = field(default_factory=list)

    @contextmanager
    def query(self, statement: str) -> Iterator[DuckDBPyConnection]:
        """Run one query; its rows are fetched within the block from the connection that this yields.

        Raises:
            UsageError: It is not a single query, or it fails, also while its rows are fetched.
        """
        with _reporting(self.connection, statement):
            yield self.connection.execute(statement)

    def page(self, statement: str, limit: int, offset: int) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Run one query of which a person is shown a page; long texts and lists in it are cut before they are fetched.

        Args:
            limit: Rows of its result at most.

        Returns:
            The names of the columns, and the rows.
        """
        with _reporting(self.connection, statement):
            found = self.connection.sql(statement)
            columns = zip(found.columns, map(str, found.types), strict=True)
            shown = ", ".join(_cut(place, name, kind) for place, (name, kind) in enumerate(columns, start=1))
            return list(found.columns), found.limit(limit, offset).project(shown).fetchall()

    @contextmanager
    def arrow(self, statement: str, batch: int) -> Iterator[pa.RecordBatchReader]:
        """Run one query as :meth:`query` does; its rows come in Arrow batches."""
        with _reporting(self.connection, statement):
            yield self.connection.sql(statement).to_arrow_reader(batch)


def _cut(place: int, name: str, kind: str) -> str:
    """Return a column of a page in SQL, without most of what is too long to be read."""
    column = f"#{place}"
    if kind == "VARCHAR":
        more = f"left({column}, {LONGEST_TEXT}) || '… [' || (length({column}) - {LONGEST_TEXT}) || ' more characters]'"
        column = f"CASE WHEN length({column}) > {LONGEST_TEXT} THEN {more} ELSE {column} END"
    elif kind.endswith("[]"):
        column = f"list_slice({column}, 1, {LONGEST_LIST})"
    quoted = name.replace('"', '""')
    return f'{column} AS "{quoted}"'


@contextmanager
def _reporting(connection: DuckDBPyConnection, statement: str) -> Iterator[None]:
    _refuse_changes(connection, statement)
    try:
        yield
    except duckdb.Error as error:
        raise UsageError(f"The query failed: {_one_line(error)}", code=ErrorCode.QUERY_FAILED) from error
    except RuntimeError as error:
        if "interrupted" in str(error):  # what DuckDB makes of Ctrl-C
            raise KeyboardInterrupt from None
        raise


@contextmanager
def archive(
    store: Store, runs: Sequence[Run] | None = None, *, statement: str = "", memory_limit: str = ""
) -> Iterator[Archive]:
    """Open runs together for reading.

    Args:
        runs: Only these; by default all.
        statement: The query that is to be run, so that nothing is opened for views that it does not name: they are
            empty. By default any may be run.
        memory_limit: Memory that queries may take, such as ``2GB``; by default what DuckDB takes.

    Raises:
        UsageError: There are more large runs than files that may be open.
    """
    chosen = store.runs() if runs is None else list(runs)
    needed = _tables_for(statement)
    with connect() as connection:
        if memory_limit:
            connection.execute("SET memory_limit = ?", [memory_limit])
        connection.execute(f"SET temp_directory = {literal(store.root / 'tmp')}")
        opened = Archive(connection)
        summaries = {run.id: summary(run) for run in chosen}
        _show_runs(connection, list(summaries.values()))
        kept = [run for run in chosen if summaries[run.id]["status"] != DROPPED]
        _show_run_tables(opened, store, kept, needed.intersection(RUN_TABLES))
        datasets = {run.id: digest for run in kept if (digest := summaries[run.id]["dataset"])}
        files = _show_datasets(opened, store, datasets, needed.intersection((*DATASET_TABLES, TURNS)))
        connection.execute(sql("query/views"))
        _lock(connection, files)
        yield opened


def _tables_for(statement: str) -> set[str]:
    """Return the tables that a query may read: by its words, and by those of the views that it names."""
    views = dict(_VIEW.findall(sql("query/views")))
    words = set(_WORD.findall(statement.lower()))
    if not statement or words & {"query", "query_table"}:  # functions that take the name of a table as a text
        words = {*views, *DATASET_TABLES, TURNS}
    new = words
    while new:
        new = {word for name in new & views.keys() for word in _WORD.findall(views[name])} - words
        words |= new
    return words


def _show_runs(connection: DuckDBPyConnection, summaries: Sequence[dict[str, Any]]) -> None:
    connection.execute(definition(RunSummary))
    if summaries:
        lines = [known | {"record": dump_plain(known["record"]).decode()} for known in summaries]
        columns = [[line[name] for line in lines] for name in lines[0]]
        connection.execute(f"INSERT INTO runs SELECT {', '.join('unnest(?)' for _ in columns)}", columns)


def _show_run_tables(opened: Archive, store: Store, runs: Sequence[Run], needed: Collection[str]) -> None:
    """Make the views ``stored.<table>`` over the needed tables of all runs; ``layout`` gives them their columns."""
    connection = opened.connection
    connection.execute("ATTACH ':memory:' AS layout; USE layout")
    connection.execute(run_definitions() + sql("dataset"))
    connection.execute("USE memory; CREATE SCHEMA stored; CREATE SCHEMA copied")
    for table in RUN_TABLES:
        connection.execute(
            f"CREATE TABLE copied.{table} AS SELECT NULL::VARCHAR AS run, {_columns(table)} FROM layout.{table}"
        )
    present = [run for run in runs if _is_present(store, run)] if needed else []
    large = [run for run in present if run.database.stat().st_size >= LARGE]
    _copy(opened, [run for run in present if run not in large], needed)
    _allow_files(len(large))
    parts = _parts(connection, _attach(opened, large))
    for table in RUN_TABLES:
        every = [f"FROM copied.{table}", *(parts(table) if table in needed else ())]
        connection.execute(f"CREATE VIEW stored.{table} AS {' UNION ALL BY NAME '.join(every)}")


def _is_present(store: Store, run: Run) -> bool:
    store.fetch_database(run)
    return run.database.exists()


def _copy(opened: Archive, runs: Sequence[Run], needed: Collection[str]) -> None:
    """Copy the needed tables of small runs, a few runs at a time."""
    connection = opened.connection
    connection.execute("SET threads = 1")  # tables of a few lines: the other threads would wait for each other
    for start in range(0, len(runs), COPIED_TOGETHER):
        databases = _attach(opened, runs[start : start + COPIED_TOGETHER])
        parts = _parts(connection, databases)
        for table in needed:
            if found := parts(table):
                connection.execute(f"INSERT INTO copied.{table} BY NAME {' UNION ALL BY NAME '.join(found)}")
        for database in databases.values():
            connection.execute(f"DETACH {database}")
    connection.execute("RESET threads")


def _parts(connection: DuckDBPyConnection, databases: Mapping[str, str]) -> Callable[[str], list[str]]:
    """Return what gives the SELECTs of a table, one for each attached database that has it."""
    existing = set(connection.execute("SELECT database_name, table_name FROM duckdb_tables()").fetchall())
    return lambda table: [
        f"SELECT {_text(run)} AS run, {_columns(table)} FROM {database}.{table}"
        for run, database in databases.items()
        if (database, table) in existing
    ]


def _columns(table: str) -> str:
    return "* REPLACE (status::VARCHAR AS status)" if table in ("scores", "turn_scores") else "*"


def _attach(opened: Archive, runs: Sequence[Run]) -> dict[str, str]:
    """Attach the runs' databases; returns the catalog of each run."""
    catalogs: dict[str, str] = {}
    for number, run in enumerate(runs):
        try:
            run.read_current()
            opened.connection.execute(f"ATTACH {literal(run.database)} AS run_{number} (READ_ONLY)")
        except UsageError as error:
            opened.skipped.append(str(error))
        except duckdb.Error as error:
            opened.skipped.append(f"run {run.id}: {_one_line(error)}")
        else:
            catalogs[run.id] = f"run_{number}"
    return catalogs


def _show_datasets(opened: Archive, store: Store, datasets: Mapping[str, str], needed: Collection[str]) -> list[Path]:
    """Make the views ``stored.<table>`` over the runs' datasets, by digest; returns the files that they read."""
    datasets = datasets if needed else {}
    connection = opened.connection
    folders = {digest: store.dataset(digest) for digest in sorted(set(datasets.values()))}
    present = [digest for digest in folders if store.has_dataset(digest)]
    opened.skipped += [
        f"run {run}: its dataset {digest} is no longer in the store"
        for run, digest in datasets.items()
        if digest not in present
    ]
    connection.execute("CREATE TABLE stored.datasets (run VARCHAR, dataset VARCHAR)")
    if datasets:
        connection.executemany("INSERT INTO stored.datasets VALUES (?, ?)", [list(pair) for pair in datasets.items()])
    files: list[Path] = []
    for table in (*DATASET_TABLES, TURNS):
        parts = [f"SELECT NULL::VARCHAR AS run, * FROM layout.{table}"]
        found = [folders[digest] / f"{table}.parquet" for digest in present if table in needed]
        found = [file for file in found if table != TURNS or file.exists()]
        if found:
            parts.append(
                f"SELECT d.run, p.* EXCLUDE (filename) FROM read_parquet([{', '.join(map(literal, found))}], "
                "filename = true, union_by_name = true) AS p "
                "JOIN stored.datasets AS d ON d.dataset = parse_path(p.filename)[-2]"
            )
        connection.execute(f"CREATE VIEW stored.{table} AS {' UNION ALL BY NAME '.join(parts)}")
        files += found
    return files


def _lock(connection: DuckDBPyConnection, files: Sequence[Path]) -> None:
    """Disable file, network and setting access on this connection, irreversibly."""
    connection.execute("SET python_enable_replacements = false")
    connection.execute("SET autoinstall_known_extensions = false; SET autoload_known_extensions = false")
    connection.execute(f"SET allowed_paths = [{', '.join(map(literal, files))}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _refuse_changes(connection: DuckDBPyConnection, statement: str) -> None:
    """Accept exactly one read-only statement.

    A PIVOT counts as several statements and EXPLAIN ANALYZE runs what it explains, so those two may not even mention
    a word that changes something.
    """
    try:
        statements = connection.extract_statements(statement)
    except duckdb.Error as error:
        raise UsageError(f"The query cannot be read: {_one_line(error)}", code=ErrorCode.QUERY_FAILED) from error
    if len(statements) != 1:
        raise UsageError(f"One query is expected, not {len(statements)} statements.", code=ErrorCode.QUERY_NOT_ALLOWED)
    kind = statements[0].type
    if kind == duckdb.StatementType.SELECT and not _changes_within(connection, statement):
        return
    compound = kind in (duckdb.StatementType.MULTI, duckdb.StatementType.EXPLAIN)
    if not compound or _CHANGES.search(statement):
        raise UsageError(
            "Only queries are allowed here: nothing can be changed.",
            hint="Begin with SELECT or FROM.",
            code=ErrorCode.QUERY_NOT_ALLOWED,
        )


def _changes_within(connection: DuckDBPyConnection, statement: str) -> bool:
    """Return whether a SELECT changes something all the same: ``WITH x AS (DELETE … RETURNING *) SELECT …``."""
    [(tree,)] = connection.execute("SELECT json_serialize_sql(?)", [statement]).fetchall()
    return _CHANGING_NODE.search(str(tree)) is not None


def _allow_files(count: int) -> None:
    """Raise the limit of open files where that is allowed; a database is one."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + SPARE_FILES
    if soft == resource.RLIM_INFINITY or wanted <= soft:
        return
    if hard != resource.RLIM_INFINITY and wanted > hard:
        raise UsageError(
            f"The query needs {count} large runs, more than this process may open ({hard - SPARE_FILES}).",
            hint="Choose some of them with --last or --run.",
            code=ErrorCode.QUERY_TOO_MANY_RUNS,
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _one_line(error: Exception) -> str:
    """Return DuckDB's message in one line."""
    return " ".join(str(error).split("LINE 1:")[0].split())[:500]


@contextmanager
def memory_limit(megabytes: int) -> Iterator[None]:
    """Bound the memory that this process may take, where the platform can.

    DuckDB's own limit covers neither the values of a result nor what Python makes of them.

    Args:
        megabytes: How much more than now.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(ImportError, OSError, ValueError):  # no Linux, or a lower limit already
            import resource

            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
            had, most = resource.getrlimit(resource.RLIMIT_AS)
            wanted = pages * resource.getpagesize() + megabytes * MEGABYTE
            resource.setrlimit(resource.RLIMIT_AS, (wanted, most))
            stack.callback(resource.setrlimit, resource.RLIMIT_AS, (had, most))
        yield


@contextmanager
def limited(connection: DuckDBPyConnection, *, seconds: float, memory: str) -> Iterator[None]:
    """End a query when its time is over, and say where it was that or its memory.

    Args:
        seconds: Its time.

    Raises:
        UsageError: It took longer, or more.
    """
    over = threading.Event()

    def end() -> None:
        over.set()
        connection.interrupt()

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    except MemoryError:
        raise too_large(memory) from None
    except (UsageError, KeyboardInterrupt) as error:  # what an interrupted query ends with
        if over.is_set():
            raise too_long(seconds) from error
        if "Out of Memory" in str(error) or "bad allocation" in str(error) or "allocat" in str(error):
            raise too_large(memory) from error
        raise
    finally:
        timer.cancel()


def too_long(seconds: float) -> UsageError:
    """Return the error of a query that took too long."""
    return UsageError(
        f"The query took more than {seconds:g} s.",
        hint="Ask for less: fewer runs, a WHERE, a LIMIT.",
        code=ErrorCode.QUERY_FAILED,
    )


def too_large(memory: str) -> UsageError:
    """Return the error of a query that took too much memory."""
    return UsageError(
        f"The query needs more than {memory} of memory.",
        hint="Ask for less: fewer runs, fewer columns, a WHERE, a LIMIT.",
        code=ErrorCode.QUERY_FAILED,
    )
