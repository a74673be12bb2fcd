"""Further trials of some rows, judged over real HTTP: which rows get them, what they count for, and what they cost."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from leadline.flows.evaluate.config import EvaluateConfig, EvaluateResult
from leadline.flows.evaluate.job import Evaluate
from leadline.flows.evaluate.prepare import preview
from leadline.tasks.store.store import Store
from tests.support.judges.berths import passing, write_talks
from tests.support.judges.judge_endpoint import JudgeEndpoint, Question, serving
from tests.support.stores.results import read_run

EVALUATOR = "databricks.correctness"
PAIRS = 100
_TURNED = 30
"""Copies that a changed model answers wrongly."""


def lot(*parts: object) -> float:
    """Return a number in [0, 1) that is drawn by the parts."""
    return int.from_bytes(hashlib.sha256("|".join(map(str, parts)).encode()).digest()[:6]) / 2**48


class NoisyJudge:
    """Passes right answers; of a fifth of the questions it decides by chance, anew every time."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    def __call__(self, question: Question) -> str:
        (about,) = set(re.findall(r"berth \d+,? (?:again|then)?", question.text)) or {question.text}
        self.asked[about] += 1
        right = "It has no depth." not in question.text
        if lot("noisy", re.findall(r"berth (\d+)", about)[0]) < 0.2:
            right = lot("said", about, self.asked[about]) < 0.5
        return json.dumps({"rationale": f"Reply {question.number}.", "rating": "yes" if right else "no"})


def write(path: Path, *, turned: int = 0, copies: bool = True) -> Path:
    """Write a dataset of cases and copies of them, some of which the model answers wrongly."""
    rows = []
    for number in range(PAIRS):
        row = {"case": f"c{number}", "model": "m", "question": f"How deep is berth {number}, then ?"}
        row |= {"expected_answer": "It is deep.", "actual_answer": "It is deep."}
        rows.append(row)
        if copies:
            wrong = {"actual_answer": "It has no depth."} if number < turned else {}
            wrong["question"] = f"How deep is berth {number}, again ?"
            source = [{"type": "perturbation_source", "target": f"c{number}", "perturbation": "typo"}]
            rows.append(row | wrong | {"case": f"p{number}", "relationships": source})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def endpoint() -> Iterator[JudgeEndpoint]:
    with serving(JudgeEndpoint(NoisyJudge())) as serves:
        yield serves


@pytest.fixture
def evaluate(tmp_path: Path, endpoint: JudgeEndpoint, monkeypatch: pytest.MonkeyPatch) -> Callable[..., EvaluateResult]:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    config, store = tmp_path / "leadline.toml", tmp_path / "store"
    config.write_text(endpoint.toml())

    def run(dataset: Path, *, evaluators: tuple[str, ...] = (EVALUATOR,), **judges: Any) -> EvaluateResult:
        asked = {"config": str(config)} | judges
        values = {"dataset": str(dataset), "evaluators": evaluators, "judges": asked, "store": str(store)}
        return Evaluate()(EvaluateConfig.model_validate(values | {"dispatch": "inline"}))

    return run


def read(result: EvaluateResult, statement: str) -> list[dict[str, Any]]:
    return read_run(Store.open(result.folder.parents[1]), statement, result.run)


def test_every_pair_that_turned_is_judged_again_and_a_share_of_the_others(evaluate, endpoint, tmp_path) -> None:
    result = evaluate(write(tmp_path / "rows.jsonl"), trials=2, trial_rows="auto")
    flips = {line["perturbed_row_id"] for line in read(result, "SELECT * FROM flips")}
    again = read(result, "SELECT * FROM judged_again")
    assert {line["perturbed_row_id"] for line in again if line["turned"]} == flips
    assert len(flips) > 5
    assert sum(not line["turned"] for line in again) == max(30, -(-3 * (PAIRS - len(flips)) // 10))
    rows = {line[side] for line in again for side in ("original_row_id", "perturbed_row_id")}
    assert {line["row_id"] for line in read(result, "SELECT * FROM repeats")} == rows
    assert result.computed == len(endpoint.log) == 2 * PAIRS + len(rows)


def test_the_judges_noise_is_not_told_as_a_change_and_a_change_is(evaluate, tmp_path) -> None:
    noise, change = (
        read(
            evaluate(write(tmp_path / f"rows{turned}.jsonl", turned=turned), trials=2, trial_rows="auto"),
            "SELECT * FROM flip_rates WHERE perturbation = ''",
        )[0]
        for turned in (0, _TURNED)
    )
    assert noise["net_method"] == change["net_method"] == "two-phase"
    assert noise["rate"] > 0.05
    assert noise["net_low"] < 0 < noise["net_high"] < 0.15
    assert change["net_low"] > 0.1
    assert change["net_low"] < 0.8 * _TURNED / PAIRS < change["net_high"]
    assert change["n_same_answer"] == PAIRS - _TURNED
    assert change["net_same_low"] < 0 < change["net_same_high"]


def test_every_judge_evaluator_judges_its_own_pairs_again(evaluate, tmp_path) -> None:
    rows = write(tmp_path / "rows.jsonl", turned=_TURNED)
    both = evaluate(rows, evaluators=(EVALUATOR, "databricks.relevance_to_query"), trials=2, trial_rows="auto")
    alone = evaluate(rows, trials=2, trial_rows="auto")
    assert alone.computed == 0
    counted = read(both, "SELECT evaluator, reused, computed FROM evaluators")
    assert sum(line["computed"] for line in counted) == both.computed
    for line in counted:
        number = f"(SELECT evaluator_id FROM evaluators WHERE evaluator = '{line['evaluator']}')"
        rows_again = read(
            both,
            "SELECT count(DISTINCT row_id) AS n FROM (SELECT unnest([original_row_id, perturbed_row_id]) AS row_id "
            f"FROM judged_again WHERE evaluator_id = {number})",
        )
        assert line["computed"] == 2 * PAIRS + rows_again[0]["n"]


def test_the_score_of_a_row_is_its_first_trial_and_nothing_is_paid_for_twice(evaluate, endpoint, tmp_path) -> None:
    rows = write(tmp_path / "rows.jsonl")
    once = evaluate(rows)
    asked = len(endpoint.log)
    again = evaluate(rows, trials=2, trial_rows="auto")
    repeated = len(endpoint.log) - asked
    assert (again.reused, again.computed) == (2 * PAIRS, repeated)
    last = evaluate(rows, trials=2, trial_rows="auto")
    assert (last.reused, last.computed) == (2 * PAIRS + repeated, 0)
    assert len(endpoint.log) == asked + repeated
    for statement in ("SELECT * FROM scores ORDER BY ALL", "SELECT * FROM aggregates ORDER BY ALL"):
        assert read(once, statement) == read(again, statement) == read(last, statement)
    for statement in ("SELECT * FROM flip_rates ORDER BY ALL", "SELECT * FROM repeats ORDER BY ALL"):
        assert read(again, statement) == read(last, statement)


def test_a_larger_sample_of_rows_holds_the_smaller_one(evaluate, endpoint, tmp_path) -> None:
    rows = write(tmp_path / "rows.jsonl")
    small, share, large = (
        {line["row_id"] for line in read(evaluate(rows, trials=2, trial_rows=size), "SELECT row_id FROM repeats")}
        for size in ("40", "0.3", "120")
    )
    assert (len(small), len(share), len(large)) == (40, 60, 120)
    assert small < share < large
    assert len(endpoint.log) == 2 * PAIRS + 120


def test_without_perturbed_copies_a_sample_tells_the_noise(evaluate, tmp_path) -> None:
    result = evaluate(write(tmp_path / "rows.jsonl", copies=False), trials=2, trial_rows="auto")
    (line,) = read(result, "SELECT * FROM trial_spread")
    assert line["n_rows"] == PAIRS
    assert 0 < line["cross_share"] < 0.3
    assert 0 < line["rerun_std"] < 0.1
    assert 0 < line["reliability"] < 1


def test_of_a_conversation_all_turns_are_judged_again_and_its_noise_is_that_of_its_value(
    evaluate, endpoint, tmp_path
) -> None:
    endpoint.reply = passing(0.9)
    talks = write_talks(tmp_path / "talks.jsonl", 40)
    result = evaluate(talks, evaluators=("databricks.relevance_to_query",), trials=2, trial_rows="20")
    assert result.computed == len(endpoint.log) == 2 * 40 + 2 * 20
    again = read(result, "SELECT DISTINCT row_id FROM repeats")
    assert len(again) == 20
    assert {line["row_id"] for line in again} <= {line["row_id"] for line in read(result, "SELECT row_id FROM scores")}
    (line,) = read(result, "SELECT n_rows FROM trial_spread JOIN metrics USING (metric_id) WHERE is_primary")
    assert line["n_rows"] == 20


def test_the_report_tells_the_judges_noise_in_sentences_and_asks_for_no_alarm(evaluate, tmp_path) -> None:
    noise = evaluate(write(tmp_path / "rows.jsonl"), trials=2, trial_rows="auto")
    text = (noise.report.parent / "report.md").read_text()
    assert "judge's own noise" in text
    assert "Not told from the judge's noise: up to " in text
    assert not [
        line
        for line in read(noise, "SELECT * FROM problems")
        if line["type"] == "robustness" and line["severity"] == "high"
    ]
    change = evaluate(write(tmp_path / "turned.jsonl", turned=2 * _TURNED), trials=2, trial_rows="auto")
    text = (change.report.parent / "report.md").read_text()
    assert "Changed: more than the judge's noise." in text
    (problem,) = [line for line in read(change, "SELECT * FROM problems") if line["kind"] == "flips"]
    assert problem["severity"] == "high"
    assert "confirmed by every trial" in problem["description"]


def test_a_plan_counts_the_calls_that_the_first_trial_will_call_for(evaluate, endpoint, tmp_path) -> None:
    rows = write(tmp_path / "rows.jsonl")
    values = {"dataset": str(rows), "evaluators": (EVALUATOR,), "store": str(tmp_path / "store"), "dispatch": "inline"}
    values["judges"] = {"config": str(tmp_path / "leadline.toml"), "trials": 2, "trial_rows": "auto"}
    config = EvaluateConfig.model_validate(values)
    (before,) = preview(config).entries
    assert before.to_compute == 2 * PAIRS
    assert before.later == 2 * (10 + 30)
    assert before.judge_calls == before.to_compute + before.later
    made = evaluate(rows, trials=2, trial_rows="auto")
    assert made.computed == len(endpoint.log)
    assert abs(made.computed - before.judge_calls) <= 30
    (after,) = preview(config).entries
    assert (after.to_compute, after.later, after.judge_calls) == (0, 0, 0)


def test_trials_that_rest_on_one_text_may_be_a_cached_reply(evaluate, endpoint, tmp_path) -> None:
    config = tmp_path / "leadline.toml"
    config.write_text(config.read_text() + "temperature = 0.7\n")
    lively = evaluate(write(tmp_path / "lively.jsonl"), trials=2, trial_rows="50")
    assert not read(lively, "SELECT * FROM problems WHERE kind = 'cached_trials'")
    endpoint.reply = lambda question: json.dumps({"rationale": "As the berth has a depth at all.", "rating": "yes"})
    relevance = ("databricks.relevance_to_query",)
    cached = evaluate(tmp_path / "lively.jsonl", evaluators=relevance, trials=2, trial_rows="50")
    (problem,) = read(cached, "SELECT * FROM problems WHERE kind = 'cached_trials'")
    assert "may be one cached reply" in problem["description"]
    assert problem["severity"] == "low"
