"""Dropping what a store needs no more, beside what is in work, and which runs keep their results."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import leadline
from leadline.evaluators.ground import StoreError, UsageError
from leadline.plugins.ops.maintenance import garbage
from leadline.plugins.ops.maintenance.contents import LOCK
from leadline.plugins.ops.maintenance.garbage import GarbageItem, drop_garbage, find_garbage
from leadline.plugins.ops.maintenance.retention import Retention, load_retention, runs_to_drop, seconds_of
from leadline.tasks.db import open_run
from leadline.tasks.ground.files import digest, locked, write_json
from leadline.tasks.ground.processes import process_record
from leadline.tasks.runs.lookup import find_run, find_tagged, set_tag
from leadline.tasks.runs.run_facts import summary
from leadline.tasks.store.store import Run, Store
from leadline.tasks.store.vectors import used_mark
from tests.support.stores.runs import ANSWERS, make_run

DAY = 86_400.0
OLD = Retention(older_than=30 * DAY)


def aged(path: Path, days: float = 60) -> Path:
    """Make a file, or all of a folder, look as old as that."""
    when = time.time() - days * DAY
    for each in [path, *path.rglob("*")] if path.is_dir() else [path]:
        os.utime(each, (when, when))
    return path


def named(found: Iterable[GarbageItem], kind: str) -> list[str]:
    return [item.name for item in found if item.kind == kind]


def old_run(store: Store, run_id: str = "20260101-100000-aaaaaa", answer: str = "A1", **record: Any) -> Run:
    """Make a completed run of a dataset of its own, with a report, at the beginning of 2026."""
    answers = [{**ANSWERS[0], "answer": answer}, *ANSWERS[1:]]
    run = make_run(store, run_id, answers=answers, record={"started": "2026-01-01T10:00:00+00:00", **record})
    run.results.mkdir()
    (run.results / "report.html").write_text("<p>report</p>" * 1000, encoding="utf-8")
    run.unscored.mkdir()
    dataset = store.dataset(run.read()["dataset"])
    (dataset / "manifest.json").write_text("{}", encoding="utf-8")
    aged(dataset)
    return run


def scores(store: Store, identity: dict[str, Any], days: float = 60) -> Path:
    folder = store.scores("bleu", digest(identity))
    write_json(folder / "config.json", identity)
    (folder / "r-cpu-0000.parquet").write_bytes(b"PAR1" + bytes(100))
    return aged(folder, days)


def young(**record: Any) -> dict[str, Any]:
    return {"started": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime()), **record}


def test_what_can_go_is_only_listed_at_first(store: Store) -> None:
    run = old_run(store)
    dataset = run.read()["dataset"]
    found = find_garbage(store, OLD)
    assert [(item.kind, item.name) for item in found] == [("run", run.id), ("dataset", dataset)]
    assert all(item.bytes > 10_000 for item in found if item.kind == "run")
    assert run.database.exists()
    assert store.dataset(dataset).exists()


def test_results_go_and_the_record_stays(store: Store) -> None:
    run = old_run(store)
    before = sum(path.stat().st_size for path in store.root.rglob("*") if path.is_file())
    freed = sum(item.bytes for item in drop_garbage(store, OLD))
    after = sum(path.stat().st_size for path in store.root.rglob("*") if path.is_file())
    assert [path.name for path in run.path.iterdir() if not path.name.startswith(".")] == ["run.json"]
    assert list((store.root / "datasets").glob("[!.]*")) == []
    assert abs(before - after - freed) < 300  # the record has got the date, and there are empty lock files
    assert summary(run)["status"] == "dropped"
    assert summary(run)["gate"] == "fail"
    with pytest.raises(UsageError, match=r"were dropped by leadline store gc on 20"), open_run(store, run):
        pass
    with pytest.raises(UsageError, match="No run in the store"):
        find_run(store, "latest")
    assert list(drop_garbage(store, OLD)) == []


def test_a_dataset_stays_while_a_run_with_results_uses_it_or_somebody_just_did(store: Store) -> None:
    kept = old_run(store, "20260101-100000-aaaaaa", "used", **young())
    old_run(store, "20260101-100000-bbbbbb", "used")
    fresh = old_run(store, "20260101-100000-cccccc", "fresh")
    store.use_dataset(fresh.read()["dataset"])
    assert named(drop_garbage(store, OLD), "dataset") == []
    assert store.dataset(kept.read()["dataset"]).exists()
    aged(store.dataset(fresh.read()["dataset"]))
    assert named(drop_garbage(store, OLD), "dataset") == [fresh.read()["dataset"]]


@pytest.mark.parametrize("name", ["canary_dataset", "third_rows_dataset"])
def test_the_canaries_and_third_rows_of_a_run_in_work_stay(store: Store, name: str) -> None:
    used = old_run(store, "20260101-100000-bbbbbb", "used").read()["dataset"]
    old_run(store, status="running", **{name: used})
    assert named(drop_garbage(store, OLD), "dataset") == []
    assert store.dataset(used).exists()


def test_a_tag_that_is_set_at_the_last_moment_keeps_the_run(store: Store) -> None:
    first, second = old_run(store), old_run(store, "20260101-100000-bbbbbb", "other")
    dropping = drop_garbage(store, OLD)
    assert next(dropping).name == first.id  # the search is over: both were found
    set_tag(store, second, "production")
    assert named(dropping, "run") == []
    assert find_tagged(store, "production").id == second.id
    with open_run(store, second, read_only=True) as connection:
        assert connection.execute("SELECT count(*) FROM scores").fetchall() == [(3,)]


def test_a_dropped_run_gets_no_tag(store: Store) -> None:
    run = old_run(store)
    list(drop_garbage(store, OLD))
    with pytest.raises(UsageError, match="were dropped"):
        set_tag(store, run, "production")
    assert "tags" not in run.read()


def test_either_the_tag_or_the_drop_comes_first(store: Store, tmp_path: Path) -> None:
    code = (
        "import sys; from leadline.tasks.store.store import Store; from leadline.tasks.runs.lookup import set_tag\n"
        "from leadline.evaluators.ground.errors import UsageError\n"
        "store = Store.open(sys.argv[1]); print('ready', flush=True); sys.stdin.readline()\n"
        "for run in store.runs():\n"
        "    try: set_tag(store, run, 'keep-' + run.id); print(run.id, flush=True)\n"
        "    except UsageError: pass\n"
    )
    runs = [old_run(store, f"20260101-1000{n:02}-aaaaaa", f"answer {n}") for n in range(20)]
    tagging = subprocess.Popen(
        [sys.executable, "-c", code, str(store.root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert tagging.stdout is not None
    assert tagging.stdout.readline() == "ready\n"
    output = None
    dropped = []
    for item in drop_garbage(store, OLD):
        if output is None and tagging.stdin is not None:
            output = tagging.stdin.write("\n")
            tagging.stdin.flush()
        dropped += [item.name] * (item.kind == "run")
    tagged = tagging.communicate()[0].split()
    assert sorted(dropped + tagged) == [run.id for run in runs]
    assert {run.id for run in runs if run.database.exists()} == set(tagged)
    assert {run.id for run in runs if "tags" in run.read()} == set(tagged)


def test_runs_in_work_keep_everything(store: Store) -> None:
    identity = {"evaluator": "bleu", "version": 1}
    run = old_run(store, status="running", identities={"bleu": identity})
    scores(store, identity)
    assert list(drop_garbage(store, Retention(older_than=0, scores_older_than=0))) == []
    assert run.database.exists()


def test_a_run_whose_process_was_killed_is_no_run_in_work(store: Store) -> None:
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    process = process_record() | {"pid": int(ended.stdout), "started": "1"}
    run = old_run(store, status="running", process=process)
    write_json(store.root / "alive" / f"{run.id}.json", {"process": process, "beat": 0})
    assert named(drop_garbage(store, OLD), "run") == [run.id]


def test_scores_stay_unless_asked_and_while_a_run_uses_them(store: Store) -> None:
    used, unused, fresh = ({"evaluator": "bleu", "version": n} for n in range(3))
    old_run(store, **young(identities={"bleu": used}))
    folders = [scores(store, used), scores(store, unused), scores(store, fresh, days=1)]
    assert list(drop_garbage(store, OLD)) == []
    found = list(drop_garbage(store, Retention(scores_older_than=30 * DAY)))
    assert named(found, "scores") == [f"scores/bleu/{digest(unused)}"]
    assert [folder.exists() for folder in folders] == [True, False, True]


def test_scores_that_a_run_begins_to_use_come_back(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    identity = {"evaluator": "bleu", "version": 1}
    folder = scores(store, identity)
    aside = garbage._put_aside

    def put_aside(path: Path) -> Path:
        old_run(store, status="running", identities={"bleu": identity})
        return aside(path)

    monkeypatch.setattr(garbage, "_put_aside", put_aside)
    assert list(drop_garbage(store, Retention(scores_older_than=DAY))) == []
    assert (folder / "r-cpu-0000.parquet").exists()


def test_a_dataset_that_somebody_just_loads_comes_back(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = old_run(store).read()["dataset"]
    aside = garbage._put_aside

    def put_aside(path: Path) -> Path:
        assert store.use_dataset(dataset)
        return aside(path)

    monkeypatch.setattr(garbage, "_put_aside", put_aside)
    assert named(drop_garbage(store, OLD), "dataset") == []
    assert (store.dataset(dataset) / "models.parquet").exists()


def test_embeddings_that_are_used_stay(store: Store) -> None:
    for name in ("used", "unused"):
        folder = store.vectors(name)
        folder.mkdir(parents=True)
        (folder / "a.parquet").write_bytes(bytes(10))
        aged(folder)
    used_mark(store.vectors("used")).touch()
    assert named(drop_garbage(store, Retention(scores_older_than=30 * DAY)), "embeddings") == ["vectors/unused"]
    assert store.vectors("used").exists()


def test_old_comparisons_and_what_killed_processes_left_go(store: Store) -> None:
    comparison = store.root / "comparisons" / "abc"
    comparison.mkdir(parents=True)
    (comparison / "report.html").write_text("x", encoding="utf-8")
    aged(comparison)
    staged = store.root / "staging" / "load-00000000-x"
    staged.mkdir(parents=True)
    (staged / "stage.duckdb").write_bytes(bytes(5000))
    aged(staged)
    (store.root / "tmp").mkdir()
    spilled = aged(Path(shutil.copy(staged / "stage.duckdb", store.root / "tmp" / "spilled.tmp")))
    found = list(drop_garbage(store, OLD))
    assert named(found, "comparison") == ["abc"]
    assert named(found, "temporary") == ["staging/load-00000000-x", "tmp/spilled.tmp"]
    assert not comparison.exists()
    assert not staged.exists()
    assert not spilled.exists()


def test_a_killed_clean_up_is_finished_by_the_next(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    run = old_run(store)

    class Killed(BaseException):
        pass

    def kill(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr("leadline.plugins.ops.maintenance.contents.Contents.delete", kill)
        with pytest.raises(Killed):
            list(drop_garbage(store, OLD))
    assert summary(run)["status"] == "dropped"
    assert run.database.exists()
    (item,) = [item for item in drop_garbage(store, Retention()) if item.kind == "run"]
    assert item.name == run.id
    assert not run.database.exists()


def test_two_clean_ups_do_not_run_at_once(store: Store) -> None:
    with locked(store.root / LOCK), pytest.raises(StoreError, match="Another process cleans"):
        list(drop_garbage(store, OLD))


def test_a_result_whose_run_was_cleared_away_says_so(tmp_path: Path) -> None:
    row = {"question": "q", "actual_answer": "a", "expected_answer": "b", "model": "bot\x1b[31m\n"}
    result = leadline.evaluate([row], metrics=["exact_match"], store=tmp_path)
    assert repr(result).isprintable()
    assert list(drop_garbage(result.store, Retention(keep_last=0)))
    assert result._repr_html_() is None
    for ask in (result.to_html, lambda: result.scores, lambda: result.show("q")):
        with pytest.raises(UsageError, match="were dropped by leadline store gc"):
            ask()


NOW = datetime(2026, 6, 30, tzinfo=UTC).timestamp()


def record(day: int, **fields: Any) -> dict[str, Any]:
    """Return the record of a run of June 2026."""
    return {"status": "completed", "started": f"2026-06-{day:02}T00:00:00+00:00", "dataset_name": "suite"} | fields


def test_without_rules_all_runs_keep_their_results() -> None:
    assert runs_to_drop({"a": record(1), "b": record(2)}, Retention(), NOW) == {}


def test_the_youngest_runs_of_each_dataset_stay() -> None:
    runs = {"a": record(1), "b": record(2), "c": record(3), "rare": record(1, dataset_name="other")}
    assert list(runs_to_drop(runs, Retention(keep_last=2), NOW)) == ["a"]


def test_runs_that_scored_others_again_take_no_place_of_the_youngest() -> None:
    runs = {"a": record(1), "b": record(2), "c": record(3), "again": record(4, rescored="c")}
    assert list(runs_to_drop(runs, Retention(keep_last=2), NOW)) == ["a"]


def test_both_rules_together_drop_what_both_allow() -> None:
    runs = {f"r{day:02}": record(day) for day in range(1, 30)}
    found = runs_to_drop(runs, Retention(keep_last=3, older_than=10 * DAY), NOW)
    assert list(found) == [f"r{day:02}" for day in range(1, 20)]
    assert found["r01"] == "29 days old, 28 younger runs of its dataset"


def test_a_run_in_work_and_one_that_is_needed_stay() -> None:
    runs = {"a": record(1, status="running"), "b": record(1), "c": record(1, status="lost")}
    assert list(runs_to_drop(runs, Retention(older_than=DAY), NOW, needed={"b"})) == ["c"]


def test_failed_runs_do_not_count_among_the_youngest_and_go_like_the_others() -> None:
    runs = {"a": record(1), "b": record(2, status="failed"), "c": record(3), "d": record(4, status="failed")}
    assert list(runs_to_drop(runs, Retention(keep_last=2), NOW)) == []
    assert list(runs_to_drop(runs, Retention(keep_last=1), NOW)) == ["a", "b"]


@pytest.mark.parametrize(
    ("patterns", "dropped"), [(("*",), ["c"]), (("production",), ["b", "c"]), (("release-*", "prod*"), ["c"])]
)
def test_tags_keep_results(patterns: tuple[str, ...], dropped: list[str]) -> None:
    runs = {"a": record(1, tags={"production": "2026"}), "b": record(1, tags={"release-1": "2026"}), "c": record(1)}
    assert list(runs_to_drop(runs, Retention(older_than=DAY, keep_tags=patterns), NOW)) == dropped


@pytest.mark.parametrize(("text", "seconds"), [("90m", 5400), ("12h", 43_200), ("30d", 30 * DAY), ("8w", 56 * DAY)])
def test_durations_are_read(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "30", "d", "-3d", "3 days", "1.5d", "99999999d", "٣d"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no duration"):
        seconds_of(text)


def test_settings_complete_what_the_command_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_retention() == Retention()
    text = '[retention]\nkeep_last = 30\nolder_than = "90d"\nkeep_tags = ["production"]\nscores_older_than = "26w"\n'
    Path("leadline.toml").write_text(text, encoding="utf-8")
    assert load_retention() == Retention(30, 90 * DAY, ("production",), 182 * DAY)
    assert load_retention(2, "1d", ("x",), "2d") == Retention(2, DAY, ("x",), 2 * DAY)
    Path("leadline.toml").write_text("[retention]\nkeep_lsat = 30\n", encoding="utf-8")
    with pytest.raises(UsageError, match="keep_lsat"):
        load_retention()
