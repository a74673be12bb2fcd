"""Figures of the store, of the ledger (in SQLite and PostgreSQL), and of judges."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from leadline.evaluators.judge_client.budget import Limits, TeamBudget, month_of
from leadline.evaluators.judge_client.calls import Charge, Reply
from leadline.evaluators.settings import Settings
from leadline.plugins.ops.telemetry import families as m
from leadline.plugins.ops.telemetry.families import MOST, OTHER, Buckets, few, label
from leadline.plugins.ops.telemetry.figures import StoreFigures, judge_figures, ledger_figures
from leadline.tasks.judges.drift.drift_check import check_judge
from leadline.tasks.judges.drift.enrolment import enrol
from leadline.tasks.judges.drift.probes import probes_of_file
from leadline.tasks.ledger.ledger import ledger_at
from leadline.tasks.ledger.ledger_report import LedgerReader
from leadline.tasks.store.store import Store
from tests.support.judges.changing_judge import ChangingJudge
from tests.support.judges.judge_endpoint import serving
from tests.support.judges.judged_run import judge_at, register, write_rows
from tests.support.judges.scripted_judge import question
from tests.support.stores.ledgers import Place
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


REPLY = Reply("yes", input_tokens=10, output_tokens=2, cost_usd=0.25, seconds=1.5, tries=3)


def test_calls_errors_tokens_money_and_teams_are_told(place: Place) -> None:
    async def main() -> None:
        ledger = ledger_at(place, "run1", Limits(team=TeamBudget("search", calls=50)))
        for name in ("a", "b", "c", "d"):
            await ledger.intend(question(name), Charge(1.0))
        await ledger.answered(question("a"), REPLY)
        await ledger.answered(question("b"), replace(REPLY, cost_usd=None))
        await ledger.failed(question("c"), "a reason with a text")
        await ledger.judged(question("b").digest, "1", None, "no word")

    asyncio.run(main())
    budgets = {"search": TeamBudget("search", calls=50), "ads": TeamBudget("ads", cost_usd=5.0)}
    figures = ledger_figures(LedgerReader(place), budgets).values
    (model,) = {labels[0] for labels in figures[m.CALLS]}
    assert figures[m.CALLS] == {(model, "answered"): 2, (model, "failed"): 1}
    assert figures[m.CALL_TOKENS] == {(model, "input"): 20, (model, "output"): 4}
    assert figures[m.CALL_COST][model,] == 0.25
    assert figures[m.CALLS_UNPRICED][model,] == 1
    assert figures[m.CALL_RETRIES][model,] == 4
    assert figures[m.CALL_SECONDS][model,] == 3.0
    assert (figures[m.CALLS_IN_FLIGHT][()], figures[m.CALLS_LOST][()]) == (1, 0)
    assert figures[m.REPLIES_UNREADABLE][()] == 1
    assert figures[m.TEAM_CALLS] == {("search",): 3}
    assert figures[m.TEAM_CALLS_LIMIT] == {("search",): 50}
    assert figures[m.TEAM_USD_LIMIT] == {("ads",): 5.0}
    assert "text" not in repr(figures)
    assert month_of(time.time())


def test_a_ledger_that_is_not_there_has_no_calls(place: Place) -> None:
    figures = ledger_figures(LedgerReader(place), {}).values
    assert figures[m.CALLS_LOST][()] == 0
    assert m.CALLS not in figures


NOW = datetime(2026, 11, 16, 3, tzinfo=UTC)


def test_figures_follow_a_judge_from_its_enrolment_to_its_change(tmp_path: Path) -> None:
    register()
    store = Store.open(tmp_path / "store")
    assert judge_figures(store).values == {}
    with serving(ChangingJudge()) as endpoint:
        judge = judge_at(endpoint.url, key="small")
        settings = Settings(judges=(judge,))
        rows = write_rows(tmp_path / "rows.jsonl", 30)
        enrol(store, judge, settings, *probes_of_file(store, str(rows), judge, settings, 20, ["test.brief"]))
        values = judge_figures(store).values
        assert values[m.JUDGE_STATE]["small", "enrolled"] == 1
        assert m.JUDGE_CHECKED not in values
        endpoint.changed = 0.8
        check = check_judge(store, judge, Settings(), now=NOW)
    values = judge_figures(store).values
    assert sum(values[m.JUDGE_STATE].values()) == values[m.JUDGE_STATE]["small", "changed"] == 1
    assert values[m.JUDGE_CHECKED]["small",] == NOW.timestamp()
    assert values[m.JUDGE_P]["small",] == check.p
    assert values[m.JUDGE_EPOCH]["small",] == 0
