"""Runs made by an earlier version: their database lacks tables and columns."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

from leadline.evaluators.core.errors import UsageError
from leadline.tasks.db.connection import open_run
from leadline.tasks.publish import publish
from leadline.tasks.runs.older_runs import ESSENTIAL, OPTIONAL, complete, wanted
from leadline.tasks.runs.show import overview
from leadline.tasks.store.store import Run, Store
from tests.tasks.publish.sample import make_sample

FIRST_VERSION = ("trial_spread", "details")
"""Tables that the first version did not have."""


def older(root: Path, *, tables: tuple[str, ...] = (), columns: tuple[str, ...] = ()) -> tuple[Store, Run]:
    """Return a run whose database lacks tables, and columns given as ``table.column``."""
    store, run = make_sample(root, cases=10)
    with duckdb.connect(str(run.database)) as connection:
        for table in tables:
            connection.execute(f"DROP TABLE {table}")
        for table, column in (name.split(".") for name in columns):
            connection.execute(f"CREATE TABLE kept AS SELECT * EXCLUDE ({column}) FROM {table}")
            connection.execute(f"DROP TABLE {table}")
            connection.execute(f"ALTER TABLE kept RENAME TO {table}")
    return store, run


def test_a_run_of_this_version_lacks_nothing(tmp_path: Path) -> None:
    store, run = make_sample(tmp_path, cases=10)
    with open_run(store, run, read_only=True) as connection:
        assert complete(connection, run.id) == ()
    assert set(wanted()) == {*ESSENTIAL, *OPTIONAL}


@pytest.mark.parametrize("tables", [FIRST_VERSION, tuple(OPTIONAL), *((table,) for table in OPTIONAL)], ids=str)
def test_a_run_without_newer_tables_is_published_with_what_is_there(tmp_path: Path, tables: tuple[str, ...]) -> None:
    store, run = older(tmp_path, tables=tables)
    with open_run(store, run) as connection:
        published = publish(connection, run, run.read())
    html, gist = (published.folder / name for name in ("report.html", "report.md"))
    report = json.loads((published.folder / "report.json").read_text("utf-8"))
    assert len(report["aggregates"]) > 0
    for text in (html.read_text("utf-8"), gist.read_text("utf-8")):
        assert "made by an earlier version of Leadline and has no data on: " in text
    if "problems" in tables:
        assert "this run has no such data" in html.read_text("utf-8")
        assert "are not in this run's data" in gist.read_text("utf-8")
        assert "No problems were found" not in html.read_text("utf-8")
    with duckdb.connect(str(run.database), read_only=True) as connection:
        found = {name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    assert found.isdisjoint(tables), "the run itself is not changed"
    assert overview(store, run)["lacking"] == [table for table in OPTIONAL if table in tables]


@pytest.mark.parametrize(
    "column",
    [
        "metrics.pooled",
        "metrics.threshold",
        "scores.trial",
        "aggregates.pass_share",
        "problems.instrument",
        "flips.perturbation",
        "evidence.error",
    ],
)
def test_a_run_without_a_newer_column_is_published(tmp_path: Path, column: str) -> None:
    store, run = older(tmp_path, columns=(column,))
    with open_run(store, run) as connection:
        assert publish(connection, run, run.read()).report.exists()
    assert overview(store, run)["board"]


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        ({"tables": ("scores",)}, "lacks the table 'scores'"),
        ({"columns": ("metrics.higher_is_better",)}, "lacks the column 'higher_is_better' of the table 'metrics'"),
    ],
)
def test_what_cannot_be_done_without_is_refused_in_one_line(
    tmp_path: Path, lost: dict[str, tuple[str, ...]], said: str
) -> None:
    store, run = older(tmp_path, **lost)
    with open_run(store, run) as connection, pytest.raises(UsageError, match=said) as refused:
        publish(connection, run, run.read())
    assert "\n" not in str(refused.value)
    with pytest.raises(UsageError, match=said):
        overview(store, run)
