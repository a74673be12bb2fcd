"""Figures of the store: states as they are, counters of what ended since, and the last run of each name."""

from __future__ import annotations

import pytest

from leadline.plugins.ops.telemetry import families as m
from leadline.plugins.ops.telemetry.families import MOST, OTHER, Buckets, few, label
from leadline.plugins.ops.telemetry.figures import StoreFigures
from leadline.tasks.store.store import Store
from tests.support.stores.runs import make_run


def test_runs_are_counted_by_state(store: Store) -> None:
    make_run(store, "20260101-100000-aaaaaa")
    make_run(store, "20260101-100001-aaaaaa", record={"status": "failed", "error": "KeyboardInterrupt: "})
    figures = StoreFigures(store).read()
    assert figures.values[m.RUNS] == {
        ("running",): 0, ("completed",): 1, ("failed",): 0, ("interrupted",): 1, ("lost",): 0,
    }  # fmt: skip


def test_only_what_ended_since_the_first_reading_is_counted(store: Store) -> None:
    make_run(store, "20260101-100000-aaaaaa")
    begun = make_run(store, "20260101-100001-aaaaaa", record={"status": "running"})
    reader = StoreFigures(store)
    assert reader.read().values[m.GATES]["fail",] == 0
    begun.update({"status": "completed", "chunk_seconds": {"cpu": [0.2, 40.0], "judge": [5.0]}})
    make_run(store, "20260101-100002-aaaaaa")
    figures = reader.read()
    assert figures.values[m.RUNS_ENDED]["completed",] == 2
    assert figures.values[m.GATES]["fail",] == 2
    assert figures.values[m.SCORES]["unscored",] == 2
    assert figures.values[m.RUN_SECONDS]["score",] == pytest.approx(2.0)
    assert figures.values[m.CHUNK_SECONDS]["cpu",] == Buckets.of([0.2, 40.0])


def test_counters_do_not_fall_when_runs_are_deleted(store: Store) -> None:
    reader = StoreFigures(store)
    reader.read()
    run = make_run(store, "20260101-100000-aaaaaa")
    assert reader.read().values[m.RUNS_ENDED]["completed",] == 1
    (run.path / "run.json").unlink()
    assert reader.read().values[m.RUNS_ENDED]["completed",] == 1


def test_the_last_run_of_a_name_stands_for_it(store: Store) -> None:
    make_run(store, "20260101-100000-aaaaaa", record={"gate": "pass"})
    make_run(store, "20260101-100001-aaaaaa", record={"counts": {"scored": 3, "unscored": 1}})
    make_run(store, "20260101-100002-aaaaaa", record={"name": "other", "counts": {"scored": 0, "unscored": 0}})
    make_run(store, "20260101-100003-aaaaaa", record={"counts": {"scored": 9}, "rescored": "20260101-100001-aaaaaa"})
    figures = StoreFigures(store).read()
    assert figures.values[m.LAST_COVERAGE] == {("nightly",): 0.75}
    assert figures.values[m.LAST_GATE]["nightly",] == 0.0
    assert figures.values[m.LAST_PROBLEMS]["nightly", "high"] == 1


def test_of_many_names_those_used_last_are_kept(store: Store) -> None:
    for number in range(MOST + 5):
        make_run(store, f"20260101-1000{number:02}-aaaaaa", record={"name": f"run {number}"})
    names = [name for (name,) in StoreFigures(store).read().values[m.LAST_SECONDS]]
    assert len(names) == MOST
    assert "run 0" not in names


def test_a_record_that_cannot_be_read_spoils_no_other(store: Store) -> None:
    make_run(store, "20260101-100000-aaaaaa")
    broken = make_run(store, "20260101-100001-aaaaaa")
    (broken.path / "run.json").write_text("{", encoding="utf-8")
    assert StoreFigures(store).read().values[m.RUNS]["completed",] == 1


def test_a_label_is_short_and_holds_no_secret_and_no_control_character() -> None:
    assert label("x" * 500) == "x" * 80
    assert "sk-ant-" not in label("judge sk-ant-api03-abcdefghijk-lmnopqrstuvwxyz")
    assert "sk-proj-" not in label("judge sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD")
    assert "\n" not in label("a\nb\x1b[31m")


@pytest.mark.parametrize("name", ["hf-mistral-7b", "hf_llama3_instruct", "key findings", "pk-dataset", "bearer bonds"])
def test_names_that_begin_like_keys_stay_apart(name: str) -> None:
    assert label(name) == name


def test_labels_of_many_names_are_few() -> None:
    names = [f"model {number}" for number in range(100)]
    labels = few(names)
    assert len(set(labels.values())) == MOST + 1
    assert (labels["model 0"], labels["model 99"]) == ("model 0", OTHER)
