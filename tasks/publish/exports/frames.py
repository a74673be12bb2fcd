"""Tables of a run, and of a store's runs, as DataFrames of pandas (``docs/python.md`` has their columns)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from leadline.tasks.db import columns_of, open_run, sql
from leadline.tasks.publish.exports.published_tables import pandas_types, published_sql
from leadline.tasks.runs.query import archive
from leadline.tasks.runs.run_facts import RunSummary, summary
from leadline.tasks.store.store import Run, Store

if TYPE_CHECKING:
    from pandas import DataFrame

TEXT: Final = "string"
WHOLE: Final = "int64"
NUMBER: Final = "float64"

SCORES: Final = pandas_types("scores")
"""Columns of the scores with their types in pandas; a text or a boolean may be missing."""
AGGREGATES: Final = pandas_types("aggregates")
PROBLEMS: Final = pandas_types("problems")

RUNS: Final = {column.name: column.pandas for column in columns_of(RunSummary) if column.name != "record"}
"""Columns of the runs; numbers of a run that was not completed are missing."""

HISTORY: Final[Mapping[str, str]] = {
    **dict.fromkeys(("run", "name"), TEXT),
    "started": "datetime64[us]",
    **dict.fromkeys(("dataset_name", "evaluator", "metric", "model"), TEXT),
    **dict.fromkeys(("value", "ci_low", "ci_high", "threshold"), NUMBER),
    **dict.fromkeys(("n_scored", "n_unscored"), "Int64"),
    **dict.fromkeys(("verdict", "gate"), TEXT),
}


def scores(store: Store, run: Run) -> DataFrame:
    """Return every score: a line for each case, model, metric and trial.

    Returns:
        The columns of :data:`SCORES`; ``value`` is NaN unless the status is ``scored``, ``passes`` is missing without a
        threshold or a value.
    """
    return _frame(store, run, "scores", {"metric": None})


def aggregates(store: Store, run: Run) -> DataFrame:
    """Return every mean: a line for each metric and model, with interval, coverage and verdict.

    Returns:
        The columns of :data:`AGGREGATES`; ``reasons`` is JSON.
    """
    return _frame(store, run, "aggregates")


def problems(store: Store, run: Run) -> DataFrame:
    """Return every problem, the worst first.

    Returns:
        The columns of :data:`PROBLEMS`; ``attrs`` is JSON.
    """
    return _frame(store, run, "problems")


def runs(store: Store) -> DataFrame:
    """Return the runs of a store, the oldest first, with the columns of :data:`RUNS`."""
    from pandas import DataFrame

    found = [summary(run) for run in store.runs()]
    return typed(DataFrame(found, columns=list(RUNS)), RUNS)


def history(store: Store, metric: str) -> DataFrame:
    """Return the means of a metric in all runs, the oldest first.

    Args:
        metric: Key of a metric, id of an evaluator for its primary metrics, or both as ``evaluator.metric``.

    Returns:
        The columns of :data:`HISTORY`; no lines where no run measured it.
    """
    with archive(store, statement=sql("query/history")) as opened:
        return typed(opened.connection.execute(sql("query/history"), {"metric": metric}).df(), HISTORY)


def typed(frame: DataFrame, columns: Mapping[str, str]) -> DataFrame:
    """Return a frame with these columns, each of its type, however few values it has.

    Args:
        frame: A frame that has the columns.
        columns: Their types by name.
    """
    out: DataFrame = frame[list(columns)].astype(dict(columns))
    return out


def _frame(store: Store, run: Run, table: str, given: Mapping[str, Any] | None = None) -> DataFrame:
    with open_run(store, run, read_only=True) as connection:
        return typed(connection.execute(published_sql(table), dict(given or {})).df(), pandas_types(table))
