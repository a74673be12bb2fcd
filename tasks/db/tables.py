"""Helpers of the steps over a run's database: values by row, records, digests of fields, replacing lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from leadline.evaluators.data import RowField
from leadline.tasks.db.statements import sql

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_MEASURED: Final = frozenset({RowField.DURATION_S, RowField.COST_USD, RowField.INPUT_TOKENS, RowField.OUTPUT_TOKENS})
_OF_OTHER_ROWS: Final = frozenset({RowField.ORIGINAL_ANSWER, RowField.RIVAL_ANSWERS})
STORED: Final = tuple(field for field in RowField if field not in _MEASURED | _OF_OTHER_ROWS)
"""The fields whose digests a dataset holds."""


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


def records(connection: DuckDBPyConnection, statement: str, params: object = None) -> list[dict[str, Any]]:
    """Run a query and return its lines by column name.

    Args:
        params: Its parameters.
    """
    cursor = connection.execute(statement, params) if params is not None else connection.execute(statement)
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, line, strict=True)) for line in cursor.fetchall()]


def replace_lines(connection: DuckDBPyConnection, table: str, lines: Iterable[Mapping[str, Any]]) -> int:
    """Replace all lines of a table in one transaction, and return their number.

    Args:
        lines: Its new lines.
    """
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

    Args:
        table: The table's name.
        columns: Its columns, all of the same length.
    """
    connection.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS {_selected(columns)}", list(columns.values()))
    try:
        yield
    finally:
        connection.execute(f"DROP TABLE {table}")


def _selected(columns: Mapping[str, Sequence[object]]) -> str:
    return f"SELECT {', '.join(f'unnest(${place}) AS {name}' for place, name in enumerate(columns, start=1))}"


def digests_of(fields: Iterable[RowField]) -> str:
    """Return what to select from for the digests of some fields, one column for each; NULL where a field is absent.

    A dataset has the digests of its texts in a table. Numbers are digested when they are asked for, and whether a case
    is a copy of another, and which other models answered it, is looked up only then.

    Args:
        fields: The fields that are needed.
    """
    wanted = frozenset(fields)
    joined = ["digests"]
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
