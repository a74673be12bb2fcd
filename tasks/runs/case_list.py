"""The cases and problems of a run, filtered and in pages: what is worst comes first."""

from __future__ import annotations

from typing import Any, Final

from leadline.tasks.db.connection import open_run
from leadline.tasks.db.statements import sql
from leadline.tasks.db.tables import records
from leadline.tasks.store.store import Run, Store

OUTCOMES: Final = ("failed", "unscored", "scored", "passed", "not_applicable")
"""Outcomes of a row on a metric; ``scored`` is a value without a threshold."""


def list_cases(
    store: Store,
    run: Run,
    *,
    evaluator: str | None = None,
    metric: str | None = None,
    model: str | None = None,
    outcome: str | None = None,
    problem: int | None = None,
    limit: int,
    offset: int = 0,
) -> tuple[list[dict[str, Any]], int]:
    """Return a page of a run's answers with their values, and how many there are in all.

    Args:
        evaluator: Only this evaluator's metrics.
        metric: This metric; by default the primary one of each evaluator.
        model: Only answers of this model, by its key.
        outcome: Only those with this outcome, one of :data:`OUTCOMES`.
        problem: Only the rows of the problem of this number.
        limit: Lines at most.
        offset: Lines before them.

    Raises:
        UsageError: The run has no results yet, or another version made it.
        StoreError: Another process writes the run just now.
    """
    asked = {"evaluator": evaluator, "metric": metric, "model": model, "outcome": outcome, "problem": problem}
    return _page(store, run, sql("case_list/cases"), asked, limit, offset)


def list_problems(
    store: Store, run: Run, *, severity: str | None = None, model: str | None = None, limit: int, offset: int = 0
) -> tuple[list[dict[str, Any]], int]:
    """Return a page of a run's problems with the keys of their first cases, and how many there are in all.

    Args:
        severity: Only those of this severity.
        model: Only those of this model, by its key.
        limit: Lines at most.
        offset: Lines before them.

    Raises:
        UsageError: The run has no results yet, or another version made it.
        StoreError: Another process writes the run just now.
    """
    return _page(store, run, sql("case_list/problems"), {"severity": severity, "model": model}, limit, offset)


def _page(
    store: Store, run: Run, statement: str, asked: dict[str, Any], limit: int, offset: int
) -> tuple[list[dict[str, Any]], int]:
    with open_run(store, run, read_only=True) as connection:
        lines = records(connection, statement, asked | {"limit": limit, "offset": offset})
    totals = [line.pop("total") for line in lines]
    return lines, totals[0] if totals else offset
