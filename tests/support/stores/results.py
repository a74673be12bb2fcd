"""What the runs of a store have found."""

from __future__ import annotations

from typing import Any

from leadline.tasks.db import open_run, records
from leadline.tasks.store.store import Store


def read_run(store: Store, statement: str, run: str = "") -> list[dict[str, Any]]:
    """Return the lines that a statement finds in a run, the latest one by default."""
    with open_run(store, store.run(run) if run else store.runs()[-1], read_only=True) as connection:
        return records(connection, statement)


def tables_of(store: Store, *names: str) -> dict[str, list[tuple[Any, ...]]]:
    """Return tables of the latest run, equal ones for equal lines."""
    with open_run(store, store.runs()[-1], read_only=True) as connection:
        return {name: connection.execute(f"SELECT * FROM {name} ORDER BY ALL").fetchall() for name in names}


def scores_of(store: Store) -> list[tuple[Any, ...]]:
    """Return metric, case, trial, status, reason and value of all scores of the latest run."""
    with open_run(store, store.runs()[-1], read_only=True) as connection:
        return connection.execute(
            "SELECT metric, case_key, trial, status::VARCHAR, reason, value FROM scores JOIN metrics USING (metric_id) "
            "JOIN rows USING (row_id) JOIN cases USING (case_id) ORDER BY ALL"
        ).fetchall()
