"""A run's database between its steps: opened once where it is kept, and complete as soon as it is released."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from leadline.tasks.db import connect, kept_open, literal, open_run, release
from leadline.tasks.db import connection as opening
from leadline.tasks.store.store import Run, Store
from tests.tasks.compare.two_runs import completed


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return completed(tmp_path, {"m": [0.2, 0.8]})


def count(store: Store, run: Run, *, read_only: bool = False) -> int:
    with open_run(store, run, read_only=read_only) as connection:
        return int(connection.execute("SELECT count(*) FROM problems").fetchall()[0][0])


def add(store: Store, run: Run) -> None:
    with open_run(store, run) as connection:
        connection.execute(
            "INSERT INTO problems SELECT 100, 'low', '', '', '', 'model', false, 0, NULL, NULL, NULL, '', '', '{}', []"
        )


def test_steps_see_what_earlier_ones_wrote_and_the_file_is_complete_afterwards(tmp_path: Path, run: Run) -> None:
    store = Store.open(tmp_path / "store")
    before = count(store, run)
    with kept_open(run):
        add(store, run)
        assert count(store, run, read_only=True) > before  # another configuration would be refused
        assert opening._kept[run.database] is not None
    assert not opening._kept
    assert not run.database.with_name("run.duckdb.wal").exists()
    assert count(store, run, read_only=True) > before


def test_a_released_database_can_be_attached_and_is_opened_again(tmp_path: Path, run: Run) -> None:
    store = Store.open(tmp_path / "store")
    attach = f"ATTACH {literal(run.database)} AS other (READ_ONLY)"
    with kept_open(run), connect() as other:
        count(store, run)
        with pytest.raises(duckdb.Error, match="already attached"):
            other.execute(attach)
        release(run)
        other.execute(attach)
        other.execute("DETACH other")
        assert count(store, run) >= 0


def test_an_error_in_a_step_closes_it(tmp_path: Path, run: Run) -> None:
    store = Store.open(tmp_path / "store")
    with pytest.raises(duckdb.Error), kept_open(run), open_run(store, run) as connection:
        connection.execute("SELECT nothing")
    with connect() as other:
        other.execute(f"ATTACH {literal(run.database)} AS other (READ_ONLY)")
