"""Finding runs by what people type, and what their records say."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

import pytest

from leadline.evaluators.ground import StoreError, UsageError
from leadline.evaluators.settings import Settings
from leadline.tasks import pipeline
from leadline.tasks.ground.files import locked
from leadline.tasks.ground.processes import process_record
from leadline.tasks.load.dataset import load_dataset
from leadline.tasks.plan.selection import choose
from leadline.tasks.runs.lookup import find_run, remove_tag, set_tag, status, tags_of
from leadline.tasks.runs.run_facts import summary
from leadline.tasks.store.store import Store
from tests.support.stores.runs import make_run
from tests.support.stores.s3 import S3

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


def test_an_update_waits_for_who_changes_the_record(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    run = store.new_run()
    run.update({"status": "running"})
    updating = threading.Thread(target=run.update, args=({"counts": {"scored": 1}},))
    with locked(run.path / ".lock"):
        updating.start()
        updating.join(0.3)
        assert updating.is_alive()
    updating.join(30)
    assert run.read()["counts"] == {"scored": 1}


def test_tags_and_updates_at_once_lose_nothing(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    run = store.new_run()
    run.update({"status": "running"})
    names = [f"t{number}" for number in range(20)]
    tagging = threading.Thread(target=lambda: [set_tag(store, run, name) for name in names])
    tagging.start()
    for number in range(20):
        run.update({f"field{number}": number})
    tagging.join(60)
    record = run.read()
    assert list(record["tags"]) == names
    assert [record[f"field{number}"] for number in range(20)] == list(range(20))


def test_a_run_that_is_not_there_gets_no_tag(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    with pytest.raises(UsageError, match="There is no run"):
        set_tag(store, store.run("20260101-100000-aaaaaa"), "production")


@pytest.mark.slow
def test_in_a_bucket_the_maker_of_a_run_keeps_the_tags_of_others(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.open(s3.url)
    run = store.new_run()
    run.update({"status": "running"})
    assert run.own
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "other"))
    other = Store.open(s3.url)
    (seen,) = other.runs()
    set_tag(other, seen, "first")
    run.update({"counts": {"scored": 1}})
    assert list(tags_of(run)) == ["first"]
    set_tag(store, run, "second")
    assert sorted(tags_of(run)) == ["first", "second"]
    other.fetch_record(seen)
    remove_tag(seen, "first")
    run.update({"status": "completed"})
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "third"))
    (found,) = Store.open(s3.url).runs()
    record = found.read()
    assert (list(record["tags"]), record["counts"], record["status"]) == (["second"], {"scored": 1}, "completed")


def test_the_maker_of_a_run_writes_its_end_here_where_the_bucket_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Away:
        def fetch_version(self, path: Path) -> str:
            raise StoreError("The bucket does not answer.")

    local = Store.open(tmp_path).new_run()
    local.update({"status": "running"})
    (local.path / ".own").touch()
    run = type(local)(local.id, local.path, Away())  # type: ignore[arg-type]
    with pytest.raises(StoreError, match="does not answer"):
        run.update({"status": "failed"})
    assert local.read()["status"] == "failed"
