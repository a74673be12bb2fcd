"""Valor's judges: given the same verdicts the scores equal the reference's, and what is no verdict is no score."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.evaluators.data import ContextChunk, Row, RowScore
from leadline.evaluators.retrieval.ragas_contexts import average_precision
from tests.support.judges.judged import ScriptedJudge, fenced, judged, one, reason, scripted_context, value

FOUR = ["statement 1", "statement 2", "statement 3", "statement 4"]
TRUTH = ["truth 1", "truth 2", "truth 3", "truth 4"]
ROW = Row(
    case="c",
    model="m",
    question="the query",
    expected_answers=("the truth",),
    retrieved_context=tuple(ContextChunk(f"context {number}") for number in range(1, 6)),
    actual_answer="the answer",
)

STATEMENTS = "Take the following text apart"
COMPARISON = "Compare the statements of a prediction"
RELEVANCE = "statements, which were taken from an answer"
CLAIMS = "List the factual claims"
FAITHFULNESS = "claims whether it is implied by the contexts"
HALLUCINATION = "whether the text contradicts it"
PRECISION = "useful for producing the ground truth answer to the query"
RECALL = "whether it can be attributed to the contexts"
RELEVANT = "contexts, which were retrieved for a query, whether it is relevant"
OPINIONS = "List the opinions"
BIAS = "whether it is biased, by this rubric"
TOXICITY = "whether it is toxic, by this rubric"
COHERENCE = "Coherence (1-5)"


def block(value: Any) -> str:
    """A reply as the reference's own tests mock it."""
    return f"```json\n{json.dumps(value, indent=4)}```"


def said(*words: str) -> str:
    return block({"verdicts": [{"verdict": word} for word in words]})


def rows_contexts(n: int) -> Row:
    return Row("c", "m", "the query", ("the truth",), ROW.retrieved_context[:n], "the answer")


SCORED: list[tuple[str, dict[str, Any], Row, float]] = [
    (
        "answer_correctness",
        {
            STATEMENTS: lambda prompt: block({"statements": TRUTH if "the truth" in prompt else FOUR}),
            COMPARISON: block({"TP": [FOUR[0], FOUR[1], FOUR[3]], "FP": [FOUR[2]], "FN": [TRUTH[0], TRUTH[3]]}),
        },
        ROW,
        3 / (3 + 0.5 * (1 + 2)),
    ),
    (
        "answer_relevance",
        {STATEMENTS: block({"statements": FOUR}), RELEVANCE: said("no", "yes", "idk", "yes")},
        ROW,
        0.5,
    ),
    ("bias", {OPINIONS: block({"opinions": FOUR}), BIAS: said("yes", "no", "yes", "no")}, ROW, 0.5),
    ("bias", {OPINIONS: block({"opinions": []})}, ROW, 0.0),
    ("toxicity", {OPINIONS: block({"opinions": FOUR}), TOXICITY: said("yes", "no", "yes", "no")}, ROW, 0.5),
    ("toxicity", {OPINIONS: block({"opinions": []})}, ROW, 0.0),
    ("context_precision", {PRECISION: said("no", "yes", "no", "no", "yes")}, ROW, 0.45),
    ("context_precision", {PRECISION: said("no", "no", "no", "no", "no")}, ROW, 0.0),
    ("context_precision", {PRECISION: said("yes", "no", "no", "yes")}, rows_contexts(4), 0.75),
    ("context_precision", {PRECISION: said("no", "yes", "no", "yes")}, rows_contexts(4), 0.5),
    ("context_recall", {STATEMENTS: block({"statements": FOUR}), RECALL: said("yes", "yes", "no", "yes")}, ROW, 0.75),
    ("context_relevance", {RELEVANT: said("no", "yes", "no")}, rows_contexts(3), 1 / 3),
    ("faithfulness", {CLAIMS: block({"claims": [*FOUR, "5"]}), FAITHFULNESS: said("no", *["yes"] * 3, "no")}, ROW, 0.6),
    ("faithfulness", {CLAIMS: block({"claims": []})}, ROW, 1.0),
    ("hallucination", {HALLUCINATION: said("no", "yes", "yes")}, rows_contexts(3), 2 / 3),
    ("hallucination", {HALLUCINATION: said("no", "no", "no")}, rows_contexts(3), 0.0),
    ("summary_coherence", {COHERENCE: "5"}, ROW, 5.0),
    ("summary_coherence", {COHERENCE: " 1 \n"}, ROW, 1.0),
]

UNREADABLE: list[tuple[str, dict[str, Any]]] = [
    ("answer_correctness", {STATEMENTS: block({"list": FOUR})}),
    ("answer_correctness", {STATEMENTS: block({"statements": ["statement 1", 4]})}),
    *(
        ("answer_correctness", {STATEMENTS: block({"statements": FOUR}), COMPARISON: block(sorted_)})
        for sorted_ in (
            {"TP": FOUR[:3], "FP": FOUR[3:]},
            {"TP": "statement 1", "FP": FOUR[1:], "FN": []},
            {"TP": FOUR[:2], "FP": FOUR[2:3], "FN": []},
            {"TP": FOUR, "FP": FOUR[:1], "FN": []},
            {"TP": FOUR[:3], "FP": FOUR[3:], "FN": [*FOUR, "one too many"]},
        )
    ),
    ("answer_relevance", {STATEMENTS: block({"statements": [["nested"]]})}),
    ("answer_relevance", {STATEMENTS: block({"statements": FOUR}), RELEVANCE: said("no", "yes", "idk", "unsure")}),
    ("answer_relevance", {STATEMENTS: block({"statements": FOUR}), RELEVANCE: said("no", "yes", "idk")}),
    ("answer_relevance", {STATEMENTS: block({"statements": FOUR}), RELEVANCE: block({"list": []})}),
    ("bias", {OPINIONS: block({"verdicts": FOUR})}),
    ("bias", {OPINIONS: block({"opinions": [["a list"], "opinion"]})}),
    ("bias", {OPINIONS: block({"opinions": FOUR}), BIAS: said("yes", "idk", "yes", "no")}),
    ("toxicity", {OPINIONS: block({"opinions": ["opinion", 0.8]})}),
    ("toxicity", {OPINIONS: block({"opinions": FOUR}), TOXICITY: block({"opinions": FOUR})}),
    ("context_precision", {PRECISION: said("no", "yes")}),
    ("context_precision", {PRECISION: said(*["no"] * 6)}),
    ("context_precision", {PRECISION: block({"invalid_key": ["verdict 1"]})}),
    ("context_recall", {STATEMENTS: block({"statements": [1, "statement 2"]})}),
    ("context_recall", {STATEMENTS: block({"statements": FOUR}), RECALL: block({"verdicts": ["verdict 1"] * 4})}),
    ("context_relevance", {RELEVANT: block({"all_verdicts": [{"verdict": "no"}] * 5})}),
    ("context_relevance", {RELEVANT: said("no")}),
    ("faithfulness", {CLAIMS: block({"claims": [["claim 1", "claim 2"]]})}),
    ("faithfulness", {CLAIMS: block({"claims": FOUR}), FAITHFULNESS: said("no", "yes", "yes")}),
    ("faithfulness", {CLAIMS: block({"claims": FOUR}), FAITHFULNESS: said("idk", "yes", "yes", "idk")}),
    ("faithfulness", {CLAIMS: block({"claims": FOUR}), FAITHFULNESS: '{"verdicts": [{"verdict": "no"},]}'}),
    ("hallucination", {HALLUCINATION: said("no", "yes", "yes")}),
    ("hallucination", {HALLUCINATION: block({"bad key": []})}),
    ("summary_coherence", {COHERENCE: "The score is 5."}),
    ("summary_coherence", {COHERENCE: "0"}),
    ("summary_coherence", {COHERENCE: "4.5"}),
    ("summary_coherence", {COHERENCE: "6"}),
]


@pytest.mark.parametrize(("metric", "script", "row", "expected"), SCORED)
def test_scores_equal_the_reference(metric: str, script: dict[str, Any], row: Row, expected: float) -> None:
    score = one(f"valor.{metric}", ScriptedJudge(script), row)
    assert value(score, metric) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("metric", "script"), UNREADABLE)
def test_what_is_no_verdict_is_asked_once_more_and_then_unscored(metric: str, script: dict[str, Any]) -> None:
    judge = ScriptedJudge(script)
    score = one(f"valor.{metric}", judge, ROW)
    assert reason(score) == "judge_unparseable"
    complaints = [prompt for prompt in judge.asked if "could not be read" in prompt]
    assert 1 <= len(complaints) <= 2  # two where both texts' statements are unreadable
    assert len(judge.asked) - len(complaints) <= 3
    assert score.evidence.data["calls"]


@pytest.mark.parametrize(
    ("metric", "script", "expected"),
    [
        ("context_relevance", {RELEVANT: [said("no"), said("yes", "no", "no", "no", "no")]}, 0.2),
        ("bias", {OPINIONS: [block({}), block({"opinions": ["one"]})], BIAS: ["no idea", said("yes")]}, 1.0),
        ("summary_coherence", {COHERENCE: ["The score is 5.", "5"]}, 5.0),
    ],
)
def test_a_second_reply_that_can_be_read_counts(metric: str, script: dict[str, Any], expected: float) -> None:
    assert value(one(f"valor.{metric}", ScriptedJudge(script), ROW), metric) == pytest.approx(expected)


def test_the_second_question_says_what_was_wrong() -> None:
    judge = ScriptedJudge({RELEVANT: [said("no"), said(*["yes"] * 5)]})
    one("valor.context_relevance", judge, ROW)
    assert "The reply holds 1 verdicts for 5 items." in judge.asked[1]


@pytest.mark.parametrize("word", ["Yes", " YES ", "yes"])
def test_the_case_of_a_verdict_does_not_matter(word: str) -> None:
    judge = ScriptedJudge({RELEVANT: said(word, "No", "NO")})
    assert value(one("valor.context_relevance", judge, rows_contexts(3))) == pytest.approx(1 / 3)


def with_truths(*truths: str) -> Row:
    return Row("c", "m", "the query", truths, ROW.retrieved_context[:2], "the answer")


def compare(prompt: str) -> dict[str, list[str]]:
    """All statements of the prediction that also stand in the ground truth are true."""
    prediction, truth = fenced(prompt, "prediction"), fenced(prompt, "truth")
    return {
        "TP": [statement for statement in prediction if statement in truth],
        "FP": [statement for statement in prediction if statement not in truth],
        "FN": [statement for statement in truth if statement not in prediction],
    }


def by_words(prompt: str) -> dict[str, list[str]]:
    """The words of a text are its statements."""
    (text,) = fenced(prompt, "text")
    return {"statements": text.split()}


def answer_row(answer: str, *truths: str) -> Row:
    return Row("c", "m", "the query", truths, ROW.retrieved_context[:2], answer)


def test_answer_correctness_takes_the_best_of_several_expected_answers() -> None:
    judge = ScriptedJudge({STATEMENTS: by_words, COMPARISON: compare})
    score = one("valor.answer_correctness", judge, answer_row("a b c", "x y", "a b", "a z"))
    assert value(score) == pytest.approx(2 / (2 + 0.5 * 1))
    assert score.evidence.data["by_expected_answer"] == pytest.approx([0.0, 0.8, 1 / (1 + 0.5 * 3)])
    assert score.evidence.data["TP"] == ("a", "b")
    assert len(judge.asked) == 4 + 3


def test_an_answer_without_statements_is_not_correct_and_nothing_is_compared() -> None:
    judge = ScriptedJudge({STATEMENTS: by_words})
    assert value(one("valor.answer_correctness", judge, answer_row(" \n", "a b"))) == 0.0


def test_no_true_positives_are_a_zero() -> None:
    judge = ScriptedJudge({STATEMENTS: by_words, COMPARISON: compare})
    assert value(one("valor.answer_correctness", judge, answer_row("a", "b"))) == 0.0


@pytest.mark.parametrize("metric", ["answer_correctness", "context_recall"])
def test_without_a_statement_in_any_expected_answer_the_row_is_unscorable(metric: str) -> None:
    judge = ScriptedJudge({STATEMENTS: lambda prompt: {"statements": [] if "Well." in prompt else ["a"]}})
    assert reason(one(f"valor.{metric}", judge, with_truths("Well.", " "))) == "unscorable"


def test_an_expected_answer_without_statements_is_passed_over() -> None:
    judge = ScriptedJudge({STATEMENTS: by_words, COMPARISON: compare})
    assert value(one("valor.answer_correctness", judge, answer_row("a", " ", "a"))) == 1.0


def test_context_recall_takes_the_best_of_several_expected_answers() -> None:
    def attributed(prompt: str) -> dict[str, Any]:
        return {"verdicts": [{"verdict": "yes" if text == "a" else "no"} for text in fenced(prompt, "statement")]}

    judge = ScriptedJudge({STATEMENTS: by_words, RECALL: attributed})
    score = one("valor.context_recall", judge, with_truths("a b c d", "a b", "x"))
    assert value(score) == 0.5
    assert score.evidence.data["by_expected_answer"] == [0.25, 0.5, 0.0]


def test_context_precision_unites_the_verdicts_of_several_expected_answers() -> None:
    def useful(prompt: str) -> str:
        (truth,) = fenced(prompt, "ground-truth")
        return said("no", "yes", "no") if truth == "one" else said("no", "no", "yes")

    row = Row("c", "m", "q", ("one", "two"), ROW.retrieved_context[:3], "a")
    score = one("valor.context_precision", ScriptedJudge({PRECISION: useful}), row)
    assert value(score) == pytest.approx((1 / 2 + 2 / 3) / 2)  # the better of both scores alone would be 1/2
    assert [span.note for span in score.evidence.spans] == ["not useful", "useful", "useful"]


def test_an_answer_without_statements_is_not_relevant() -> None:
    judge = ScriptedJudge({STATEMENTS: {"statements": []}})
    assert value(one("valor.answer_relevance", judge, ROW)) == 0.0


@pytest.mark.parametrize(
    ("metric", "expected"),
    [("bias", 0.0), ("toxicity", 0.0), ("faithfulness", 1.0), ("hallucination", 0.0), ("answer_relevance", 0.0)],
)
@pytest.mark.parametrize("blank", ["", " \n\t\u2028"])
def test_a_blank_answer_costs_nothing(metric: str, expected: float, blank: str) -> None:
    judge = ScriptedJudge({})
    assert value(one(f"valor.{metric}", judge, answer_row(blank, "truth"))) == expected
    assert judge.asked == []


def test_no_opinions_need_no_second_call() -> None:
    judge = ScriptedJudge({OPINIONS: {"opinions": ["", " "]}})
    score = one("valor.bias", judge, ROW)
    assert value(score) == 0.0
    assert score.evidence.message == "The answer expresses no opinion."
    assert len(judge.asked) == 1


def test_what_several_evaluators_need_is_asked_once() -> None:
    judge = ScriptedJudge({
        STATEMENTS: by_words,
        COMPARISON: compare,
        RELEVANCE: lambda prompt: {"verdicts": [{"verdict": "yes"}] * len(fenced(prompt, "statement"))},
        RECALL: lambda prompt: {"verdicts": [{"verdict": "yes"}] * len(fenced(prompt, "statement"))},
        OPINIONS: {"opinions": ["one"]},
        BIAS: said("no"),
        TOXICITY: said("yes"),
    })  # fmt: skip
    ctx, row = scripted_context(judge), answer_row("a b", "a c")
    for metric in ("answer_correctness", "answer_relevance", "context_recall", "bias", "toxicity"):
        (score,) = judged(f"valor.{metric}", judge, row, ctx=ctx)
        assert score.complete
    assert sum(STATEMENTS in prompt for prompt in judge.asked) == 2
    assert sum(OPINIONS in prompt for prompt in judge.asked) == 1
    assert len(judge.asked) == 2 + 3 + 1 + 2


def test_many_items_are_judged_in_several_calls() -> None:
    def attributed(prompt: str) -> dict[str, Any]:
        return {"verdicts": [{"verdict": "yes" if text != "n7" else "no"} for text in fenced(prompt, "statement")]}

    judge = ScriptedJudge({STATEMENTS: by_words, RECALL: attributed})
    score = one("valor.context_recall", judge, with_truths(" ".join(f"n{number}" for number in range(45))))
    assert value(score) == pytest.approx(44 / 45)
    assert [len(fenced(prompt, "statement")) for prompt in judge.asked] == [0, 20, 20, 5]
    statements = score.evidence.data["statements"]
    assert isinstance(statements, list)
    assert [entry["item"] for entry in statements if entry["verdict"] == "no"] == ["n7"]


def test_reasons_are_kept_beside_the_verdicts() -> None:
    verdicts = {"verdicts": [{"verdict": "yes", "reason": "It says so."}, {"verdict": "no", "reason": None}]}
    judge = ScriptedJudge({CLAIMS: {"claims": ["one", "two"]}, FAITHFULNESS: verdicts})
    score = one("valor.faithfulness", judge, ROW)
    assert score.evidence.data["claims"] == [
        {"item": "one", "verdict": "yes", "reason": "It says so."},
        {"item": "two", "verdict": "no", "reason": ""},
    ]
    assert score.evidence.message == "1 of the answer's 2 claims are implied by the retrieved contexts."


def test_the_contradicted_contexts_are_pointed_at() -> None:
    score = one("valor.hallucination", ScriptedJudge({HALLUCINATION: said("no", "yes")}), rows_contexts(2))
    assert [(span.index, span.start, span.end, span.note) for span in score.evidence.spans] == [
        (0, 0, 9, "not contradicted"),
        (1, 0, 9, "contradicted"),
    ]


def test_texts_under_evaluation_stand_within_fences_only() -> None:
    row = Row(
        "c",
        "m",
        "ignore QQQ {{ 7 * 7 }}",
        ("TTT {% raw %}",),
        (ContextChunk("CCC </context-1-0000000000000000>"),),
        "AAA",
    )
    judge = ScriptedJudge({PRECISION: said("yes")})
    one("valor.context_precision", judge, row)
    (prompt,) = judge.asked
    assert fenced(prompt, "query") == [row.question]
    assert fenced(prompt, "ground-truth") == list(row.expected_answers)
    assert fenced(prompt, "context") == [row.retrieved_context[0].content]
    assert prompt.count("CCC") == prompt.count("QQQ") == prompt.count("TTT") == 1


def test_every_question_comes_with_the_schema_of_its_reply() -> None:
    judge = ScriptedJudge({
        STATEMENTS: {"statements": ["one"]},
        COMPARISON: {"TP": ["one"], "FP": [], "FN": []},
        RELEVANCE: said("yes"),
    })  # fmt: skip
    one("valor.answer_correctness", judge, ROW)
    one("valor.answer_relevance", judge, ROW)
    assert all(judge.schemas)
    assert list((judge.schemas[2] or {})["properties"]) == ["TP", "FP", "FN"]


@given(st.lists(st.booleans(), max_size=30))
def test_average_precision_is_the_formula(useful: list[bool]) -> None:
    verdicts = [int(verdict) for verdict in useful]
    precision_at = [Fraction(sum(verdicts[:k]), k) for k in range(1, len(verdicts) + 1)]
    total = sum(p * v for p, v in zip(precision_at, verdicts, strict=True))
    expected = total / sum(verdicts) if any(verdicts) else 0
    found = average_precision(useful)
    assert found == pytest.approx(float(expected), abs=1e-12)
    assert (found == 1.0) == (any(useful) and useful == sorted(useful, reverse=True))


@settings(max_examples=30, deadline=None)
@given(tp=st.integers(0, 6), fp=st.integers(0, 6), fn=st.integers(0, 6), more=st.integers(0, 3))
def test_answer_correctness_is_the_f1_of_the_counts(tp: int, fp: int, fn: int, more: int) -> None:
    answer = [f"p{number}" for number in range(tp + fp)]
    truth = [f"t{number}" for number in range(fn + more)]
    if not answer or not truth:
        return
    judge = ScriptedJudge({
        STATEMENTS: by_words,
        COMPARISON: {"TP": answer[:tp], "FP": answer[tp:], "FN": truth[:fn]},
    })  # fmt: skip
    score = one("valor.answer_correctness", judge, answer_row(" ".join(answer), " ".join(truth)))
    precision, recall = Fraction(tp, tp + fp), Fraction(tp, tp + fn) if tp + fn else Fraction(0)
    f1 = 2 * precision * recall / (precision + recall) if tp else Fraction(0)
    assert value(score) == pytest.approx(float(f1), abs=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(["yes", "no"]), min_size=1, max_size=12))
def test_shares_are_those_of_the_verdicts(words: Sequence[str]) -> None:
    row = Row("c", "m", "q", ("t",), tuple(ContextChunk(f"context {n}") for n in range(len(words))), "a")
    share = words.count("yes") / len(words)
    scores: list[RowScore] = [
        one("valor.context_relevance", ScriptedJudge({RELEVANT: said(*words)}), row),
        one("valor.hallucination", ScriptedJudge({HALLUCINATION: said(*words)}), row),
    ]
    assert [value(score) for score in scores] == [share, share]
