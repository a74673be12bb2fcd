"""The tables of a run as DataFrames of pandas, with the columns of the CSV files (``docs/results.md``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leadline.tasks.db.connection import open_run
from leadline.tasks.db.statements import sql
from leadline.tasks.store.store import Run, Store

if TYPE_CHECKING:
    from pandas import DataFrame


def scores(store: Store, run: Run) -> DataFrame:
    """Return every score: a line for each case, model, metric and trial.

    Args:
        store: The store.
        run: The run.

    Returns:
        ``case``, ``model``, ``evaluator``, ``metric``, ``status`` and ``reason`` are text, ``row_id`` and ``trial`` are
        integers, ``value`` is a float, NaN unless the status is ``scored``, ``passes`` a boolean, missing without a
        threshold or a value.
    """
    return _frame(store, run, "scores_table", {"metric": None})


def aggregates(store: Store, run: Run) -> DataFrame:
    """Return every mean: a line for each metric and model, with interval, coverage and verdict.

    Args:
        store: The store.
        run: The run.

    Returns:
        ``evaluator``, ``metric``, ``model``, ``reasons`` (JSON), ``ci_method`` and ``verdict`` are text, ``primary`` is
        a boolean, columns that begin with ``n_`` are integers, all others floats.
    """
    return _frame(store, run, "aggregates_table")


def problems(store: Store, run: Run) -> DataFrame:
    """Return every problem, the worst first.

    Args:
        store: The store.
        run: The run.

    Returns:
        ``problem_id`` and ``n_rows`` are integers, ``instrument`` is a boolean, all other columns are text; ``attrs``
        is JSON.
    """
    return _frame(store, run, "problems_table")


def _frame(store: Store, run: Run, table: str, given: dict[str, None] | None = None) -> DataFrame:
    with open_run(store, run, read_only=True) as connection:
        return connection.execute(sql(f"publish/{table}"), given or {}).df()
