"""The evaluators by RAGAS without a proper verdict: wrong counts, blank texts, no embedder, texts beyond all bounds."""

from __future__ import annotations

from typing import Any

import pytest

from leadline.evaluators.data import ContextChunk, NotApplicable, Unscored
from leadline.evaluators.judge_client.transport import Refused
from leadline.evaluators.settings import Settings
from tests.evaluators.judge_evaluators.ragas_script import (
    CORRECTNESS,
    FAITHFULNESS,
    FOUR,
    PRECISION,
    QUESTIONS,
    RECALL,
    RELEVANT,
    ROW,
    SAID,
    STATEMENTS,
    changed,
    questions,
    score,
    verdicts,
)
from tests.support.judges.judged import ScriptedJudge, fenced, judged, reason, scripted_context, value


def test_one_of_the_four_without_a_verdict_leaves_ragas_unscored_and_the_others_scored() -> None:
    result, _ = score("ragas", FOUR | {RECALL: "I would rather not."})
    for key in ("ragas", "context_recall"):
        found = result.values[key]
        assert isinstance(found, Unscored)
        assert found.reason == "judge_unparseable"
    assert value(result, "faithfulness") == 0.5


def test_an_answer_that_claims_nothing_has_no_faithfulness_and_no_ragas() -> None:
    result, _ = score("ragas", FOUR | {STATEMENTS: {"statements": []}})
    assert isinstance(result.values["ragas"], NotApplicable)
    assert isinstance(result.values["faithfulness"], NotApplicable)
    assert value(result, "context_recall") == 0.5


WRONG_COUNTS: list[tuple[str, dict[str, Any]]] = [
    ("faithfulness", {STATEMENTS: SAID, FAITHFULNESS: verdicts("yes")}),
    ("faithfulness", {STATEMENTS: SAID, FAITHFULNESS: verdicts("yes", "yes", "yes")}),
    ("context_recall", {RECALL: verdicts()}),
    ("context_precision", {PRECISION: verdicts("yes", "yes")}),
    ("context_relevancy", {RELEVANT: {"reason": "", "relevant": [6]}}),
    ("context_relevancy", {RELEVANT: {"reason": "", "relevant": [0]}}),
    ("context_relevancy", {RELEVANT: {"reason": "", "relevant": [2, 2]}}),
    ("answer_relevancy", {QUESTIONS: questions("near")}),
    ("answer_relevancy", {QUESTIONS: questions("near", " ", "near")}),
    ("answer_correctness", {STATEMENTS: SAID, CORRECTNESS: verdicts("yes", "yes", "yes")}),
]


@pytest.mark.parametrize(("evaluator", "script"), WRONG_COUNTS)
def test_a_wrong_number_of_verdicts_is_asked_for_again_and_then_no_score(
    evaluator: str, script: dict[str, Any]
) -> None:
    result, judge = score(evaluator, script)
    assert reason(result) == "judge_unparseable"
    assert "Your last reply could not be read" not in judge.asked[-2]
    assert "Your last reply could not be read" in judge.asked[-1]


@pytest.mark.parametrize(("evaluator", "script"), WRONG_COUNTS[:1] + WRONG_COUNTS[3:4])
def test_a_right_number_the_second_time_is_scored(evaluator: str, script: dict[str, Any]) -> None:
    *_, piece = script
    right = verdicts("yes", "yes") if evaluator == "faithfulness" else verdicts("yes", "yes", "yes")
    result, _ = score(evaluator, script | {piece: [script[piece], right]})
    assert value(result) == 1.0


def test_of_several_expected_answers_one_without_a_verdict_leaves_the_row_unscored() -> None:
    row = changed(expected_answers=("Bad one.", "Odd one."))
    script = {RECALL: lambda prompt: "eh?" if "Odd" in prompt else verdicts("no")}
    result, _ = score("context_recall", script, row)
    assert reason(result) == "judge_unparseable"


@pytest.mark.parametrize(
    ("evaluator", "fields"),
    [
        ("context_recall", {"expected_answers": ("It is seven. " * 600,)}),
        ("context_relevancy", {"retrieved_context": (ContextChunk("It is seven. " * 6_000),)}),
    ],
)
def test_thousands_of_sentences_are_not_judged_at_any_price(evaluator: str, fields: dict[str, Any]) -> None:
    result, judge = score(evaluator, {"": Refused("no")}, changed(**fields))
    assert reason(result) == "unscorable"
    assert judge.asked == []


NOTHING_ASKED: list[tuple[str, dict[str, Any], float | str]] = [
    ("faithfulness", {"actual_answer": " \n"}, "not applicable"),
    ("answer_relevancy", {"actual_answer": ""}, 0.0),
    ("answer_relevancy", {"question": " "}, "unscorable"),
    ("answer_correctness", {"actual_answer": ""}, 0.0),
    ("answer_correctness", {"expected_answers": ("", " ")}, "unscorable"),
    ("context_recall", {"expected_answers": (" ",)}, "unscorable"),
    ("context_recall", {"retrieved_context": (ContextChunk(""), ContextChunk(" "))}, 0.0),
    ("context_precision", {"retrieved_context": (ContextChunk(""), ContextChunk(" "))}, 0.0),
    ("context_precision", {"question": ""}, "unscorable"),
    ("context_precision", {"expected_answers": ("",)}, "unscorable"),
    ("context_relevancy", {"retrieved_context": (ContextChunk(""), ContextChunk(" "))}, "unscorable"),
    ("context_relevancy", {"question": ""}, "unscorable"),
]


@pytest.mark.parametrize(("evaluator", "fields", "expected"), NOTHING_ASKED)
def test_where_the_texts_decide_the_judge_is_not_asked(
    evaluator: str, fields: dict[str, Any], expected: float | str
) -> None:
    result, judge = score(evaluator, {"": Refused("no")}, changed(**fields))
    (found,) = result.values.values()
    if expected == "not applicable":
        assert isinstance(found, NotApplicable)
    elif isinstance(expected, str):
        assert reason(result) == expected
    else:
        assert found == expected
    assert judge.asked == []
    assert result.complete


def test_a_blank_context_supports_nothing_that_an_answer_claims() -> None:
    result, judge = score("faithfulness", {STATEMENTS: SAID}, changed(retrieved_context=(ContextChunk(" "),)))
    assert value(result) == 0.0
    assert len(judge.asked) == 1


def test_a_blank_chunk_takes_its_place_and_is_not_asked_about() -> None:
    row = changed(retrieved_context=(ContextChunk(" "), ContextChunk("useful")))
    result, judge = score("context_precision", {PRECISION: verdicts("yes")}, row)
    assert value(result) == 0.5
    assert fenced(judge.asked[0], "context") == ["useful"]


@pytest.mark.parametrize("evaluator", ["answer_relevancy", "answer_correctness", "ragas"])
def test_without_its_embedder_a_row_is_unscored_and_the_judge_is_not_asked_for_it(evaluator: str) -> None:
    judge = ScriptedJudge({**FOUR, CORRECTNESS: verdicts("yes")})
    ctx = scripted_context(judge)
    ctx.settings = Settings(judges=ctx.settings.judges, splitter="rules", embedder="nobody/has-this-model")
    (result,) = judged(evaluator, judge, ROW, ctx=ctx)
    metrics = ("ragas", "answer_relevancy") if evaluator == "ragas" else (evaluator,)
    for metric in metrics:
        found = result.values[metric]
        assert isinstance(found, Unscored)
        assert found.reason == "model_unavailable"
    assert not any(QUESTIONS in prompt or CORRECTNESS in prompt for prompt in judge.asked)
    if evaluator == "ragas":
        assert value(result, "context_recall") == 0.5
