"""SQL over all runs together, for reading only.

Each run's database is attached for reading, and the datasets' Parquet files are shown beside them. The statement of
the user can change nothing and reach nothing else: it must be a query, and it has no access to files (but
those Parquet files), to the network or to settings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from leadline.evaluators.core.error_codes import ErrorCode
from leadline.evaluators.core.errors import UsageError
from leadline.tasks.db.connection import DATASET_TABLES, connect, literal
from leadline.tasks.db.statements import sql
from leadline.tasks.runs.lookup import summary
from leadline.tasks.store.store import DROPPED, Run, Store

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

RUN_TABLES: Final = (
    "evaluators",
    "metrics",
    "scores",
    "evidence",
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
LONGEST_TEXT: Final = 20_000
LONGEST_LIST: Final = 1_000
"""Characters of a text and values of a list on a page of a result."""

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
            statement: The query.
            limit: Rows of its result at most.
            offset: Rows before them.

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
        """Run one query as :meth:`query` does; its rows come in Arrow batches.

        Args:
            statement: The query.
            batch: Rows in a batch.
        """
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
    import duckdb

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
def archive(store: Store, runs: Sequence[Run] | None = None, *, memory_limit: str = "") -> Iterator[Archive]:
    """Open runs together for reading.

    Args:
        store: The store.
        runs: Only these; by default all.
        memory_limit: Memory that queries may take, such as ``2GB``; by default what DuckDB takes.

    Raises:
        UsageError: There are more runs than files that may be open.
    """
    chosen = store.runs() if runs is None else list(runs)
    _allow_files(len(chosen))
    with connect() as connection:
        if memory_limit:
            connection.execute("SET memory_limit = ?", [memory_limit])
        opened = Archive(connection)
        summaries = {run.id: summary(run) for run in chosen}
        _show_runs(connection, list(summaries.values()))
        databases = _attach(opened, store, chosen)
        _show_run_tables(connection, databases)
        files = _show_datasets(
            opened,
            store,
            {
                run: known["dataset"]
                for run, known in summaries.items()
                if known["dataset"] and known["status"] != DROPPED
            },
        )
        connection.execute(sql("query/views"))
        _lock(connection, store, files)
        yield opened


def _show_runs(connection: DuckDBPyConnection, summaries: Sequence[dict[str, Any]]) -> None:
    connection.execute(sql("query/runs"))
    if summaries:
        columns = ", ".join("?" for _ in summaries[0])
        lines = [[*list(known.values())[:-1], json.dumps(known["record"])] for known in summaries]
        connection.executemany(f"INSERT INTO runs VALUES ({columns})", lines)


def _attach(opened: Archive, store: Store, runs: Sequence[Run]) -> dict[str, str]:
    """Attach the runs' databases; returns the catalog of each run that has one."""
    import duckdb

    catalogs: dict[str, str] = {}
    for number, run in enumerate(runs):
        if run.read().get(DROPPED):
            continue
        store.fetch_database(run)
        if not run.database.exists():
            continue
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


def _show_run_tables(connection: DuckDBPyConnection, databases: dict[str, str]) -> None:
    """Make the views ``stored.<table>`` over the tables of all runs; ``layout`` gives them their columns."""
    connection.execute("ATTACH ':memory:' AS layout; USE layout")
    connection.execute(sql("run") + sql("dataset"))
    connection.execute("USE memory; CREATE SCHEMA stored")
    existing = set(connection.execute("SELECT database_name, table_name FROM duckdb_tables()").fetchall())
    for table in RUN_TABLES:
        replace = "REPLACE (status::VARCHAR AS status)" if table == "scores" else ""
        parts = [f"SELECT NULL::VARCHAR AS run, * {replace} FROM layout.{table}"] + [
            f"SELECT {_text(run)} AS run, * {replace} FROM {database}.{table}"
            for run, database in databases.items()
            if (database, table) in existing
        ]
        connection.execute(f"CREATE VIEW stored.{table} AS {' UNION ALL BY NAME '.join(parts)}")


def _show_datasets(opened: Archive, store: Store, datasets: dict[str, str]) -> list[Path]:
    """Make the views ``stored.<table>`` over the datasets of all runs; returns the files that they read."""
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
    for table in DATASET_TABLES:
        parts = [f"SELECT NULL::VARCHAR AS run, * FROM layout.{table}"]
        found = [folders[digest] / f"{table}.parquet" for digest in present]
        if found:
            parts.append(
                f"SELECT d.run, p.* EXCLUDE (filename) FROM read_parquet([{', '.join(map(literal, found))}], "
                "filename = true, union_by_name = true) AS p "
                "JOIN stored.datasets AS d ON d.dataset = parse_path(p.filename)[-2]"
            )
        connection.execute(f"CREATE VIEW stored.{table} AS {' UNION ALL BY NAME '.join(parts)}")
        files += found
    return files


def _lock(connection: DuckDBPyConnection, store: Store, files: Sequence[Path]) -> None:
    """Disable file, network and setting access on this connection, irreversibly."""
    connection.execute("SET python_enable_replacements = false")
    connection.execute("SET autoinstall_known_extensions = false; SET autoload_known_extensions = false")
    connection.execute(f"SET temp_directory = {literal(store.root / 'tmp')}")
    connection.execute(f"SET allowed_paths = [{', '.join(map(literal, files))}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _refuse_changes(connection: DuckDBPyConnection, statement: str) -> None:
    """Accept exactly one read-only statement.

    A PIVOT counts as several statements and EXPLAIN ANALYZE runs what it explains, so those two may not even mention
    a word that changes something.
    """
    import duckdb

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
            f"The store holds {count} runs, more than this process may open ({hard - SPARE_FILES}).",
            hint="Choose some of them with --last or --run.",
            code=ErrorCode.QUERY_TOO_MANY_RUNS,
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _one_line(error: Exception) -> str:
    """Return DuckDB's message in one line."""
    return " ".join(str(error).split("LINE 1:")[0].split())[:500]
