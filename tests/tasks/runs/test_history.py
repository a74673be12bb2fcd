"""The history of a store: each run is read once, and what it says outlives crashes and its deletion."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import duckdb
import pytest

from leadline.tasks.db import open_run, records
from leadline.tasks.judges.labels.judged_rows import read_judged_rows
from leadline.tasks.judges.labels.label_sets import LabelSet
from leadline.tasks.judges.labels.run_corrections import PresentLabels
from leadline.tasks.load.label import Label
from leadline.tasks.pipeline import publish_results
from leadline.tasks.runs import history as module
from leadline.tasks.runs.history import RunHistory, keep_points
from leadline.tasks.runs.run_index import RunIndex
from leadline.tasks.store.store import DROPPED, Run, Store
from tests.support.stores.runs import ANSWERS, make_run
from tests.support.stores.s3 import S3
from tests.tasks.publish.sample import make_sample


def history(store: Store) -> RunHistory:
    return RunHistory(store, RunIndex(store), PresentLabels(store))


def values(found: RunHistory) -> dict[str, float]:
    """Return beta's mean of BLEU by run."""
    lines = found.lines("series", found.index.lines(), measure="value", evaluator="bleu", metric="bleu_1", slice=None)
    return {line["run"]: line["value"] for line in lines}


def points(found: RunHistory) -> list[dict[str, Any]]:
    """Return all that is kept, in some order that is always the same."""
    with duckdb.connect() as connection:
        files = [str(found.folder / name) for name in found.kept().files]
        return records(connection, "FROM read_parquet($files) ORDER BY ALL", {"files": files})


def published(store: Store, run_id: str, **made: Any) -> Run:
    """Make a run that has written its points."""
    run = make_run(store, run_id, **made)
    with open_run(store, run) as connection:
        keep_points(connection, store, run)
    return run


def test_means_slices_flips_and_failing_shares_are_gathered(store: Store) -> None:
    run = make_run(store, "20260101-a")
    with duckdb.connect(str(run.database)) as connection:
        connection.execute('UPDATE evaluators SET identity = \'{"judge": {"model": "judge-a", "epoch": 2}}\'')
        connection.execute(
            "INSERT INTO slices BY NAME SELECT 'category' AS slice_column, 'tides' AS slice_value, 0 AS metric_id, "
            "1 AS model_id, 1 AS n_rows, 1 AS n_cases, 1 AS n_scored, 0 AS n_unscored, 0.4 AS value"
        )
        connection.execute(
            "INSERT INTO flip_rates BY NAME SELECT 0 AS metric_id, 1 AS model_id, '' AS perturbation, 4 AS n_pairs, "
            "1 AS n_passed_to_failed, 0 AS n_failed_to_passed, 0.25 AS rate, 0.01 AS ci_low, 0.8 AS ci_high, "
            "0 AS n_pairs_repeated, 0 AS n_same_answer, 0 AS n_flips_same_answer"
        )
    found = history(store)
    assert found.gather(60) == 0
    kept = {
        (line["measure"], line["evaluator"], line["metric"]): line
        for line in found.lines("choices", found.index.lines())
    }
    assert set(kept) == {("value", "bleu", "bleu_1"), ("flips", "bleu", "bleu_1"), ("fails", "", "right")}
    assert kept["value", "bleu", "bleu_1"]["slices"] == ["category=tides"]
    (mean,) = found.lines("series", found.index.lines(), measure="value", evaluator="bleu", metric="bleu_1", slice=None)
    expected = {"model": "beta", "value": 0.1, "low": 0.05, "high": 0.15, "n": 1, "verdict": "fail", "is_share": True}
    assert {name: mean[name] for name in expected} == expected
    assert (mean["judge"], mean["epoch"]) == ("judge-a", 2)
    failing = found.lines("series", found.index.lines(), measure="fails", evaluator="", metric="right", slice=None)
    assert {line["model"]: (line["value"], line["n"]) for line in failing} == {"alpha": (0.0, 1), "beta": (1.0, 1)}


def test_a_published_run_says_the_same_by_its_own_points_as_by_its_database(tmp_path: Path) -> None:
    store, run = make_sample(tmp_path, cases=20)
    run.update({"status": "completed"})
    found = history(store)
    found.gather(60)
    by_database = points(found)
    publish_results(store, run, None)
    shutil.rmtree(found.folder)
    run.database.unlink()
    found.gather(60)
    assert points(found) == by_database
    assert {line["measure"] for line in by_database} >= {"value", "flips", "fails"}


def test_points_belong_to_the_run_in_whose_folder_they_are(store: Store) -> None:
    published(store, "20260101-a")
    shutil.copytree(store.run("20260101-a").path, store.run("20260102-b").path)
    found = history(store)
    found.gather(60)
    assert values(found) == {"20260101-a": 0.1, "20260102-b": 0.1}


@pytest.mark.parametrize("content", [b"", b"PAR1 no points"])
def test_runs_beside_one_whose_points_are_damaged_are_read_from_their_databases(store: Store, content: bytes) -> None:
    published(store, "20260101-a")
    published(store, "20260102-b").points.write_bytes(content)
    make_run(store, "20260103-c")
    found = history(store)
    assert found.gather(60) == 0
    assert values(found) == {"20260101-a": 0.1, "20260102-b": 0.1, "20260103-c": 0.1}


def test_points_of_a_bucket_are_fetched_without_the_database(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "other"))
    store = Store.open(s3.url)
    store.share_results(published(store, "20260101-a"))
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "mine"))
    found = history(Store.open(s3.url))
    found.gather(60)
    assert values(found) == {"20260101-a": 0.1}
    assert not found.store.run("20260101-a").database.exists()


def test_a_run_is_read_once_and_a_new_one_beside_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    make_run(store, "20260101-a")
    assert history(store).gather(60) == 0
    read: list[str] = []
    gather_run = RunHistory._gather_run
    monkeypatch.setattr(
        RunHistory,
        "_gather_run",
        lambda self, connection, line: (read.append(line.id), gather_run(self, connection, line)),
    )
    make_run(store, "20260102-b")
    make_run(store, "20260103-c", record={"status": "running"})
    later = history(store)
    later.gather(60)
    assert read == ["20260102-b"]
    assert values(later) == {"20260101-a": 0.1, "20260102-b": 0.1}


def test_what_there_is_no_time_for_is_read_at_the_next_call(store: Store) -> None:
    for number in range(3):
        make_run(store, f"20260101-{number}")
    found = history(store)
    assert [found.gather(1e-9) for _ in range(2)] == [3, 3]
    assert found.gather(60) == 0
    assert len(values(found)) == 3


def test_points_outlive_the_results_of_their_run_and_go_with_the_run(store: Store) -> None:
    for name in ("20260101-a", "20260102-b"):
        make_run(store, name)
    history(store).gather(60)
    store.run("20260101-a").database.unlink()
    shutil.rmtree(store.run("20260102-b").path)
    assert values(history(store)) == {"20260101-a": 0.1}


def test_files_of_a_killed_process_and_of_other_formats_count_nowhere(store: Store) -> None:
    make_run(store, "20260101-a")
    found = history(store)
    found.gather(60)
    (file,) = found.folder.glob("*.parquet")
    shutil.copy(file, found.folder / "0000000000000000.parquet")
    (found.folder.parent / "0").mkdir()
    assert values(history(store)) == {"20260101-a": 0.1}
    make_run(store, "20260102-b")
    history(store).gather(60)
    assert not (found.folder / "0000000000000000.parquet").exists()
    assert not (found.folder.parent / "0").exists()


@pytest.mark.parametrize("damage", ["no index", "broken index", "a file is gone", "all is gone"])
def test_what_is_damaged_or_deleted_is_gathered_anew(store: Store, damage: str) -> None:
    make_run(store, "20260101-a")
    found = history(store)
    found.gather(60)
    index = found.folder / "index.json"
    if damage == "no index":
        index.unlink()
    elif damage == "broken index":
        index.write_text('{"files": [')
    elif damage == "a file is gone":
        next(found.folder.glob("*.parquet")).unlink()
    else:
        shutil.rmtree(found.folder.parent)
    again = history(store)
    assert again.gather(60) == 0
    assert values(again) == {"20260101-a": 0.1}


def test_many_small_files_become_one_and_a_reader_of_the_former_index_still_finds_them(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_FILES", 3)
    found, former = history(store), ()
    for number in range(8):
        make_run(store, f"20260101-{number}")
        before = found.kept().files
        history(store).gather(60)
        assert all((found.folder / name).exists() for name in before)
        former = former or (before if len(found.kept().files) < len(before) else ())
    assert former
    assert len(found.kept().files) <= 3
    assert len(list(found.folder.glob("*.parquet"))) <= 6
    assert len(values(history(store))) == 8


def test_a_run_that_cannot_be_read_has_no_points_and_is_not_tried_again(store: Store) -> None:
    make_run(store, "20260101-a").database.write_bytes(b"no database")
    make_run(store, "20260102-b")
    found = history(store)
    assert found.gather(60) == 0
    assert values(found) == {"20260102-b": 0.1}
    known = json.loads(Path(found.folder / "index.json").read_text())
    assert known["runs"] == ["20260101-a", "20260102-b"]


def judged(store: Store, run_id: str) -> Run:
    """Make a run of six rows, of which a metric passes four, that has written its points."""
    answers = [ANSWERS[0] | {"case": f"c{n}", "model": ("alpha", "beta")[n % 2]} for n in range(6)]
    return published(store, run_id, answers=answers, values=[1.0, 0.0, 1.0, 1.0, 0.0, 1.0])


def judge_by_hand(store: Store, run: Run, value: float, at: str) -> None:
    """Label every row that a run's metric scored."""
    keys = read_judged_rows(store, run, "bleu").keys
    LabelSet(store).add([Label(key=key, question="bleu.bleu_1", value=value, person="ann", at=at) for key in keys])


def corrected(found: RunHistory) -> dict[str, float]:
    """Return what labels make of beta's mean of BLEU, by run."""
    lines = found.lines(
        "series", found.index.lines(), measure="corrected", evaluator="bleu", metric="bleu_1", slice=None
    )
    return {line["run"]: line["value"] for line in lines if line["model"] == "beta"}


def test_means_are_corrected_by_the_labels_of_today_and_runs_stay_as_they_were_published(store: Store) -> None:
    run, found = judged(store, "20260101-a"), history(store)
    assert found.gather(60) == 0
    assert corrected(found) == {}
    kept, files = values(found), [path.read_bytes() for path in (run.database, run.points)]
    judge_by_hand(store, run, 1.0, "2026-02-01")
    assert found.gather(60) == 0
    assert corrected(found) == {run.id: 1.0}
    judged(store, "20260102-b")
    found = history(store)  # an index is fresh for seconds
    judge_by_hand(store, run, 0.0, "2026-02-02")
    assert found.gather(60) == 0
    assert corrected(found) == {run.id: 0.0, "20260102-b": 0.0}
    shutil.rmtree(store.root / "labels")
    assert found.gather(60) == 0
    assert corrected(found) == {}
    assert values(found) == {**kept, "20260102-b": kept[run.id]}
    assert [path.read_bytes() for path in (run.database, run.points)] == files


def test_runs_are_corrected_as_time_allows_the_newest_first_and_those_without_results_stay(store: Store) -> None:
    runs = [judged(store, f"2026010{day}-a") for day in (1, 2, 3)]
    found = history(store)
    judge_by_hand(store, runs[0], 1.0, "2026-02-01")
    assert found.gather(60) == 0
    runs[1].update({DROPPED: "2026-02-01"})
    judge_by_hand(store, runs[0], 0.0, "2026-02-02")
    assert found.gather(0) == 2
    assert found.gather(0) == 0, "of the run without results nothing is asked"
    assert corrected(found) == {runs[0].id: 0.0, runs[1].id: 1.0, runs[2].id: 0.0}


def test_nobody_opens_runs_whose_metrics_nobody_was_asked_about(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    published(store, "20260101-a")
    found = history(store)
    LabelSet(store).add([Label(key="0" * 32, question="toy.value", value=1.0, person="ann", at="2026-02-01")])
    monkeypatch.delattr(PresentLabels, "correct")
    assert found.gather(60) == 0
    assert corrected(found) == {}
