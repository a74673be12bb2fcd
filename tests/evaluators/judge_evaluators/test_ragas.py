"""The evaluators by RAGAS: given the same verdicts they equal its formulas, and equal questions are asked once."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.evaluators.core import EvalContext, get
from leadline.evaluators.data import ContextChunk, Source, Span
from leadline.evaluators.generation.ragas_answers import f_score, harmonic_mean, relevancy
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
    TABLE,
    changed,
    questions,
    score,
    verdicts,
)
from tests.support.judges.agreeable_judge import AgreeableJudge, tools_with
from tests.support.judges.judged import Said, ScriptedJudge, fenced, judged, value

VALUES = {"faithfulness": 0.5, "answer_relevancy": 2.6 / 3, "context_precision": (1 + 2 / 3) / 2, "context_recall": 0.5}


def spread(flags: Sequence[int]) -> list[str]:
    return ["yes" if flag else "no" for flag in flags]


# Reference values: the scoring functions of ragas 0.4.3, executed.
FAITHFULNESS_CASES = [
    ([1], 1.0), ([0], 0.0), ([1, 0], 0.5), ([1, 1, 0], 0.6666666666666666), ([0, 0, 0], 0.0),
    ([1, 1, 1, 1, 1, 1, 1, 0, 0], 0.7777777777777778),
]  # fmt: skip
PRECISION_CASES = [
    ([1], 0.9999999999), ([0], 0.0), ([0, 0, 0], 0.0), ([1, 0, 0, 1], 0.7499999999625),
    ([0, 1, 0, 1], 0.499999999975), ([1, 1, 1], 0.9999999999666667), ([0, 0, 1], 0.3333333333),
    ([1, 0, 1, 0, 1], 0.7555555555303703), ([0, 1, 0, 0, 1], 0.4499999999775),
]  # fmt: skip
RECALL_CASES = [([1], 1.0), ([0], 0.0), ([1, 1, 0, 1], 0.75), ([0, 0], 0.0), ([1, 0, 0], 0.3333333333333333)]


@pytest.mark.parametrize(("flags", "expected"), FAITHFULNESS_CASES)
def test_faithfulness_is_the_share_of_statements_that_can_be_inferred(flags: list[int], expected: float) -> None:
    statements = {"statements": [f"statement {number}" for number in range(len(flags))]}
    result, judge = score("faithfulness", {STATEMENTS: statements, FAITHFULNESS: verdicts(*spread(flags))})
    assert value(result) == pytest.approx(expected, abs=1e-12)
    assert len(judge.asked) == 2
    assert fenced(judge.asked[1], "context") == ["One. Two.\nThree.\nFour. Five."]
    assert fenced(judge.asked[1], "statement") == statements["statements"]


@pytest.mark.parametrize(("flags", "expected"), PRECISION_CASES)
def test_context_precision_is_the_mean_precision_at_the_useful_chunks(flags: list[int], expected: float) -> None:
    row = changed(retrieved_context=tuple(ContextChunk(f"chunk {number}") for number in range(len(flags))))
    result, judge = score("context_precision", {PRECISION: verdicts(*spread(flags))}, row)
    assert value(result) == pytest.approx(expected, abs=2e-10)  # ragas adds 1e-10 to the divisor
    assert len(judge.asked) == 1
    assert [span.value for span in result.evidence.spans] == [float(flag) for flag in flags]


@pytest.mark.parametrize(("flags", "expected"), RECALL_CASES)
def test_context_recall_is_the_share_of_sentences_that_can_be_attributed(flags: list[int], expected: float) -> None:
    row = changed(expected_answers=(" ".join(f"Sentence number {number}." for number in range(len(flags))),))
    result, judge = score("context_recall", {RECALL: verdicts(*spread(flags))}, row)
    assert value(result) == pytest.approx(expected, abs=1e-12)
    assert len(judge.asked) == 1
    assert len(fenced(judge.asked[0], "sentence")) == len(flags)


@pytest.mark.parametrize(
    ("generated", "noncommittal", "expected"),
    [
        (["near", "near", "near"], False, 1.0),
        (["near", "aslant", "across"], False, 0.5333333333333333),
        (["near", "aslant", "across"], True, 0.0),
        (["aslant"], False, 0.6),
        (["away", "near"], False, 0.0),
    ],
)
def test_answer_relevancy_is_the_mean_cosine(generated: list[str], noncommittal: bool, expected: float) -> None:
    result, judge = score(
        "answer_relevancy",
        {QUESTIONS: questions(*generated, noncommittal=noncommittal)},
        generated_questions=len(generated),
    )
    assert value(result) == pytest.approx(expected, abs=1e-6)
    assert len(judge.asked) == 1
    assert result.evidence.data["questions"] == generated


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50), st.floats(0.1, 10))
def test_the_f_score_is_the_weighted_harmonic_mean_of_precision_and_recall(
    tp: int, fp: int, fn: int, beta: float
) -> None:
    precision, recall = tp / max(1, tp + fp), tp / max(1, tp + fn)
    by_hand = (1 + beta**2) * precision * recall / (beta**2 * precision + recall) if tp else 0.0
    assert f_score(tp, fp, fn, beta) == pytest.approx(by_hand, abs=1e-12)


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, 0.75 * 0.5 + 0.25 * 0.6),
        ({"factuality_weight": 0.5}, 0.5 * 0.5 + 0.5 * 0.6),
        ({"factuality_weight": 0.0}, 0.6),
        ({"factuality_weight": 1.0}, 0.5),
    ],
)
def test_answer_correctness_counts_statements_that_the_texts_share(params: dict[str, float], expected: float) -> None:
    """Answer: 1 of 2 supported; expected: 2 of 3 found. tp 1, fp 1, fn 1: F1 = 0.5; cosine 0.6."""
    script = {
        STATEMENTS: lambda prompt: {"statements": ["t1", "t2", "t3"]} if "truth" in prompt else SAID,
        CORRECTNESS: verdicts("yes", "no", "yes", "yes", "no"),
    }
    judge = ScriptedJudge(script)
    table = {ROW.actual_answer: (1.0, 0.0), ROW.expected_answers[0]: (0.6, 0.8)}
    (result,) = judged("answer_correctness", judge, ROW, ctx=tools_with(judge, table), **params)
    assert value(result) == pytest.approx(expected, abs=1e-6)
    assert len(judge.asked) == 3
    assert fenced(judge.asked[2], "answer-statement") == SAID["statements"]
    assert fenced(judge.asked[2], "ground-truth-statement") == ["t1", "t2", "t3"]
    data = result.evidence.data
    assert data["answer"][1] == {"item": "The pump stops.", "verdict": "no", "reason": "because no"}
    assert result.evidence.spans == (Span(Source.ACTUAL_ANSWER, 0, 15, value=1.0),)  # only this one stands verbatim


@pytest.mark.parametrize(("said", "wanted", "factuality"), [([], [], 1.0), ([], ["t"], 0.0), (["s"], [], 0.0)])
def test_statements_on_one_side_only_are_compared_with_nothing(
    said: list[str], wanted: list[str], factuality: float
) -> None:
    script = {STATEMENTS: lambda prompt: {"statements": wanted if "truth" in prompt else said}}
    judge = ScriptedJudge(script)
    table = {ROW.actual_answer: (1.0, 0.0), ROW.expected_answers[0]: (0.0, 1.0)}
    (result,) = judged("answer_correctness", judge, ROW, ctx=tools_with(judge, table))
    assert value(result) == pytest.approx(0.75 * factuality, abs=1e-6)


@pytest.mark.parametrize(("relevant", "expected"), [([], 0.0), ([1, 4], 0.4), ([1, 2, 3, 4, 5], 1.0)])
def test_context_relevancy_is_the_share_of_relevant_sentences(relevant: list[int], expected: float) -> None:
    result, judge = score("context_relevancy", {RELEVANT: {"reason": "why", "relevant": relevant}})
    assert value(result) == pytest.approx(expected)
    assert fenced(judge.asked[0], "sentences") == ["[1] One.\n[2] Two.\n[3] Three.\n[4] Four.\n[5] Five."]
    if expected == 0.4:
        assert [(span.index, span.start, span.end) for span in result.evidence.spans] == [(0, 0, 4), (2, 0, 5)]


def test_a_sentence_cannot_pass_for_another_number() -> None:
    row = changed(retrieved_context=(ContextChunk("The first\n[2] one, with\u2028[3] lines."),))
    _, judge = score("context_relevancy", {RELEVANT: {"reason": "", "relevant": []}}, row)
    (shown,) = fenced(judge.asked[0], "sentences")
    assert all(line.startswith(f"[{number}]") for number, line in enumerate(shown.splitlines(), start=1))


def test_ragas_is_the_harmonic_mean_of_the_four() -> None:
    result, judge = score("ragas", FOUR)
    for key, expected in VALUES.items():
        assert value(result, key) == pytest.approx(expected, abs=1e-6)
    assert value(result, "ragas") == pytest.approx(4 / sum(1 / one for one in VALUES.values()), abs=1e-6)
    assert len(judge.asked) == 5
    assert len(result.evidence.data["calls"]) == 5


def test_the_four_metrics_and_ragas_make_five_calls_for_a_case_with_three_chunks() -> None:
    judge = ScriptedJudge(FOUR)
    ctx = tools_with(judge, TABLE)
    for evaluator in (*VALUES, "ragas"):
        judged(evaluator, judge, ROW, ctx=ctx)
    assert len(judge.asked) == 5


def test_the_estimate_of_calls_is_what_is_made() -> None:
    for evaluator in (*VALUES, "ragas", "answer_correctness", "context_relevancy"):
        judge = AgreeableJudge()
        judged(evaluator, judge, ROW, ctx=tools_with(judge))  # type: ignore[arg-type]
        assert len(judge.asked) == get(evaluator)().calls_per_row(), evaluator


def test_statements_are_asked_once_for_faithfulness_and_correctness() -> None:
    judge = ScriptedJudge(
        {STATEMENTS: SAID, FAITHFULNESS: verdicts("yes", "no"), CORRECTNESS: verdicts("yes", "no", "yes", "no")}
    )
    ctx = tools_with(judge, TABLE)
    judged("faithfulness", judge, ROW, ctx=ctx)
    judged("answer_correctness", judge, ROW, ctx=ctx)
    assert sum(STATEMENTS in prompt for prompt in judge.asked) == 2  # of the answer, and of the expected answer


def test_one_of_the_four_that_is_0_makes_ragas_0() -> None:
    result, _ = score("ragas", FOUR | {PRECISION: verdicts("no", "no", "no")})
    assert value(result, "ragas") == 0.0
    assert harmonic_mean([1.0, 1.0, 0.0, 1.0]) == 0.0


def test_more_verdicts_than_fit_into_one_reply_are_asked_for_in_parts() -> None:
    statements = [f"statement {number}" for number in range(45)]

    def all_but_the_last(prompt: str) -> Said:
        items = fenced(prompt, "statement")
        return verdicts(*("no" if item == statements[-1] else "yes" for item in items))

    result, judge = score("faithfulness", {STATEMENTS: {"statements": statements}, FAITHFULNESS: all_but_the_last})
    assert value(result) == pytest.approx(44 / 45)
    assert sorted(len(fenced(prompt, "statement")) for prompt in judge.asked[1:]) == [5, 20, 20]


@pytest.mark.parametrize(
    ("evaluator", "better", "worse"), [("context_recall", RECALL, RECALL), ("context_precision", PRECISION, PRECISION)]
)
def test_of_several_expected_answers_the_best_counts_and_says_which(evaluator: str, better: str, worse: str) -> None:
    row = changed(expected_answers=("Bad one.", "Good one.", "Never asked."))

    def reply(prompt: str) -> Said:
        count = int(re.findall(r"exactly (\d+)", prompt)[0])
        return verdicts(*["yes" if "Good" in prompt else "no"] * count)

    result, judge = score(evaluator, {better: reply}, row)
    assert value(result) == 1.0
    assert result.evidence.data["expected_answer"] == 1
    assert len(judge.asked) == 2  # nothing is better than 1


def test_the_key_covers_the_embedder_the_prompts_and_the_judge() -> None:
    ctx = EvalContext(Settings(embedder="nobody/has@" + "a" * 40))
    other = EvalContext(Settings(embedder="nobody/has@" + "b" * 40))
    for evaluator in ("answer_relevancy", "answer_correctness", "ragas"):
        identity = get(evaluator)().identity(ctx)
        json.dumps(identity)
        assert identity != get(evaluator)().identity(other)
        assert identity["prompts"]


def test_the_number_of_questions_is_a_parameter_of_ragas_too() -> None:
    result, judge = score("ragas", FOUR | {QUESTIONS: questions("near")}, generated_questions=1)
    assert value(result, "answer_relevancy") == pytest.approx(1.0)
    assert any("exactly 1 questions" in prompt for prompt in judge.asked)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=10))
def test_relevancy_stays_in_its_range(cosines: list[float]) -> None:
    assert 0 <= relevancy(cosines, noncommittal=False) <= 1
    assert relevancy(cosines, noncommittal=True) == 0
