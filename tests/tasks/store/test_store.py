"""The store's folder."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from leadline.evaluators.ground import StoreError, UsageError
from leadline.tasks.store.store import Store


def test_runs_of_the_same_second_are_in_the_order_in_which_they_were_begun(tmp_path: Path) -> None:
    store, begun = Store.open(tmp_path), []
    for _ in range(20):
        begun.append(store.new_run().id)
        time.sleep(0.001)
    assert begun == sorted(begun)


def test_a_folder_that_it_makes_is_for_its_owner_alone(tmp_path: Path) -> None:
    assert Store.open(tmp_path / "new" / "store").root.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_is_there_stays_as_its_owner_made_it(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store").chmod(0o750)
    assert Store.open(tmp_path / "store").root.stat().st_mode & 0o777 == 0o750


def test_a_path_that_duckdb_would_cut_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has a \? in its path"):
        Store.open(tmp_path / "who?" / "store")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("folder", "name"), [("harbour", "harbour"), ("harbour/.leadline", "harbour/.leadline"), ("a/b/store", "b/store")]
)
def test_its_name_is_that_of_its_folder_with_the_one_around_it_where_many_are_called_so(
    tmp_path: Path, folder: str, name: str
) -> None:
    assert Store.open(tmp_path / folder).name == name


@pytest.mark.parametrize("damaged", [b'{"id": "2026', b"", b"[1]", b'{"status": "\xff"}'])
def test_a_damaged_record_of_a_run_is_said_in_one_line(tmp_path: Path, damaged: bytes) -> None:
    run = Store.open(tmp_path).new_run()
    (run.path / "run.json").write_bytes(damaged)
    with pytest.raises(StoreError, match=f"The record of run {run.id} is damaged"):
        run.read()
