"""Differences that people's labels correct, beside those that the judge sees."""

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from leadline.tasks import pipeline
from leadline.tasks.compare.corrected_differences import paired_difference
from leadline.tasks.compare.engine import compare
from leadline.tasks.compare.results import CorrectedDifference
from leadline.tasks.judges.labels.drawing import draw
from leadline.tasks.judges.labels.judged_rows import read_judged_rows
from leadline.tasks.judges.labels.label_sets import LabelSet, make_sample
from leadline.tasks.load.label import LABELS_FILE, Label
from leadline.tasks.store.store import Run, Store
from tests.support.stores.run_factory import Given, Toy, answer, make_run

CASES = 400
GOOD = {"old": 0.6, "new": 0.8}


def _is_good(case: str, version: str) -> bool:
    return random.Random(case).random() < GOOD[version]  # what the old one got right, the new one does


def _run(folder: Path, version: str, seed: int, *, says: str = "{case} by {version}") -> tuple[Store, Run]:
    """Make a run of answers by a version, with a judge that is right of 85 %."""
    luck = random.Random(seed)
    names = [f"case-{n}" for n in range(CASES)]
    rows = [answer(name, "bot", answer=says.format(case=name, version=version)) for name in names]
    scores = [Given(name, "bot", float(_is_good(name, version) == (luck.random() < 0.85))) for name in names]
    store, run = make_run(folder, rows=rows, evaluators=[Toy(judged=True)], scores=scores)
    run.update({"status": "completed"})
    pipeline.aggregate_scores(store, run)
    return store, run


def _label(store: Store, run: Run, version: str, *, seed: int = 1) -> None:
    judged = read_judged_rows(store, run, "toy")
    labels = LabelSet(store)
    sample = make_sample(run, judged, draw(judged, 150, seed=seed), how="uniform", seed=seed)
    labels.keep_sample(sample)
    labels.add(
        [
            Label(row.key, "toy.value", float(_is_good(row.case, version)), "ann", "2026-01-01", sample=sample.id)
            for row in sample.rows
        ]
    )


def _label_dataset(store: Store, run: Run, version: str, number: int = CASES) -> None:
    """Let the dataset of a run bring labels of its first rows."""
    lines = [
        {"row_id": row, "question": "toy", "value": float(_is_good(f"case-{row}", version)), "person": "", "note": ""}
        for row in range(number)
    ]
    parquet.write_table(pa.Table.from_pylist(lines), store.dataset(run.read()["dataset"]) / LABELS_FILE)


def _difference(store: Store, old: Run, new: Run) -> tuple[CorrectedDifference | None, tuple[str, ...]]:
    found = compare(store, old.id, new.id)
    return found.of("toy.value").corrected, found.notes


@pytest.mark.parametrize(("seed", "paired"), [(1, True), (2, False)])
def test_labels_of_both_sides_correct_the_difference_in_pairs_where_they_are_of_the_same_cases(
    tmp_path: Path, seed: int, paired: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, old = _run(tmp_path, "old", 1)
    _, new = _run(tmp_path, "new", 2)
    _label(store, old, "old")
    _label(store, new, "new", seed=seed)
    if not paired:
        monkeypatch.setattr("leadline.tasks.compare.corrected_differences.LEAST_PAIRS", CASES)
    corrected, notes = _difference(store, old, new)
    assert corrected is not None
    assert corrected.paired is paired
    truth = sum(_is_good(f"case-{n}", "new") - _is_good(f"case-{n}", "old") for n in range(CASES)) / CASES
    assert corrected.low <= truth <= corrected.high
    assert corrected.low > 0
    assert any(note.startswith("By people's labels Value of bot moves by +") for note in notes)


def test_answers_that_did_not_change_do_not_stand_for_those_that_did(tmp_path: Path) -> None:
    store, old = _run(tmp_path, "old", 1)
    names = [f"case-{n}" for n in range(CASES)]
    kept = [name for name in names if _is_good(name, "old") or not _is_good(name, "new")]  # only mended ones changed
    rows = [answer(name, "bot", answer=f"{name} by {'old' if name in kept else 'new'}") for name in names]
    scores = [Given(name, "bot", float(_is_good(name, "new"))) for name in names]
    _, new = make_run(tmp_path, rows=rows, evaluators=[Toy(judged=True)], scores=scores)
    new.update({"status": "completed"})
    pipeline.aggregate_scores(store, new)
    _label(store, old, "old")
    assert _difference(store, old, new) == (None, ())  # by the answers that are labelled nothing changed
    _label(store, new, "new")
    corrected, _ = _difference(store, old, new)
    assert corrected is not None
    assert corrected.low > 0


@pytest.mark.parametrize("right", [0.8, 0.9])
@pytest.mark.parametrize("n_labels", [50, 100])
@pytest.mark.parametrize(("before", "mended", "broken"), [(0.8, 0.1, 0.01), (0.7, 0.5, 0.1)])
def test_intervals_of_paired_differences_hold_the_truth_where_few_answers_change(
    right: float, n_labels: int, before: float, mended: float, broken: float
) -> None:
    hits = 0
    for seed in range(100):
        luck = np.random.default_rng(seed)
        old = luck.random(CASES) < before
        new = old ^ (luck.random(CASES) < np.where(old, broken, mended))
        judge = [np.where(luck.random(CASES) < right, side, ~side).astype(float) for side in (old, new)]
        told = luck.choice(CASES, n_labels, replace=False)
        differences, seen = new.astype(float) - old, judge[1] - judge[0]
        chances = np.full(n_labels, n_labels / CASES)
        found = paired_difference(differences[told], seen[told], chances, seen, told, np.arange(len(seen)), shares=True)
        assert found is not None
        hits += found.low <= (1 - before) * mended - before * broken <= found.high
    assert hits >= 92


def test_labels_of_one_side_alone_correct_no_difference(tmp_path: Path) -> None:
    store, old = _run(tmp_path, "old", 1)
    _, new = _run(tmp_path, "new", 2)
    _label(store, old, "old")
    assert _difference(store, old, new)[0] is None


def _truth() -> float:
    return sum(_is_good(f"case-{n}", "new") - _is_good(f"case-{n}", "old") for n in range(CASES)) / CASES


def test_labels_that_came_with_the_datasets_correct_the_difference_as_those_of_sets_do(tmp_path: Path) -> None:
    store, old = _run(tmp_path, "old", 1)
    _, new = _run(tmp_path, "new", 2)
    _label_dataset(store, old, "old")
    assert _difference(store, old, new)[0] is None  # labels of one side alone
    _label_dataset(store, new, "new")
    corrected, notes = _difference(store, old, new)
    assert corrected is not None
    assert (corrected.paired, corrected.n_labels) == (True, CASES)
    assert corrected.value == pytest.approx(_truth(), abs=0.01)
    assert any(note.startswith("By people's labels Value of bot moves by +") for note in notes)


def test_labels_of_some_rows_of_a_dataset_correct_no_difference(tmp_path: Path) -> None:
    store, old = _run(tmp_path, "old", 1)
    _, new = _run(tmp_path, "new", 2)
    _label_dataset(store, old, "old")
    _label_dataset(store, new, "new", CASES - 1)
    assert _difference(store, old, new)[0] is None


def test_labels_of_a_dataset_and_of_a_set_correct_a_difference_together(tmp_path: Path) -> None:
    store, old = _run(tmp_path, "old", 1)
    _, new = _run(tmp_path, "new", 2)
    _label_dataset(store, old, "old")
    _label(store, new, "new")
    corrected, _ = _difference(store, old, new)
    assert corrected is not None
    assert (corrected.paired, corrected.n_labels) == (True, 150)
    assert corrected.low <= _truth() <= corrected.high
