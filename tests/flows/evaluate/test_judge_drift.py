"""A judge that changes at night, end to end over real HTTP: found before a run, kept from its rows, accepted, apart."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from leadline.flows.check_judges import CheckJudges, CheckJudgesConfig, accept_judge, enrol_judge
from leadline.flows.compare import Compare, CompareConfig
from leadline.flows.evaluate.config import EvaluateConfig, EvaluateResult
from leadline.flows.evaluate.job import Evaluate
from leadline.flows.evaluate.prepare import preview
from leadline.tasks.ground.timeline import Timeline, timed_by
from leadline.tasks.judges.labels.judging import occasion_at
from leadline.tasks.runs.show import overview
from leadline.tasks.store.store import Store
from tests.support.judges.changing_judge import ChangingJudge
from tests.support.judges.judge_endpoint import Question, broken, serving
from tests.support.judges.judged_run import register, write_rows

pytestmark = pytest.mark.e2e

ROWS = 60


@pytest.fixture
def judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChangingJudge]:
    register()
    monkeypatch.chdir(tmp_path)
    for name in ("LEADLINE_JUDGE", "LEADLINE_JUDGE_API_BASE", "LEADLINE_LEDGER"):
        monkeypatch.delenv(name, raising=False)
    with serving(ChangingJudge()) as endpoint:
        prices = {"input_cost_per_token": 1.5e-7, "output_cost_per_token": 6e-7}
        Path("leadline.toml").write_text(
            endpoint.toml("small", down_after_s=0.5, deadline_s=2, sentinel_every_h=1e-9, **prices)
        )
        write_rows(tmp_path / "rows.jsonl", ROWS)
        yield endpoint


def evaluate(**changes: Any) -> EvaluateResult:
    values = {"dataset": "rows.jsonl", "evaluators": ["test.brief"], "store": "store", "processes": 1}
    return Evaluate()(EvaluateConfig.model_validate(values | {"dispatch": "inline"} | changes))


def enrol() -> None:
    enrol_judge("small", "rows.jsonl", 40, ["test.brief"], CheckJudgesConfig(store="store"))


def problems(result: EvaluateResult) -> list[dict[str, Any]]:
    store = Store.open("store")
    return [found for found in overview(store, store.run(result.run))["problems"] if "judge_state" in found["attrs"]]


def test_a_judge_that_changed_at_night_gets_no_row_of_a_gated_run_until_that_is_accepted(judge: ChangingJudge) -> None:
    enrol()
    before = evaluate(fail_on="high")
    assert (before.scored, before.unscored) == (ROWS, 0)
    assert problems(before) == []

    judge.changed, judge.fingerprint = 0.5, "fp_c7"
    asked = len(judge.log)
    assert evaluate(fail_on="high").reused == ROWS
    assert len(judge.log) == asked, "where no row needs the judge, it is not checked"

    write_rows(Path("more.jsonl"), ROWS + 30)
    # The day's check was made before the change: that of another day is a scheduled one.
    result = run_checks_of_another_day()
    assert result.newly_changed == ["small"]
    gated = evaluate(dataset="more.jsonl", fail_on="high")
    assert (gated.scored, gated.unscored) == (ROWS, 30)
    [found] = [problem for problem in problems(gated) if problem["severity"] == "high"]
    assert found["instrument"]
    assert "is not the one that was enrolled any more" in found["description"]
    store = Store.open("store")
    unscored = next(
        p for p in overview(store, store.run(gated.run))["problems"] if p["attrs"].get("reason") == "quarantined"
    )
    assert "leadline judges accept small" in unscored["description"]

    warned = evaluate(dataset="more.jsonl", fail_on="high", judges={"on_drift": "warn"})
    assert (warned.scored, warned.unscored) == (ROWS + 30, 0)
    assert "high" in {problem["severity"] for problem in problems(warned)}

    asked = len(judge.log)
    later = evaluate(dataset="more.jsonl", fail_on="high")
    assert (later.computed, later.reused, len(judge.log)) == (0, ROWS + 30, asked)
    [found] = [problem for problem in problems(later) if problem["severity"] == "high"]
    assert "30 scores of earlier runs, reused here, may be from after the change" in found["description"]
    assert "leadline judges accept small" in found["actions"]
    assert problems(evaluate(fail_on="high")) == [], "rows that were judged before the change are as they were"
    [written] = Path("store/scores/test.brief").glob(f"*/{warned.run}-*.parquet")
    occasion = occasion_at(datetime.now(UTC) + timedelta(days=2))  # a command that asks about labelled rows
    renamed = written.rename(written.with_name(f"{occasion}-abc123-000-judge-0000.parquet"))
    told = problems(evaluate(dataset="more.jsonl", fail_on="high"))
    assert "30 scores of earlier runs, reused here" in "".join(problem["description"] for problem in told)
    renamed.rename(written)

    segments = sorted(Path("store/scores/test.brief").iterdir())
    accept_judge("small", CheckJudgesConfig(store="store"))
    assert (
        preview(EvaluateConfig(dataset="rows.jsonl", evaluators=("test.brief",), store="store")).entries[0].reused == 0
    )
    after = evaluate(fail_on="high")
    assert (after.computed, after.reused, after.scored) == (ROWS, 0, ROWS)
    assert set(segments) < set(Path("store/scores/test.brief").iterdir()), "nothing of before was touched"

    compared = Compare().check(CompareConfig(baseline=before.run, candidate=after.run, store="store")).compared()
    [metric] = compared.metrics
    assert metric.verdict == "incomparable"
    assert "The judge changed between the two runs (epoch 0 → 1): judge the baseline again, 60 calls, " in metric.reason
    assert "leadline evaluate rows.jsonl" in metric.reason

    mixed = Compare().check(CompareConfig(baseline=gated.run, candidate=warned.run, store="store")).compared()
    assert [found.verdict for found in mixed.metrics] == ["incomparable"]
    assert "one of them has scores of it although it had changed" in mixed.metrics[0].reason
    reused = Compare().check(CompareConfig(baseline=gated.run, candidate=later.run, store="store")).compared()
    assert [found.verdict for found in reused.metrics] == ["incomparable"]


def run_checks_of_another_day() -> Any:
    import leadline.flows.check_judges as prepare
    import leadline.tasks.judges.drift.drift_check as module

    class Tomorrow(module.datetime):  # type: ignore[name-defined,misc]
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return super().now(tz) + timedelta(days=1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "datetime", Tomorrow)
        patch.setattr(prepare, "datetime", Tomorrow)
        return CheckJudges()(CheckJudgesConfig(store="store"))


def test_a_judge_that_changes_while_a_run_of_seven_hours_asks_it_is_found_at_the_runs_end(
    judge: ChangingJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    import leadline.tasks.judges.drift.judge_standing as module

    class Later(module.datetime):  # type: ignore[name-defined,misc]
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return super().now(tz) + timedelta(seconds=passed)

    passed = 0.0
    enrol()
    before = evaluate(fail_on="high")
    write_rows(Path("more.jsonl"), 2 * ROWS)

    def at_night(question: Question) -> None:
        nonlocal passed
        if f"Answer number {2 * ROWS - 10}." in question.text:
            judge.changed, passed = 0.5, 7 * 3600.0

    judge.fault = at_night
    monkeypatch.setattr(module, "datetime", Later)
    with timed_by(Timeline(clock=lambda: time.monotonic() + passed)):
        found = evaluate(dataset="more.jsonl", fail_on="high")
    assert (found.scored, found.unscored) == (2 * ROWS, 0), "nobody knew while rows were put to it"
    store = Store.open("store")
    told = [store.run(run.run).read()["judge_standings"]["small"] for run in (before, found)]
    assert [line["state"] for line in told] == ["steady", "changed"]
    assert before.run not in told[0]["check"]["occasion"], "a short run checks its judges at its beginning alone"
    assert told[1]["check"]["occasion"].endswith(f"/end of {found.run}")
    assert told[1]["check"]["at"] - told[0]["check"]["at"] > 7 * 3600
    assert (told[1]["stopped"], told[1]["newly_changed"]) == (False, True)
    [problem] = [problem for problem in problems(found) if problem["severity"] == "high"]
    assert "Its scores of this run are not to be compared with those of before" in problem["description"]
    mixed = Compare().check(CompareConfig(baseline=before.run, candidate=found.run, store="store")).compared()
    assert [metric.verdict for metric in mixed.metrics] == ["incomparable"]
    write_rows(Path("next.jsonl"), 2 * ROWS + 10)
    after = evaluate(dataset="next.jsonl", fail_on="high")
    assert (after.reused, after.unscored) == (2 * ROWS, 10), "the next gated run puts no row to it"


@pytest.mark.parametrize(
    ("told", "before", "now"), [("fingerprint", "fp_a1", "fp_c7"), ("model", "judge-1", "judge-2")]
)
def test_a_run_whose_replies_come_from_another_system_says_so_and_asks_nothing_for_that(
    judge: ChangingJudge, told: str, before: str, now: str
) -> None:
    settings = Path("leadline.toml")
    settings.write_text(settings.read_text().replace("1e-9", "24"))
    enrol()
    assert problems(evaluate()) == []
    setattr(judge, told, now)
    assert problems(evaluate()) == [], "scores that are reused are those of before"

    write_rows(Path("more.jsonl"), ROWS + 10)
    asked = len(judge.log)
    result = evaluate(dataset="more.jsonl", fail_on="high")
    [found] = problems(result)
    assert (found["severity"], found["instrument"]) == ("medium", True)
    assert f"the provider's {told} went from {before} to {now}" in found["description"]
    assert "leadline judges check small" in found["actions"]
    assert (result.scored, result.unscored) == (ROWS + 10, 0), "the model is not blamed for it"
    assert len(judge.log) - asked == 2 * 10, "two questions a row"

    assert run_checks_of_another_day().newly_changed == []
    write_rows(Path("next.jsonl"), ROWS + 20)
    assert len(problems(evaluate(dataset="next.jsonl"))) == 1, "what the check has noticed is not said twice"


def test_a_judge_that_is_down_is_not_accused_by_a_run(judge: ChangingJudge) -> None:
    enrol()
    judge.fault = lambda question: broken(503)
    result = evaluate()
    assert result.unscored == ROWS
    assert problems(result) == []
    record = Store.open("store").run(result.run).read()["judge_standings"]["small"]
    assert record["state"] == "enrolled"
    assert "was not checked" in record["not_checked"]
    assert os.environ.get("LEADLINE_LEDGER") is None
