"""Scoring the answers of earlier runs again: by another judge over real HTTP, priced before, and paid for once."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leadline.evaluators.core import get
from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.flows.evaluate.config import EvaluateConfig
from leadline.flows.evaluate.job import Evaluate
from leadline.flows.rescore import Rescore, RescoreConfig, RescoreResult
from leadline.tasks.ledger.ledger import read_ledger
from leadline.tasks.runs.baseline import find_baseline
from leadline.tasks.runs.lookup import find_run
from leadline.tasks.runs.run_index import RunIndex
from leadline.tasks.store.store import Store
from tests.support.judges.berths import passing, write_berths
from tests.support.judges.judge_endpoint import JudgeEndpoint, serving
from tests.support.processes.terminal import Terminal

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

ROWS = 24
JUDGED = "databricks.correctness"


class Nights:
    """A folder with two judges and a store, in which a dataset is evaluated night by night."""

    def __init__(self, folder: Path, old: JudgeEndpoint, new: JudgeEndpoint) -> None:
        self.folder, self.old, self.new = folder, old, new
        price = {"input_cost_per_token": 1e-6, "output_cost_per_token": 1e-6}
        tables = (old.toml("old", model="openai/old", **price), new.toml("new", model="openai/new", **price))
        (folder / "leadline.toml").write_text("".join(tables))
        self.place = str(folder / "store")

    @property
    def store(self) -> Store:
        return Store.open(self.place)

    def night(
        self, name: str = "rows", changed: Callable[[int], str] = lambda n: "", judge: str = "old", *others: str
    ) -> str:
        """Evaluate berths whose answers end with a text, and return the run."""
        file = write_berths(self.folder / f"{name}.jsonl", ROWS)
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        for number, row in enumerate(rows):
            row["actual_answer"] += changed(number)
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        settings = {
            "dataset": str(file),
            "evaluators": (JUDGED, *others),
            "judges": {"model": judge},
            "dispatch": "inline",
        }
        return Evaluate()(EvaluateConfig.model_validate(settings | {"store": self.place, "name": name})).run

    def rescored(self, judge: str | None = "new", **asked: Any) -> RescoreResult:
        budget = {name: asked.pop(name) for name in ("max_calls", "max_cost") if name in asked}
        settings = {"judges": {"model": judge, **budget}, "store": self.place, "yes": True}
        return Rescore()(RescoreConfig.model_validate(settings | asked))


@pytest.fixture
def nights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nights]:
    monkeypatch.chdir(tmp_path)
    with serving(JudgeEndpoint(passing(0.9))) as old, serving(JudgeEndpoint(passing(0.5))) as new:
        yield Nights(tmp_path, old, new)


def test_the_price_is_told_before_and_rows_that_runs_share_are_paid_for_once(nights: Nights) -> None:
    first = nights.night()
    second = nights.night(changed=lambda n: " Late." if n < 5 else "")
    told = nights.rescored(yes=False)
    assert (told.planned_calls, len(nights.new.log)) == (ROWS + 5, 0)
    assert told.planned_cost_usd == pytest.approx(told.planned_tokens * 1e-6)
    assert [(run.run, run.state) for run in told.runs] == [(first, "planned"), (second, "planned")]

    done = nights.rescored()
    assert done.judge_calls == len(nights.new.log) == ROWS + 5
    assert [(run.run, run.state, run.evaluators) for run in done.runs] == [
        (first, "rescored", (JUDGED,)), (second, "rescored", (JUDGED,)),
    ]  # fmt: skip
    (found,) = done.differences
    assert (found["answers"], found["cases"], found["runs"], found["changed"]) == (2 * ROWS, ROWS, 2, "judge")
    assert found["low"] < found["effect"] == found["after"] - found["before"] < 0
    assert "the new judge openai/new scores" in found["words"]

    again = nights.rescored()
    assert [run.state for run in again.runs] == ["known", "known"]
    assert [run.rescored for run in again.runs] == [run.rescored for run in done.runs]
    assert (again.judge_calls, again.differences) == (0, done.differences)
    assert len(nights.new.log) == ROWS + 5


@pytest.mark.parametrize("judge", ["old", None])
def test_the_same_judge_has_nothing_to_do_and_says_so(nights: Nights, judge: str | None) -> None:
    run = nights.night()
    asked, runs = len(nights.old.log), len(nights.store.runs())
    found = nights.rescored(judge)
    assert [(one.run, one.state) for one in found.runs] == [(run, "same")]
    assert (found.planned_calls, len(nights.old.log), len(nights.store.runs())) == (0, asked, runs)
    assert ("", "Nothing to do: the scores are those that this judge and these prompts give.") in Rescore().lines(found)


def test_without_a_judge_an_evaluator_of_another_version_is_scored_from_the_replies_that_there_are(
    nights: Nights, monkeypatch: pytest.MonkeyPatch
) -> None:
    nights.night("rows", lambda n: "", "old", "bleu")
    asked = len(nights.old.log)
    kind = get(JUDGED)
    monkeypatch.setattr(kind, "spec", replace(kind.spec, version="2"))
    found = nights.rescored(None)
    assert [(run.state, run.evaluators) for run in found.runs] == [("rescored", (JUDGED,))]
    assert (found.judge_calls, len(nights.old.log)) == (0, asked)
    assert (found.differences[0]["changed"], found.differences[0]["effect"]) == ("version", 0.0)


def test_scores_of_the_other_judge_that_the_store_has_are_taken_without_a_call(nights: Nights) -> None:
    run = nights.night()
    nights.night(judge="new")
    asked = len(nights.new.log)
    found = nights.rescored(yes=False)
    assert [one.state for one in found.runs] == ["rescored", "same"]
    assert (found.planned_calls, len(nights.new.log)) == (0, asked)
    assert (found.runs[0].run, found.differences[0]["answers"]) == (run, ROWS)


def test_a_rescored_run_is_no_new_night(nights: Nights) -> None:
    first, second = nights.night(), nights.night(changed=lambda n: " Late.")
    by_new = [one.rescored for one in nights.rescored().runs]
    store = nights.store
    assert [find_run(store, name).id for name in ("latest", "latest~1")] == [second, first]
    third = nights.night(changed=lambda n: " Later.", judge="new")
    baseline = find_baseline(store, store.run(third)).run
    assert baseline is not None
    assert baseline.id == second
    lines = RunIndex(store).lines()
    assert [line.id for line in lines] == [third, by_new[1], second, by_new[0], first]
    assert [line.rescored for line in lines] == ["", second, "", first, ""]
    assert [one.run for one in nights.rescored("old", yes=False).runs] == [first, second, third]


def test_runs_are_chosen_by_dataset_and_words_and_each_dataset_has_its_own_runs(nights: Nights) -> None:
    one, other = nights.night("one"), nights.night("other", changed=lambda n: " Other.")
    assert [run.run for run in nights.rescored(dataset="other", yes=False).runs] == [other]
    assert [run.run for run in nights.rescored(match=["ONE"], yes=False).runs] == [one]
    done = nights.rescored(last=2)
    records = [nights.store.run(run.rescored).read() for run in done.runs]
    assert [record["dataset_name"] for record in records] == ["one", "other"]
    assert [record["dataset"] for record in records] == [
        nights.store.run(run).read()["dataset"] for run in (one, other)
    ]
    with pytest.raises(UsageError, match="No completed run"):
        nights.rescored(dataset="none")


def test_a_run_whose_dataset_is_gone_is_refused_and_the_others_are_scored(nights: Nights) -> None:
    gone, here = nights.night("gone"), nights.night("here", changed=lambda n: " Here.")
    shutil.rmtree(nights.store.dataset(str(nights.store.run(gone).read()["dataset"])))
    (nights.folder / "here.jsonl").unlink()  # only what the store keeps counts
    found = nights.rescored()
    assert [(run.run, run.state) for run in found.runs] == [(gone, "refused"), (here, "rescored")]
    assert "no longer in the store" in found.runs[0].note
    with pytest.raises(UsageError, match=r"None of 1 run can be scored again: The dataset .* is no longer") as refused:
        nights.rescored(match=["gone"])
    assert refused.value.code == ErrorCode.STORE_NO_RESULTS


def test_a_budget_holds_for_all_runs_together_and_the_same_command_goes_on(nights: Nights) -> None:
    for number in range(2):
        nights.night(changed=lambda n, night=number: f" Night {night}.")
    short = nights.rescored(max_calls=ROWS)
    assert [run.state for run in short.runs] == ["rescored", "left"]
    assert short.judge_calls == len(nights.new.log) == ROWS
    rest = nights.rescored(max_calls=ROWS)
    assert [run.state for run in rest.runs] == ["known", "rescored"]
    assert (rest.judge_calls, len(nights.new.log)) == (ROWS, 2 * ROWS)


def test_a_run_that_a_budget_left_incomplete_is_scored_to_its_end(nights: Nights) -> None:
    nights.night()
    short = nights.rescored(max_calls=10)
    assert short.differences[0]["unscored"] == ROWS - 10
    whole = nights.rescored()
    assert [run.state for run in whole.runs] == ["rescored"]
    assert (whole.judge_calls, whole.differences[0]["unscored"]) == (ROWS - 10, 0)


def test_only_evaluators_that_are_named_and_that_the_run_has_are_scored(nights: Nights) -> None:
    nights.night("rows", lambda n: "", "old", "bleu")
    assert [run.state for run in nights.rescored(evaluators=["bleu"]).runs] == ["same"]
    assert nights.rescored(yes=False).runs[0].evaluators == (JUDGED,)
    with pytest.raises(UsageError, match="It has none of these evaluators"):
        nights.rescored(evaluators=["rouge"])
    with pytest.raises(UsageError, match="no_such"):
        nights.rescored(evaluators=["no_such"])


def test_a_killed_rescoring_goes_on_and_pays_for_no_reply_twice(nights: Nights) -> None:
    for number in range(2):
        nights.night(changed=lambda n, night=number: f" Night {night}." if n % 2 else "")
    nights.new.latency = 0.05
    terminal = Terminal(nights.folder)
    command = ("rescore", "--judge", "new", "--yes", "--server", "none", "--store", "store")
    planned = ROWS + ROWS // 2
    terminal.kill_after(nights.new, ROWS // 2, *command)
    terminal.kill_after(nights.new, ROWS + 2, *command)
    last = terminal.json(*command)
    assert [run["state"] for run in last["runs"]][-1] == "rescored"
    asks = [ask["digest"] for ask in read_ledger(nights.store).asks() if ask["state"] == "answered"]
    assert len(asks) == len(set(asks)) == planned + len(set(nights.old.answered))
    assert last["differences"][0]["answers"] == 2 * ROWS
