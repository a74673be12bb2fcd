"""Runs made by an earlier version: what their database lacks is shown as empty, or the run is refused in one line."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from leadline.evaluators.core.errors import UsageError
from leadline.tasks.analyse.findings.wording import listing
from leadline.tasks.db.connection import connect
from leadline.tasks.db.statements import sql

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ESSENTIAL: Final = ("evaluators", "metrics", "scores", "aggregates")
"""Tables without which a run says nothing."""

OPTIONAL: Final = {
    "problems": "problems",
    "insights": "insights",
    "flips": "flips",
    "flip_rates": "flip rates",
    "evidence": "evidence of scores",
    "details": "details by label",
    "trial_spread": "spread of trials",
}
"""Tables that may be missing, in a reader's words."""

DEFAULTS: Final = {
    "evaluators.family": "''",
    "evaluators.lane": "''",
    "evaluators.leaderboard": "'heatmap'",
    "evaluators.identity": "'{}'",
    "leadline.evaluators.core.params": "'{}'",
    "evaluators.reused": "0",
    "evaluators.computed": "0",
    "metrics.description": "''",
    "metrics.is_share": "false",
    "metrics.dataset_level": "false",
    "metrics.pooled": "false",
    "scores.trial": "0",
    "evidence.trial": "0",
    "aggregates.n_not_applicable": "0",
    "aggregates.reasons": "'{}'",
    "problems.instrument": "false",
    "problems.actions": "''",
    "problems.attrs": "'{}'",
    "problems.row_ids": "[]",
    "insights.actions": "''",
    "insights.attrs": "'{}'",
    "insights.row_ids": "[]",
}
"""What a column that must have a value stands for where it is missing; columns that may be empty are NULL."""


def in_words(lacking: Sequence[str]) -> str:
    """Return a sentence for people about the tables that a run lacks, or ``""``."""
    if not lacking:
        return ""
    names = listing(OPTIONAL[name] for name in lacking)
    return f"This run was made by an earlier version of Leadline and has no data on: {names}."


class Column(NamedTuple):
    """A column of ``run.sql``."""

    name: str
    type: str
    nullable: bool


@cache
def wanted() -> dict[str, tuple[Column, ...]]:
    """Return the tables of this version with their columns."""
    with connect() as connection:
        connection.execute(sql("run"))
        found = _columns(connection)
    return {table: found[table] for table in (*ESSENTIAL, *OPTIONAL) if table in found}


def complete(connection: DuckDBPyConnection, run: str) -> tuple[str, ...]:
    """Show what a run's database lacks as empty tables and columns, for this connection only.

    Args:
        connection: The run's database; it is not changed.
        run: The run's id, for the message.

    Returns:
        The tables that the run lacks.

    Raises:
        UsageError: It lacks what cannot be done without.
    """
    lacking = []
    present = _columns(connection)
    for table, columns in wanted().items():
        known = {column.name for column in present.get(table, ())}
        if not known and table in ESSENTIAL:
            raise _refusal(run, f"the table {table!r}")
        if not known:
            lacking.append(table)
            fields = ", ".join(f'"{column.name}" {column.type}' for column in columns)
            connection.execute(f"CREATE OR REPLACE TEMP TABLE {table} ({fields})")
            continue
        missing = [column for column in columns if column.name not in known]
        for column in missing:
            if not column.nullable and f"{table}.{column.name}" not in DEFAULTS:
                raise _refusal(run, f"the column {column.name!r} of the table {table!r}")
        if missing:
            values = ", ".join(
                f'{DEFAULTS.get(f"{table}.{column.name}", "NULL")}::{column.type} AS "{column.name}"'
                for column in missing
            )
            (database,) = connection.execute("SELECT current_database()").fetchall()[0]
            connection.execute(
                f'CREATE OR REPLACE TEMP VIEW {table} AS SELECT *, {values} FROM "{database}".main.{table}'
            )
    return tuple(lacking)


def _columns(connection: DuckDBPyConnection) -> dict[str, tuple[Column, ...]]:
    """Return the tables of the database with their columns."""
    found: dict[str, tuple[Column, ...]] = {}
    for table, *column in connection.execute(
        "SELECT table_name, column_name, data_type, is_nullable FROM duckdb_columns() "
        "WHERE database_name = current_database() AND schema_name = 'main' ORDER BY table_name, column_index"
    ).fetchall():
        found[table] = (*found.get(table, ()), Column(*column))
    return found


def _refusal(run: str, what: str) -> UsageError:
    return UsageError(
        f"Run {run} was made by an earlier version of Leadline: its database lacks {what}.",
        hint="Evaluate its dataset again; scores that are still valid are reused.",
    )
