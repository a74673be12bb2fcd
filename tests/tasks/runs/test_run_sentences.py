"""A run's facts come from its record, and every face says them in the same sentences."""

from __future__ import annotations

from typing import Any

import pytest

from leadline.tasks.runs.run_facts import RunFacts
from leadline.tasks.runs.run_sentences import (
    calls_line,
    cost_line,
    coverage_line,
    gate_line,
    gate_words,
    price,
    scores_line,
    work_line,
)

QUESTION = {"question": "right", "asked": True, "outcome": "pass", "reason": "All of them."}


def run(**record: Any) -> RunFacts:
    return RunFacts("r", record)


def judged(**counts: int | float) -> RunFacts:
    return run(judge_calls={"answered": 0, "cost_usd": 0.0, "unknown_price": 0, "made_again": 0} | counts)


def test_the_gate_is_told_with_what_it_counted_and_why() -> None:
    found = run(gate="pass", gate_reason="Nothing failed.", config={"fail_on": "high"})
    assert gate_words(found) == "pass (counted: model problems of high severity)"
    assert gate_line(found) == f"{gate_words(found)}: Nothing failed."
    assert gate_words(run(gate="fail")) == "fail"


def test_the_reason_is_not_repeated_beside_answers_that_say_it() -> None:
    asked = run(gate="pass", gate_reason="Nothing failed.", questions=[QUESTION])
    unasked = run(gate="pass", gate_reason="Nothing failed.", questions=[QUESTION | {"asked": False}])
    assert (gate_line(asked), gate_line(unasked)) == ("pass", "pass: Nothing failed.")


def test_a_run_without_a_gate_is_inconclusive() -> None:
    assert gate_line(run()) == "inconclusive: No gate was evaluated for this run."


def test_scores_and_work_are_counted_in_thousands_and_unknown_numbers_are_no_zeros() -> None:
    counts = {"scored": 1234, "unscored": 5, "not_applicable": 0}
    assert scores_line(run(counts=counts)) == "1,234 scored, 5 unscored, 0 not applicable"
    assert scores_line(run(counts=counts, stopped_why="Decided.")).endswith("0 not applicable or not needed")
    assert scores_line(run()) == "– scored, – unscored, – not applicable"
    assert work_line(run(reused=1, computed=2000)) == "1 row score reused, 2,000 computed"
    assert work_line(run()) == "– row scores reused, – computed"


@pytest.mark.parametrize(
    ("scored", "unscored", "said"),
    [
        (0, 0, "Nothing was measured."),
        (4, 0, "100 % of the applicable scores were measured."),
        (3, 1, "75 % of the applicable scores were measured, 1 could not be."),
    ],
)
def test_coverage_leaves_out_what_is_not_applicable(scored: int, unscored: int, said: str) -> None:
    found = run(counts={"scored": scored, "unscored": unscored, "not_applicable": 7})
    assert coverage_line(found) == said
    assert found.coverage == (scored / (scored + unscored) if scored + unscored else None)


def test_calls_of_unknown_price_are_not_said_to_be_free() -> None:
    assert calls_line(0, 0.0, 0) == "no judge calls"
    assert calls_line(1, 0.25, 0) == "1 judge call, $0.25"
    assert calls_line(3, 0.25, 2) == "3 judge calls, $0.25 and 2 calls of unknown price"
    assert calls_line(3, 0.0, 3) == "3 judge calls, price unknown"
    assert (price(0.0, 0, 0), price(0.0, 3, 3)) == ("–", "unknown")


def test_calls_that_were_made_again_are_told() -> None:
    assert cost_line(judged(answered=2, cost_usd=0.5)) == "2 judge calls, $0.50"
    assert cost_line(judged(answered=2, cost_usd=0.5, made_again=1)) == (
        "2 judge calls, $0.50; 1 made again, lost with an earlier run"
    )
    assert cost_line(run()) == "no judge calls"
