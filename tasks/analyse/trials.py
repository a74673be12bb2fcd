"""Trials: how much the verdicts differ that a judge gave to the same row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leadline.tasks.db.connection import sql
from leadline.tasks.db.tables import show_targets

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def measure_trials(connection: DuckDBPyConnection) -> int:
    """Fill the table ``trial_spread`` and return its number of lines; none where every row was scored once.

    A line says, for a metric and a model, how many of the rows that were scored more than once have trials that differ
    (``n_differ``) or stand on two sides of the threshold (``n_cross``); the pooled standard deviation within a row,
    ``sqrt(sum((n - 1) s²) / sum(n - 1))`` (the repeatability of ISO 5725-2); and the lowest and highest mean of a
    single trial with the standard deviation of these means, over the rows that every trial scored. Rows with an
    infinite value are left out of the last four.
    """
    connection.execute("DELETE FROM trial_spread")
    (last,) = connection.execute("SELECT coalesce(max(trial), 0) FROM scores").fetchall()[0]
    if last:
        show_targets(connection)
        connection.execute(sql("aggregate/trial_spread"))
    (count,) = connection.execute("SELECT count(*) FROM trial_spread").fetchall()[0]
    return int(count)
