"""A tag that somebody sets while a run is being made stays, whoever writes the run's record at the same moment."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from leadline.evaluators.ground import StoreError, UsageError
from leadline.tasks.ground.files import locked
from leadline.tasks.runs.tags import remove_tag, set_tag, tags_of
from leadline.tasks.store.store import Store
from tests.support.stores.s3 import S3


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
