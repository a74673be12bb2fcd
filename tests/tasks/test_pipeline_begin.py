"""Beginning a run: over damaged segments, and where it cannot be planned."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leadline.evaluators.core import get
from leadline.evaluators.ground import DatasetError, StoreError, UsageError
from leadline.evaluators.settings import Settings
from leadline.tasks import pipeline
from leadline.tasks.db import open_run
from leadline.tasks.load.dataset import load_dataset
from leadline.tasks.plan.selection import Choice
from leadline.tasks.score.chunk import score_chunk
from leadline.tasks.store.store import Run, Store
from tests.support.datasets.loading import as_jsonl, write

RECORDS = [
    {"question": f"q{number}", "model": "m", "expected_answer": "a b c d", "actual_answer": "a b c d" + " e" * number}
    for number in range(6)
]


def begun(store: Store) -> pipeline.Planned:
    loaded = load_dataset(store, write(store.root, "items.jsonl", as_jsonl(RECORDS)))
    choice = Choice((get("bleu")(),), {})
    return pipeline.plan_run(store, loaded, choice, Settings(), model_keys=(), processes=1, config={})


def scored(store: Store) -> tuple[pipeline.Planned, list[Any]]:
    planned = begun(store)
    for chunk in planned.chunks:
        score_chunk(chunk)
    run = store.run(planned.run)
    pipeline.gather_scores(store, run)
    with open_run(store, run, read_only=True) as connection:
        return planned, connection.execute(
            "SELECT metric_id, row_id, status, value FROM scores ORDER BY ALL"
        ).fetchall()


def all_zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


@pytest.mark.parametrize("damage", [lambda path: path.write_bytes(b""), all_zeros, cut_off])
def test_a_damaged_segment_costs_only_what_it_held(
    store: Store, damage: Callable[[Path], object], caplog: pytest.LogCaptureFixture
) -> None:
    first, expected = scored(store)
    (segment,) = store.root.glob("scores/*/*/*.parquet")
    damage(segment)
    with caplog.at_level(logging.WARNING):
        second, found = scored(store)
    assert (first.to_compute, second.to_compute) == (6, 6)
    assert found == expected
    warnings = [record.getMessage() for record in caplog.records if "is ignored" in record.getMessage()]
    assert len(warnings) == 1
    assert str(segment) in warnings[0]
    third, found = scored(store)
    assert third.to_compute == 0
    assert found == expected


@pytest.mark.parametrize("step", ["plan", "cut", "write_jobs"])
def test_a_run_that_cannot_be_planned_is_on_record_as_failed(
    store: Store, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise StoreError("The disk is full.")

    monkeypatch.setattr(pipeline, step, fails)
    with pytest.raises(StoreError, match="disk is full"):
        begun(store)
    (run,) = store.runs()
    assert (run.read()["status"], run.read()["error"]) == ("failed", "StoreError: The disk is full.")


def test_the_first_error_is_raised_where_the_record_cannot_be_written_either(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuses(*_: Any) -> Any:
        raise OSError("No space left on device")

    def fails(*_: Any, **__: Any) -> Any:
        monkeypatch.setattr(Run, "update", refuses)
        raise StoreError("The disk is full.")

    monkeypatch.setattr(pipeline, "plan", fails)
    with pytest.raises(StoreError, match="disk is full"):
        begun(store)
    assert "No space left" in caplog.text


def test_a_store_in_the_home_folder_of_nobody_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"'~no-such-user/store': the home folder of ~no-such-user is not known\."):
        Store.open("~no-such-user/store")
    monkeypatch.setenv("LEADLINE_STORE", "~no-such-user")
    with pytest.raises(UsageError, match="is not known"):
        Store.open()


def test_a_dataset_in_the_home_folder_of_nobody_is_refused_in_one_line(store: Store) -> None:
    with pytest.raises(DatasetError, match=r"~no-such-user/rows\.csv: the home folder of ~no-such-user is not known"):
        load_dataset(store, "~no-such-user/rows.csv")
