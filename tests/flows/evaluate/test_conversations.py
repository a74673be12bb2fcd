"""Conversations: each turn is scored, a conversation counts once, and what was scored is never scored again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

from leadline.api import Result, evaluate
from leadline.evaluators.core import get
from leadline.evaluators.core.user_evaluators import metric
from leadline.evaluators.data import Row
from leadline.evaluators.settings import Settings
from leadline.tasks.compare import compare
from leadline.tasks.compare.run_pair import open_sides
from leadline.tasks.db import attach_dataset, connect
from leadline.tasks.ground.numbers import RANGE
from leadline.tasks.load.dataset import load_dataset
from leadline.tasks.plan.jobs import make_jobs
from leadline.tasks.plan.planner import plan
from leadline.tasks.store.store import Store

SAID = ("Low water is at noon.", "Berth 7 is free.", "A crane lifts the boat.", "The gate shuts at ten.")


def talk(*answers: str, first: str = "When is low water?", ids: str = "c") -> list[dict[str, Any]]:
    """Return a conversation with these answers, each after a call of a tool."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You help skippers."}]
    for number, answer in enumerate(answers):
        call = {"name": "look_up", "arguments": json.dumps({"n": number, "again": False})}
        messages += [
            {"role": "user", "content": first if number == 0 else f"And then, number {number}?"},
            {"role": "assistant", "content": None, "tool_calls": [{"id": f"{ids}{number}", "function": call}]},
            {"role": "tool", "tool_call_id": f"{ids}{number}", "content": "found"},
            {"role": "assistant", "content": answer},
        ]
    return messages


def share_of_100(row: Row) -> float:
    """Return how long an answer is, as a share of 100 characters."""
    return len(row.actual_answer or "") / 100


def fails_on_berths(row: Row) -> float:
    """Return 1, and fail on an answer about a berth."""
    if "Berth" in (row.actual_answer or ""):
        raise ValueError("a berth")
    return 1.0


@metric(inputs=("tool_calls",), unit="conversation")
def calls(row: Row) -> float:
    """Return how many tools are called in a conversation."""
    return float(len(row.tool_calls or ()))


def written(folder: Path, records: Sequence[Mapping[str, Any]]) -> Path:
    path = folder / "talks.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def run(folder: Path, records: Sequence[Mapping[str, Any]], *metrics: Any) -> Result:
    return evaluate(
        written(folder, records),
        metrics=list(metrics) or [share_of_100],
        store=folder / "store",
        format="chat",
        progress=False,
    )


def sql(result: Result, query: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(result.folder / "run.duckdb"), read_only=True) as connection:
        return connection.execute(query).fetchall()


def test_a_conversation_has_the_mean_of_its_turns_and_counts_once(tmp_path: Path) -> None:
    answers = ["x" * 10, "x" * 20, "x" * 60]
    result = run(tmp_path, [{"messages": talk(*answers)}, {"messages": talk("x" * 90, first="What else?")}])
    turns = sql(result, "SELECT turn, value FROM turn_scores ORDER BY turn")
    assert turns == [(1, 0.1), (2, 0.2), (3, 0.6)]
    assert [value for (value,) in sql(result, "SELECT value FROM scores ORDER BY value")] == pytest.approx([0.3, 0.9])
    assert sql(result, "SELECT n_rows, n_scored, round(value, 6) FROM aggregates") == [(2, 2, 0.6)]


def test_a_conversation_that_grew_by_one_turn_has_one_turn_computed(tmp_path: Path) -> None:
    run(tmp_path, [{"messages": talk(*SAID[:3])}])
    grown = run(tmp_path, [{"messages": talk(*SAID)}])
    assert (grown.computed, grown.reused) == (1, 3)


def test_ids_of_calls_and_the_order_of_arguments_make_no_other_conversation(tmp_path: Path) -> None:
    first = run(tmp_path, [{"id": "one", "messages": talk(*SAID)}], share_of_100, calls)
    again = json.loads(json.dumps(talk(*SAID, ids="toolu_")))
    for message in again:
        for call in message.get("tool_calls", ()):
            call["function"]["arguments"] = {"again": False, "n": json.loads(call["function"]["arguments"])["n"]}
    second = run(tmp_path, [{"id": "other", "messages": again}], share_of_100, calls)
    assert (first.computed, second.computed) == (len(SAID) + 1, 0)
    assert sql(second, "SELECT value FROM scores JOIN metrics USING (metric_id) WHERE metric = 'calls'") == [(4.0,)]


def test_a_turn_has_the_key_that_the_same_answer_has_in_a_dataset_of_questions(tmp_path: Path) -> None:
    run(tmp_path, [{"messages": talk(*SAID)}], "readability")
    path = tmp_path / "single.jsonl"
    rows = [
        {"question": f"Another question {n}?", "actual_answer": answer, "model": "m"} for n, answer in enumerate(SAID)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    single = evaluate(path, metrics=["readability"], store=tmp_path / "store", progress=False)
    assert (single.computed, single.reused) == (0, len(SAID))


def test_a_conversation_one_turn_of_which_was_not_scored_is_unscored(tmp_path: Path) -> None:
    result = run(tmp_path, [{"messages": talk(*SAID)}, {"messages": talk("Fine.", "", first="Well?")}], fails_on_berths)
    found = sql(result, "SELECT status, reason, value FROM scores ORDER BY row_id")
    assert found == [("unscored", "evaluator_error", None), ("scored", None, 1.0)]
    told = sql(result, "SELECT error FROM evidence WHERE error IS NOT NULL")
    assert [text[:8] for (text,) in told] == ["Turn 2: "]


def test_an_answer_that_ends_with_a_call_is_not_empty_but_silence_after_the_result_is(tmp_path: Path) -> None:
    asks, silent = talk("")[:3], talk("", first="Which berth is free?")
    result = run(tmp_path, [{"messages": asks}, {"messages": silent}])
    found = sql(result, "SELECT description, row_ids FROM problems WHERE contains(description, 'empty')")
    assert found == [("talks: 1 of 2 answers is empty.", [1])]


def test_the_worst_turn_decides_what_passes_or_fails(tmp_path: Path) -> None:
    leak = "Write to anna.olsen@harbour-office.dk, she knows."
    result = run(tmp_path, [{"messages": talk(*SAID, leak)}, {"messages": talk(*SAID)}], "pii_leakage")
    query = "SELECT value FROM scores JOIN metrics USING (metric_id) WHERE is_primary ORDER BY row_id"
    assert [value for (value,) in sql(result, query)] == [1.0, 0.0]
    assert any("Turn 5" in text for (text,) in sql(result, "SELECT evidence FROM evidence WHERE evidence IS NOT NULL"))
    problems = [text for (text,) in sql(result, "SELECT description FROM problems")]
    assert any("1 of 2 conversations " in text for text in problems)
    assert not any("row" in text for text in problems)


def test_a_question_with_one_answer_is_a_row_that_serves_turns_and_conversations(tmp_path: Path) -> None:
    result = run(tmp_path, [{"messages": talk("Yes.")}], share_of_100, calls)
    assert sql(result, "SELECT metric, value FROM scores JOIN metrics USING (metric_id) ORDER BY metric") == [
        ("calls", 1.0),
        ("share_of_100", 0.04),
    ]
    assert sql(result, "SELECT count(*) FROM turn_scores") == [(0,)]


@pytest.mark.parametrize(("turns", "judged"), [("all", 4), ("last", 1), ("sample:2", 2), ("sample:9", 4)])
def test_judges_are_asked_about_as_many_turns_as_the_plan_may_have(turns: str, judged: int, tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store")
    loaded = load_dataset(store, written(tmp_path, [{"messages": talk(*SAID)}]), format="chat")
    evaluators = [get(id_)() for id_ in ("answer_relevancy", "readability")]
    jobs = make_jobs(evaluators, Settings(), turns=turns)
    with connect() as connection:
        attach_dataset(connection, loaded.path)
        plan(connection, store, jobs)
        found = dict(connection.execute("SELECT evaluator_id, count(*) FROM plan GROUP BY ALL").fetchall())
    assert found == {0: judged, 1: len(SAID)}


def test_a_conversation_that_its_host_broke_off_did_not_fail_its_task_but_its_faults_count(tmp_path: Path) -> None:
    expected = [{"name": "book"}]
    records = [
        {"case": "whole", "messages": talk(*SAID[:2]), "expected_tool_calls": expected},
        {"case": "broken off", "messages": talk(*SAID[2:]), "expected_tool_calls": expected, "error": "HTTP 503"},
    ]
    scores = run(tmp_path, records, "pass_k", "tool_errors").scores
    found = scores[scores["metric"].isin(["passed", "tool_errors"])]
    assert list(zip(found["case"], found["metric"], found["status"], strict=True)) == [
        ("whole", "passed", "scored"),
        ("broken off", "passed", "unscored"),
        ("whole", "tool_errors", "scored"),
        ("broken off", "tool_errors", "scored"),
    ]


def test_what_a_model_was_told_makes_no_other_answer_and_what_it_called_does(tmp_path: Path) -> None:
    told = talk(*SAID[:2])
    told[0] = {"role": "system", "content": "You help sailors."}
    called = talk(*SAID[:2])
    called[2]["tool_calls"][0]["function"]["name"] = "search"
    runs = [run(tmp_path, [{"case": "water", "messages": said}], calls) for said in (talk(*SAID[:2]), told, called)]
    assert len({each.run for each in runs}) == 3
    store = Store(tmp_path / "store")
    found = [compare(store, runs[0].run, other.run).answers[0] for other in runs[1:]]
    assert [(each.rows, each.same, each.changed) for each in found] == [(1, 1, 0), (1, 0, 0)]


def test_conversations_held_again_are_one_family_when_runs_are_compared(tmp_path: Path) -> None:
    said = [(SAID[n % 4], "x" * (n + 1)) for n in range(12)]
    alone = [{"messages": talk(*pair, first=f"Berth {n}?")} for n, pair in enumerate(said)]
    thrice = [
        {"messages": talk(*pair, first=f"Berth {n % 4}?"), "expected_outcome": "Told."} for n, pair in enumerate(said)
    ]
    store = Store(tmp_path / "store")

    def families(records: list[dict[str, Any]]) -> int:
        sides = [store.run(run(tmp_path, records).run) for _ in range(2)]
        with open_sides(store, *sides) as connection:
            return connection.execute("SELECT count(DISTINCT family) FROM families").fetchall()[0][0]

    assert (families(alone), families(thrice)) == (0, 4)


def test_intervals_by_turn_are_those_of_the_model_as_trials_of_a_conversation_are_one_cluster(tmp_path: Path) -> None:
    lengths = [10, 12, 15, 40, 42, 44, 60, 70, 88]
    records = [
        {"model": model, "messages": talk("x" * n, "y" * n, first=f"Berth {place // 3}?"), "expected_outcome": "Told."}
        for place, n in enumerate(lengths)
        for model in ("a", "b")
    ]
    result = run(tmp_path, records)
    ((low, high),) = sql(result, "SELECT DISTINCT ci_low, ci_high FROM aggregates WHERE ci_low IS NOT NULL")
    page = (result.folder / "results" / "report.html").read_text(encoding="utf-8")
    assert page.count(f"({low:.3f}{RANGE}{high:.3f}), n 9") == 4


def test_of_nine_models_eight_curves_are_drawn_and_nine_are_told(tmp_path: Path) -> None:
    records = [{"model": f"m{n}", "messages": talk("x" * n, "y")} for n in range(1, 10)]
    page = (run(tmp_path, records).folder / "results" / "report.html").read_text(encoding="utf-8")
    assert "The first 8 of 9 models are drawn; the figures have all." in page
    assert page.count('<path class="reach"') == 8


def test_insights_count_conversations_where_a_row_is_one(tmp_path: Path) -> None:
    records = [
        {
            "model": model,
            "messages": talk(*SAID[:2], first=f"Berth {n}?"),
            "duration_s": slow + n,
            "cost_usd": slow / 100,
        }
        for n in range(4)
        for model, slow in (("a", 1.0), ("b", 9.0))
    ]
    told = " ".join(text for (text,) in sql(run(tmp_path, records), "SELECT description FROM insights"))
    assert "s per conversation" in told
    assert "USD per 1,000 conversations" in told
    assert "answer" not in told
