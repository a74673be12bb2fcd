"""Dropping what a store in a bucket needs no more."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from leadline.plugins.ops.maintenance import garbage
from leadline.plugins.ops.maintenance.garbage import drop_garbage
from leadline.plugins.ops.maintenance.integrity import migrate
from leadline.plugins.ops.maintenance.retention import Retention
from leadline.tasks.judges.drift.epochs import begin_epoch, enrolled_keys, epoch_of
from leadline.tasks.judges.labels.label_sets import LabelSet
from leadline.tasks.load.label import Label
from leadline.tasks.runs.lookup import set_tag
from leadline.tasks.runs.run_facts import summary
from leadline.tasks.store.object_storage import Bucket
from leadline.tasks.store.store import Run, Store
from tests.support.stores.runs import make_run
from tests.support.stores.s3 import S3, Host

pytestmark = pytest.mark.e2e

NOW = 4_000_000_000.0
"""A day far from now: a bucket says itself how old its objects are."""


def share_dataset(store: Store, run: Run) -> None:
    dataset = run.read()["dataset"]
    (store.dataset(dataset) / "manifest.json").write_text("{}", encoding="utf-8")
    store.share_dataset(dataset)


def test_results_go_from_the_bucket_and_a_tag_of_another_host_keeps_them(host: Host, s3: S3) -> None:
    store = host("one")
    for run_id in ("20260101-100000-aaaaaa", "20260101-100000-bbbbbb"):
        run = make_run(store, run_id)
        run.results.mkdir()
        (run.results / "report.html").write_text("<p>report</p>", encoding="utf-8")
        store.share_results(run)
        share_dataset(store, run)
    dropping = drop_garbage(store, Retention(older_than=60), NOW)
    assert next(dropping).name == "20260101-100000-aaaaaa"
    other = host("two")
    set_tag(other, other.run("20260101-100000-bbbbbb"), "production")
    assert list(dropping) == []
    assert s3.names("runs/20260101-100000-aaaaaa") == ["runs/20260101-100000-aaaaaa/run.json"]
    assert "runs/20260101-100000-bbbbbb/run.duckdb" in s3.names("runs/")
    assert s3.names("datasets/")
    seen = {run.id: summary(run)["status"] for run in host("three").runs()}
    assert seen == {"20260101-100000-aaaaaa": "dropped", "20260101-100000-bbbbbb": "completed"}


def test_datasets_and_scores_that_nothing_uses_go(host: Host, s3: S3) -> None:
    store = host("one")
    run = make_run(store, "20260101-100000-aaaaaa")
    share_dataset(store, run)
    folder = store.scores("bleu", "0" * 32)
    folder.mkdir(parents=True)
    (folder / "r-cpu-0000.parquet").write_bytes(bytes(100))
    store.push([folder / "r-cpu-0000.parquet"])
    found = list(drop_garbage(store, Retention(older_than=60, scores_older_than=60), NOW))
    assert [item.kind for item in found] == ["run", "dataset", "scores"]
    assert s3.names() == ["runs/20260101-100000-aaaaaa/run.json", "store.json"]
    assert not folder.exists()


def test_a_dataset_that_a_run_of_another_host_takes_at_the_last_moment_stays_whole(
    host: Host, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = host("one")
    run = make_run(store, "20260101-100000-aaaaaa")
    share_dataset(store, run)
    folder = f"datasets/{run.read()['dataset']}"
    whole = s3.names(folder)
    other, delete = host("two"), Bucket.delete

    def begin_first(bucket: Bucket, name: str) -> None:
        if name == f"{folder}/manifest.json":
            other.new_run().update({"status": "running", "dataset": run.read()["dataset"]})
        delete(bucket, name)

    monkeypatch.setattr(Bucket, "delete", begin_first)
    assert "dataset" not in {item.kind for item in drop_garbage(store, Retention(older_than=60), NOW)}
    assert s3.names(folder) == whole


def test_scores_that_come_while_older_ones_go_stay(host: Host, s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    store = host("one")
    folder = store.scores("bleu", "0" * 32)
    folder.mkdir(parents=True)

    def push(name: str) -> None:
        (folder / name).write_bytes(bytes(100))
        store.push([folder / name])

    def not_yet(*_: object) -> bool:
        push("r-cpu-0001.parquet")
        return False

    push("r-cpu-0000.parquet")
    monkeypatch.setattr(garbage, "_is_in_use", not_yet)
    assert [item.kind for item in drop_garbage(store, Retention(scores_older_than=60), NOW)] == ["scores"]
    assert s3.names("scores/") == [f"scores/bleu/{'0' * 32}/r-cpu-0001.parquet"]
    assert [path.name for path in folder.glob("*.parquet")] == ["r-cpu-0001.parquet"]


def test_a_dataset_of_which_a_clean_up_left_the_last_file_is_whole_again_when_it_is_used(host: Host, s3: S3) -> None:
    store = host("one")
    run = make_run(store, "20260101-100000-aaaaaa")
    share_dataset(store, run)
    folder = f"datasets/{run.read()['dataset']}"
    whole = s3.names(folder)
    assert store.remote is not None
    store.remote.bucket.delete(f"{folder}/rows.parquet")
    store.share_dataset(run.read()["dataset"])
    assert s3.names(folder) == whole


def test_a_host_with_an_older_copy_of_a_dataset_takes_no_digests_away(host: Host, s3: S3) -> None:
    store = host("one")
    run = make_run(store, "20260101-100000-aaaaaa")
    share_dataset(store, run)
    assert list(migrate(host("two")))
    manifest = store.dataset(run.read()["dataset"]) / "manifest.json"
    assert "sha256" not in manifest.read_text(encoding="utf-8")
    store.share_dataset(run.read()["dataset"])
    assert "sha256" in manifest.read_text(encoding="utf-8")
    assert list(migrate(host("three"))) == []


def test_a_migration_that_is_killed_leaves_no_part_of_a_dataset_on_a_host_without_it(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = host("one")
    run = make_run(store, "20260101-100000-aaaaaa")
    share_dataset(store, run)
    other = host("two")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Bucket, "put", killed)
        with pytest.raises(KeyboardInterrupt):
            list(migrate(other))
    assert not other.dataset(run.read()["dataset"]).exists()
    assert list(migrate(other))
    assert other.has_dataset(run.read()["dataset"])
    assert (other.dataset(run.read()["dataset"]) / "rows.parquet").exists()


def test_what_is_known_of_judges_and_what_people_said_stays_and_is_known_on_other_hosts(host: Host, s3: S3) -> None:
    store = host("one")
    make_run(store, "20260101-100000-aaaaaa")
    begin_epoch(store, "0" * 32, 1, datetime(2026, 1, 1, tzinfo=UTC))
    LabelSet(store, "people").add([Label("0" * 32, "toy.value", 1.0, "ann", "2026-01-01")])
    found = list(drop_garbage(store, Retention(older_than=60, scores_older_than=60), NOW))
    assert [item.kind for item in found] == ["run"]
    other = host("two")
    assert enrolled_keys(other) == ["0" * 32]
    assert epoch_of(other, "0" * 32) == 1
    assert [label.person for label in LabelSet(other, "people").labels()] == ["ann"]
    assert len(s3.names("judges/")) == 1
