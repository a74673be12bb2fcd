"""Models compared by a scripted judge over real HTTP: each pair asked once in both orders, whatever changes later."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import leadline
from leadline.tasks.db import open_run
from leadline.tasks.store.store import Store
from tests.support.judges.judge_endpoint import JudgeEndpoint, Question, broken, serving

CASES = 30
QUALITY = {"small": 0, "large": 2, "tuned": 1}
ANSWER = re.compile(r"<(first|second)-answer-\w*>\n.*?grade (\d+)", re.DOTALL)


def rows(*models: str) -> list[dict[str, Any]]:
    """Return answers whose grades the judge compares; no two models give the same one to a case."""
    return [
        {"case": f"c{case}", "model": model, "question": f"Is berth {case} open?", "answer": f"Yes, grade {grade}."}
        for case in range(CASES)
        for model in models
        for grade in (3 * (case * (7 + QUALITY[model]) % 5) + QUALITY[model],)
    ]


def fair(question: Question) -> str:
    grades = {place: int(grade) for place, grade in ANSWER.findall(question.text)}
    verdict = "first" if grades["first"] > grades["second"] else "second"
    return json.dumps({"reason": "by its grade", "verdict": verdict})


def biased(question: Question) -> str:
    """Prefer the first answer unless the second is much better."""
    grades = {place: int(grade) for place, grade in ANSWER.findall(question.text)}
    return json.dumps({"reason": "", "verdict": "second" if grades["second"] > grades["first"] + 6 else "first"})


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    for name in [name for name in os.environ if name.startswith("LEADLINE_")]:
        monkeypatch.delenv(name)


def evaluate(endpoint: JudgeEndpoint, answers: Sequence[dict[str, Any]], **more: Any) -> Any:
    Path("leadline.toml").write_text(endpoint.toml(down_after_s=1.0, deadline_s=3.0))
    return leadline.evaluate(list(answers), metrics=["pairwise.preference"], store="store", **more)


def read(result: Any, statement: str) -> list[tuple[Any, ...]]:
    store = Store.open("store")
    with open_run(store, store.run(result.run), read_only=True) as connection:
        return connection.execute(statement).fetchall()


VALUES = """
    SELECT model_key, round(value, 6), ci_low, ci_high, n_scored, n_unscored
    FROM aggregates JOIN metrics USING (metric_id) JOIN models USING (model_id)
    WHERE metric = '{}' ORDER BY model_key
"""


def test_two_models_are_compared_and_a_third_costs_only_its_own_pairs() -> None:
    with serving(JudgeEndpoint(fair)) as endpoint:
        two = evaluate(endpoint, rows("small", "large"))
        assert len(endpoint.log) == 2 * CASES
        preference = {model: value for model, value, *_ in read(two, VALUES.format("preference"))}
        assert preference["large"] + preference["small"] == 1.0
        assert {value for _, value, *_ in read(two, VALUES.format("consistency"))} == {1.0}
        again = evaluate(endpoint, rows("small", "large"))
        assert (again.computed, len(endpoint.log)) == (0, 2 * CASES)
        three = evaluate(endpoint, rows("small", "large", "tuned"))
        assert len(endpoint.log) == 6 * CASES
        assert len(set(endpoint.answered)) == len(endpoint.answered) == 6 * CASES
        strengths = read(three, VALUES.format("strength"))
    assert [model for model, *_ in strengths] == ["large", "small", "tuned"]
    assert all(low < value < high and scored == CASES for _, value, low, high, scored, _ in strengths)
    ((details,),) = read(three, "SELECT details FROM details JOIN models USING (model_id) WHERE model_key = 'tuned'")
    assert [line["value"] for line in json.loads(details)["labels"]] == ["", "large", "small"]


def test_stronger_rivals_are_no_regression_and_models_of_one_run_are_compared() -> None:
    with serving(JudgeEndpoint(fair)) as endpoint:
        two = evaluate(endpoint, rows("small", "large"), name="harbour")
        three = evaluate(endpoint, rows("small", "large", "tuned"), name="harbour")
    across = leadline.compare(two, three, store="store")
    assert {metric.verdict for metric in across.metrics} == {"not_applicable"}
    assert read(three, "SELECT DISTINCT fault FROM problems WHERE fault = 'model'") == []
    within = leadline.compare(f"{three.run}:small", f"{three.run}:large", store="store")
    assert [metric.metric.metric for metric in within.metrics] == ["preference"]
    assert within.verdict in ("pass", "fail", "inconclusive")


def test_a_changed_answer_costs_only_the_pairs_it_is_in() -> None:
    answers = rows("small", "large", "tuned")
    with serving(JudgeEndpoint(fair)) as endpoint:
        evaluate(endpoint, answers)
        before = len(endpoint.log)
        answers[0] = {**answers[0], "answer": "No, grade 99."}
        evaluate(endpoint, answers)
        assert len(endpoint.log) - before == 4


def test_a_position_bias_is_found_and_favours_no_model() -> None:
    with serving(JudgeEndpoint(biased)) as endpoint:
        result = evaluate(endpoint, rows("small", "large"))
    ((kind, fault, text),) = read(result, "SELECT kind, fault, description FROM problems")
    assert (kind, fault) == ("position_bias", "instrument")
    assert "prefers whichever answer comes first" in text
    assert result.gate != "fail"


def test_rows_of_a_dead_judge_are_unscored_and_asked_again_later() -> None:
    endpoint = JudgeEndpoint(fair, fault=lambda question: broken(500) if question.number >= CASES else None)
    with serving(endpoint):
        dead = evaluate(endpoint, rows("small", "large"))
        preference = read(dead, VALUES.format("preference"))
        assert all(unscored > 0 and scored + unscored == CASES for *_, scored, unscored in preference)
        assert read(dead, "SELECT DISTINCT kind FROM problems WHERE fault = 'model'") == []
        endpoint.fault = lambda question: None
        answered = len(endpoint.answered)
        alive = evaluate(endpoint, rows("small", "large"))
        assert len(endpoint.answered) - answered == 2 * CASES - answered
    assert {unscored for *_, unscored in read(alive, VALUES.format("preference"))} == {0}


def test_one_model_alone_is_not_applicable_and_nothing_is_asked() -> None:
    with serving(JudgeEndpoint(fair)) as endpoint:
        result = evaluate(endpoint, rows("small"))
        assert endpoint.log == []
    assert read(result, "SELECT DISTINCT status::VARCHAR FROM scores") == [("not_applicable",)]
