"""Finding runs by what people type, and what their records say."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from leadline.evaluators.ground import UsageError
from leadline.evaluators.settings import Settings
from leadline.tasks import pipeline
from leadline.tasks.ground.processes import process_record
from leadline.tasks.load import load_dataset
from leadline.tasks.plan.selection import choose
from leadline.tasks.runs.lookup import find_run, status
from leadline.tasks.runs.run_facts import summary
from leadline.tasks.store.store import Store
from tests.support.stores.runs import make_run

FIRST, SECOND = "20260101-100000-aaaaaa", "20260102-100000-bbbbbb"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store.open(tmp_path)
    make_run(store, FIRST)
    make_run(store, SECOND)
    return store


def test_a_run_is_found_by_id_and_by_a_prefix_that_only_it_has(store: Store) -> None:
    assert find_run(store, FIRST).id == FIRST
    assert find_run(store, "20260102").id == SECOND


def test_an_id_that_begins_another_one_is_still_itself(store: Store) -> None:
    make_run(store, FIRST + "x")
    assert find_run(store, FIRST).id == FIRST


@pytest.mark.parametrize("name", ["2026", "1999", "", "../../etc", "20260101-100000-aaaaaaa", "\0"])
def test_an_ambiguous_or_unknown_name_is_refused(store: Store, name: str) -> None:
    with pytest.raises(UsageError):
        find_run(store, name)


def test_latest_is_the_youngest_completed_run(store: Store) -> None:
    make_run(store, "20260103-100000-cccccc", record={"status": "failed"})
    assert find_run(store, "latest").id == SECOND


def test_latest_needs_a_completed_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="completed"):
        find_run(Store.open(tmp_path), "latest")


def test_a_run_counts_as_lost_when_its_process_is_gone() -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    gone = process_record() | {"pid": ended.pid}
    assert status({"status": "running", "process": gone}) == "lost"
    assert status({"status": "running", "process": gone | {"host": "elsewhere.example"}}) == "running"
    assert status({"status": "failed", "process": gone}) == "failed"


def test_a_run_counts_as_lost_when_its_pid_is_another_process_by_now() -> None:
    mine = process_record()
    assert status({"status": "running", "process": mine}) == "running"
    assert status({"status": "running", "process": mine | {"started": "1"}}) == "lost"
    assert status({"status": "running", "process": mine | {"started": "1", "host": "elsewhere.example"}}) == "running"
    assert status({"status": "completed", "process": mine | {"started": "1"}}) == "completed"


def test_a_run_without_a_process_counts_as_running() -> None:
    assert status({"status": "running"}) == "running"


def test_a_process_that_cannot_be_looked_at_counts_as_running(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_yours(pid: int, number: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", not_yours)
    hidden = process_record() | {"pid": 2**22 + 1, "started": "1"}  # a pid that /proc cannot show
    assert status({"status": "running", "process": hidden}) == "running"


def test_the_record_of_a_new_run_says_which_process_makes_it(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"case": "a", "expected_answer": "yes", "actual_answer": "yes"}\n')
    store, settings = Store.open(tmp_path / "store"), Settings()
    planned = pipeline.plan_run(
        store, load_dataset(store, tmp_path / "rows.jsonl"), choose(None, ("rouge",), {}, settings), settings,
        model_keys=(), processes=1, config={},
    )  # fmt: skip
    record = store.run(planned.run).read()
    assert record["process"] == process_record()
    assert status(record) == "running"


def test_a_summary_says_nothing_of_what_a_run_has_not_done_yet(store: Store) -> None:
    run = store.run("20260104-100000-dddddd")
    run.path.mkdir(parents=True)
    run.update({"status": "running", "started": "2026-01-04T10:00:00+00:00"})
    known = summary(run)
    assert known["gate"] is None
    assert known["scored"] is None
    assert known["high"] is None
