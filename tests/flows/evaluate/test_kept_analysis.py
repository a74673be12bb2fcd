"""Reruns that compute nothing take over an earlier run's analysis: the same results, and never where that differs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pytest

from leadline.flows.evaluate.config import EvaluateConfig
from leadline.flows.evaluate.job import Evaluate
from leadline.tasks import pipeline
from leadline.tasks.analyse.kept_analysis import FINDINGS, MEANS, analysis_digest
from leadline.tasks.db import open_run
from leadline.tasks.db.csv_files import VARIABLE
from leadline.tasks.judges.labels.judged_rows import judged_rows, row_metrics
from leadline.tasks.judges.labels.label_sets import LabelSet
from leadline.tasks.load.label import Label
from leadline.tasks.plan.jobs import read_jobs
from leadline.tasks.store.store import JOBS, JUDGES, Run, Store

VARYING: set[str] = {
    "run", "id", "created", "started", "finished", "seconds", "time", "process", "chunk_seconds", "evaluator_seconds",
    "analysis", "reused", "computed", "store",
}  # fmt: skip
POLICY = """name = "ours"
base = "default"
[rules.rouge]
role = "should"
threshold = {least}
"""
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # of evaluators, drawn from the run's name
NOTHING, MEANS_ALONE, BOTH = (False, False), (True, False), (True, True)
COMPARED = ("baseline", "model_changes", "metric_changes", "row_changes")


def write_answers(path: Path, *, worse: int = 0) -> Path:
    """Write the answers of two models to 24 cases, half of them copies; the last of the first model may be worse."""
    with path.open("w", encoding="utf-8") as file:
        for number in range(24):
            text = f"Berth {number % 12} is nine metres deep at the {'north' if number % 2 else 'south'} mole."
            for model, answer in (("a", text if number < 24 - worse else "I do not know."), ("b", text[: 8 + number])):
                row = {
                    "case": f"c{number}",
                    "model": model,
                    "question": f"How deep is berth {number % 12}, number {number}?",
                    "expected_answer": text,
                    "actual_answer": answer,
                    "categories": ["north" if number % 2 else "south"],
                }
                file.write(json.dumps(row) + "\n")
    return path


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    """A file of answers."""
    return write_answers(tmp_path / "answers.jsonl")


def evaluated(answers: Path, store: Path, **settings: Any) -> Run:
    """Evaluate answers, and return the run."""
    asked = {"evaluators": ["bleu", "rouge", "text_matching"]} | settings
    result = Evaluate()(EvaluateConfig(dataset=str(answers), store=str(store), **asked))
    return Store.open(store).run(result.run)


def taken(run: Run) -> tuple[bool, bool]:
    """Return whether a run took over means, and findings."""
    analysis = run.read()["analysis"]
    return bool(analysis.get("of")), bool(analysis["findings_of"])


def lasting(value: Any, run: str) -> Any:
    """Return what a run left without its name and its times."""
    if isinstance(value, dict):
        return {name: lasting(part, run) for name, part in value.items() if name not in VARYING}
    if isinstance(value, list):
        return [lasting(part, run) for part in value]
    return UUID.sub("ID", value.replace(run, "RUN")) if isinstance(value, str) else value


def report(run: Run) -> Any:
    """Return a run's ``report.json`` without the run's name and times."""
    left = lasting(json.loads((run.results / "report.json").read_text(encoding="utf-8")), run.id)
    left["record"].pop("report", None)
    return left


def tables(run: Run, names: tuple[str, ...]) -> Mapping[str, list[tuple[Any, ...]]]:
    """Return the lines of tables of a run."""
    with duckdb.connect(str(run.database), read_only=True) as connection:
        return {name: connection.execute(f"FROM {name}").fetchall() for name in names}


def test_a_rerun_leaves_what_an_analysis_in_another_store_leaves(answers: Path, tmp_path: Path) -> None:
    first = evaluated(answers, tmp_path / "store", against="none")
    again = evaluated(answers, tmp_path / "store", against="none")
    fresh = evaluated(answers, tmp_path / "other", against="none")
    assert (taken(first), taken(again), taken(fresh)) == (NOTHING, BOTH, NOTHING)
    assert report(again) == report(fresh)
    assert tables(again, MEANS + FINDINGS) == tables(fresh, MEANS + FINDINGS)
    assert all(tables(again, ("scores", "aggregates", "slices", "problems")).values())


def test_the_page_has_the_same_cases_also_where_the_earlier_page_is_damaged(answers: Path, tmp_path: Path) -> None:
    first = evaluated(answers, tmp_path / "store", against="none")
    again = evaluated(answers, tmp_path / "store", against="none")
    pages = [run.results / "report.html" for run in (first, again)]
    assert cases_of(pages[0]) == cases_of(pages[1])
    for page in pages:
        page.write_text(page.read_text().replace('id="data">', 'id="data">AAAA'))
    third = evaluated(answers, tmp_path / "store", against="none")
    assert taken(third) == BOTH
    assert cases_of(third.results / "report.html") == cases_of(pages[0]).removeprefix("AAAA")


def cases_of(page: Path) -> str:
    """Return the packed cases of a page."""
    found = re.search('id="data">([^<]+)<', page.read_text(encoding="utf-8"))
    assert found
    return found[1]


@pytest.mark.parametrize("file", ["scores.parquet", "aggregates.csv", "scores.csv"])
def test_files_are_the_same_and_a_damaged_one_is_written_anew(answers: Path, tmp_path: Path, file: str) -> None:
    first = evaluated(answers, tmp_path / "store", against="none")
    names = ("aggregates.csv", "slices.csv", "problems.csv", "scores.csv", "flips.csv", "scores.parquet")
    whole = {name: (first.results / name).read_bytes() for name in names}
    (first.results / file).write_bytes(b"damaged")
    again = evaluated(answers, tmp_path / "store", against="none")
    assert taken(again) == BOTH
    assert {name: (again.results / name).read_bytes() for name in names} == whole


def test_tables_that_are_to_be_written_otherwise_are_another_analysis(
    answers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluated(answers, tmp_path / "store")
    monkeypatch.setenv(VARIABLE, "exact")
    assert taken(evaluated(answers, tmp_path / "store")) == NOTHING


def test_what_did_not_change_since_a_baseline_is_taken_over_as_it_would_be_found(
    answers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store"
    _, second, third = (evaluated(answers, store) for _ in range(3))
    assert (taken(second), taken(third)) == (BOTH, BOTH)
    monkeypatch.setattr(pipeline, "earlier_analysis", lambda *_: None)
    fresh = evaluated(answers, store, against=second.id)
    assert taken(fresh) == NOTHING
    assert tables(third, COMPARED) == tables(fresh, COMPARED)
    assert third.read()["changed"] == f"since run {second.id}: nothing changed"


def test_a_run_with_another_name_and_other_folders_takes_it_over(answers: Path, tmp_path: Path) -> None:
    evaluated(answers, tmp_path / "store")
    again = evaluated(answers, tmp_path / "store", name="build 7", output=str(tmp_path / "out"))
    assert taken(again) == BOTH
    assert again.read()["name"] == "build 7"


@pytest.mark.parametrize(
    "settings",
    [
        {"params": {"bleu": {"metric_threshold": 0.123}}},
        {"slices": ["question_length"]},
        {"model_keys": ["a"]},
        {"min_coverage": 0.9},
        {"evaluators": ["bleu", "rouge"]},
        {"gate_on": "judge"},
        {"policy": "strict"},
    ],
)
def test_it_is_made_anew_where_something_else_is_asked(
    answers: Path, tmp_path: Path, settings: Mapping[str, Any]
) -> None:
    evaluated(answers, tmp_path / "store")
    assert taken(evaluated(answers, tmp_path / "store", **settings)) == NOTHING


def test_it_is_made_anew_by_another_text_of_a_policy(answers: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    found = []
    for least in (0.5, 0.6, 0.6):
        policy.write_text(
            f'name = "ours"\nbase = "default"\n[rules."bleu.bleu_4"]\nrole = "should"\nthreshold = {least}\n'
        )
        found.append(evaluated(answers, tmp_path / "store", policy=str(policy)))
    assert [taken(run) for run in found] == [NOTHING, NOTHING, BOTH]


def test_a_run_with_enrolled_judges_is_always_analysed_anew(answers: Path, tmp_path: Path) -> None:
    run, store = evaluated(answers, tmp_path / "store"), Store.open(tmp_path / "store")
    _, jobs = read_jobs(run.plan / JOBS)
    with open_run(store, run, read_only=True) as connection:
        assert analysis_digest(connection, store, run, jobs) == run.read()["analysis"]["digest"]
        run.update({JUDGES: {"mini": {"key": "k"}}})
        assert analysis_digest(connection, store, run, jobs) == ""


def test_labels_have_their_say_in_findings(answers: Path, tmp_path: Path) -> None:
    first = evaluated(answers, tmp_path / "store")
    store = Store.open(tmp_path / "store")
    with open_run(store, first, read_only=True) as connection:
        metric = next(metric for metric in row_metrics(connection) if metric.id.startswith("bleu."))
        keys = judged_rows(connection, metric).keys
    LabelSet(store, "people").add([Label(key, metric.id, 1.0, "ann", "2026-01-01") for key in keys[:9]])
    labelled = evaluated(answers, tmp_path / "store")
    assert tables(labelled, ("certificates",))["certificates"], "the labels are of the run's rows"
    assert taken(labelled) == MEANS_ALONE
    assert taken(evaluated(answers, tmp_path / "store")) == MEANS_ALONE


def test_broken_rows_are_found_by_each_run_that_has_them(answers: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text(POLICY.format(least=0.5))
    asked = {"policy": str(policy), "store": tmp_path / "store"}
    good = evaluated(answers, **asked)
    write_answers(answers, worse=12)
    worse, again = (evaluated(answers, **asked, against=good.id) for _ in range(2))
    assert taken(again) == MEANS_ALONE
    assert tables(again, COMPARED) == tables(worse, COMPARED)
    calm = evaluated(answers, **asked, against="none")
    assert taken(calm) == MEANS_ALONE
    found = ["regression" in str(tables(run, ("problems",))) for run in (worse, again, calm)]
    assert found == [True, True, False]


@pytest.mark.parametrize("damage", [lambda _: b"", lambda old: old[:20_000] + bytes(80_000) + old[100_000:]])
def test_a_damaged_database_is_as_none(answers: Path, tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    first = evaluated(answers, tmp_path / "store", against="none")
    whole = tables(first, MEANS + FINDINGS)
    first.database.write_bytes(damage(first.database.read_bytes()))
    again = evaluated(answers, tmp_path / "store", against="none")
    assert taken(again) == NOTHING
    assert tables(again, MEANS + FINDINGS) == whole


def test_a_damaged_record_and_dropped_results_are_as_none(answers: Path, tmp_path: Path) -> None:
    first = evaluated(answers, tmp_path / "store", against="none")
    first.update({"dropped": "2026-01-01"})
    second = evaluated(answers, tmp_path / "store", against="none")
    assert taken(second) == NOTHING
    (first.path / "run.json").write_text("{")
    assert taken(evaluated(answers, tmp_path / "store", against=second.id)) == BOTH


def test_a_change_of_the_code_is_another_analysis(
    answers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluated(answers, tmp_path / "store")
    monkeypatch.setattr("leadline.tasks.analyse.kept_analysis._code", lambda room: [[room, 1, 2]])
    assert taken(evaluated(answers, tmp_path / "store")) == NOTHING
