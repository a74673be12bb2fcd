"""LlamaIndex's judges of its guide "Building Evaluation from Scratch", and its metrics of ranked retrieval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.evaluators.core import EvalContext, get
from leadline.evaluators.data import ContextChunk, NotApplicable, Row, RowScore
from leadline.evaluators.generation.llamaindex import cut, packed, read_answer, read_grade
from leadline.evaluators.judge_client.calls import JudgeUnparseable
from leadline.evaluators.retrieval.llamaindex_retrieval import RetrievalParams
from tests.support.judges.judged import ScriptedJudge, fenced, one, reason, value

ROW = Row(
    case="c",
    model="m",
    question="What is it called?",
    expected_answers=("Llama 2-Chat.",),
    retrieved_context=(ContextChunk("It is called Llama 2-Chat."),),
    actual_answer="Llama 2-Chat",
)
GRADE = "You are an expert evaluation system"
CREATE = "Please tell if a given piece of information"
REFINE = "We have provided an existing YES/NO answer"


@pytest.mark.parametrize(
    ("text", "score", "reasoning"),
    [
        ("4.5\nThe answer is accurate.", 4.5, "The answer is accurate."),
        ("4.5", 4.5, ""),
        ("  4.5  ", 4.5, ""),
        ("\n4.5\nThe answer is accurate.", 4.5, "The answer is accurate."),
        ("5\r\n\r\nOne.\nTwo.", 5.0, "One.\nTwo."),
    ],
)
def test_a_grade_is_a_line_with_only_the_score_and_the_reasoning(text: str, score: float, reasoning: str) -> None:
    assert read_grade(text) == (score, reasoning)


@pytest.mark.parametrize(
    "text", ["", "   ", "not a number\nsome reasoning", "Score: 4\nwhy", "4/5", "0\nwhy", "5.5", "nan", "4 It is good."]
)
def test_what_is_no_grade_is_refused(text: str) -> None:
    with pytest.raises(JudgeUnparseable):
        read_grade(text)


@pytest.mark.parametrize(("score", "passing"), [(1, 0.0), (3.9, 0.0), (4, 1.0), (5, 1.0)])
def test_an_answer_passes_from_four_on(score: float, passing: float) -> None:
    given_score = one("llamaindex.correctness", ScriptedJudge({GRADE: f"{score}\nIt matches."}), ROW)
    assert given_score.values == {"score": float(score), "passing": passing}
    assert given_score.evidence.message == "It matches."
    assert given_score.evidence.data["reasoning"] == "It matches."


def test_the_passing_threshold_can_be_set() -> None:
    score = one("llamaindex.correctness", ScriptedJudge({GRADE: "3"}), ROW, passing_threshold=3)
    assert value(score, "passing") == 1.0


def test_the_best_of_several_references_counts() -> None:
    def grade(prompt: str) -> str:
        return {"right": "5\nIt is right.", "wrong": "1\nIt is wrong."}[fenced(prompt, "reference-answer")[0]]

    judge = ScriptedJudge({GRADE: grade})
    score = one("llamaindex.correctness", judge, replace(ROW, expected_answers=("wrong", "right")))
    assert value(score, "score") == 5.0
    assert score.evidence.message == "It is right."
    assert score.evidence.data["scores"] == [1.0, 5.0]


def test_a_reply_without_a_grade_is_asked_for_again_and_then_unscored() -> None:
    judge = ScriptedJudge({GRADE: ["I think it is good.", "4\nGood."]})
    assert value(one("llamaindex.correctness", judge, ROW), "score") == 4.0
    assert len(judge.asked) == 2
    assert reason(one("llamaindex.correctness", ScriptedJudge({GRADE: "good"}), ROW)) == "judge_unparseable"


def test_the_judge_sees_the_rows_own_texts() -> None:
    judge = ScriptedJudge({GRADE: "4"})
    one("llamaindex.correctness", judge, ROW)
    (prompt,) = judge.asked
    assert fenced(prompt, "query") == ["What is it called?"]
    assert fenced(prompt, "reference-answer") == ["Llama 2-Chat."]
    assert fenced(prompt, "generated-answer") == ["Llama 2-Chat"]


@pytest.mark.parametrize(
    ("text", "word"),
    [("YES", "YES"), ("yes.", "YES"), ("Answer: No", "NO"), ("NO\n\nMy eyes see nothing of it.", "NO")],
)
def test_yes_and_no_are_words(text: str, word: str) -> None:
    assert read_answer(text).word == word


@pytest.mark.parametrize("text", ["", "The eyes have it.", "YES and NO", "nothing", "yesterday", "YES?"])
def test_no_word_or_both_are_no_answer(text: str) -> None:
    with pytest.raises(JudgeUnparseable):
        read_answer(text)


def contexts(*texts: str) -> Row:
    return replace(ROW, retrieved_context=tuple(ContextChunk(text) for text in texts))


@pytest.mark.parametrize(("text", "passing"), [("YES", 1.0), ("No.", 0.0)])
def test_contexts_that_fit_one_call_take_one(text: str, passing: float) -> None:
    judge = ScriptedJudge({CREATE: text})
    score = one("llamaindex.faithfulness", judge, contexts("one", "two", "three"))
    assert value(score, "passing") == passing
    assert score.evidence.data["reason"] == text
    (prompt,) = judge.asked
    assert fenced(prompt, "context") == ["one", "two", "three"]
    assert fenced(prompt, "information") == ["Llama 2-Chat"]


def test_further_contexts_refine_the_existing_answer() -> None:
    judge = ScriptedJudge({CREATE: "NO", REFINE: ["NO", "YES", "NO"]})
    row = contexts("a" * 900, "b" * 900, "c" * 900, "d" * 900)
    score = one("llamaindex.faithfulness", judge, row, context_characters=1000)
    assert value(score) == 1.0
    assert score.evidence.data["answers"] == ["NO", "NO", "YES"]
    assert [fenced(prompt, "context") for prompt in judge.asked] == [["a" * 900], ["b" * 900], ["c" * 900]]
    assert "existing YES/NO answer: NO\n" in judge.asked[1]


def test_a_no_to_the_end_is_a_no() -> None:
    judge = ScriptedJudge({CREATE: "NO", REFINE: "NO"})
    score = one("llamaindex.faithfulness", judge, contexts("a" * 900, "b" * 900), context_characters=1000)
    assert value(score) == 0.0
    assert len(judge.asked) == 2


def test_a_yes_at_once_ends_the_questions() -> None:
    judge = ScriptedJudge({CREATE: "YES"})
    assert value(one("llamaindex.faithfulness", judge, contexts("a" * 5000), context_characters=1000)) == 1.0
    assert len(judge.asked) == 1


def test_a_reply_with_both_words_is_asked_for_again_and_then_unscored() -> None:
    judge = ScriptedJudge({CREATE: "YES or NO"})
    assert reason(one("llamaindex.faithfulness", judge, ROW)) == "judge_unparseable"
    assert len(judge.asked) == 2


def test_a_blank_answer_is_not_applicable() -> None:
    score = one("llamaindex.faithfulness", ScriptedJudge({}), replace(ROW, actual_answer=" "))
    assert isinstance(score.values["passing"], NotApplicable)


@settings(max_examples=100)
@given(st.lists(st.text(alphabet="ab \n", max_size=60), min_size=1, max_size=8), st.integers(4, 40))
def test_packing_keeps_every_character_in_order_and_within_the_budget(texts: list[str], size: int) -> None:
    calls = packed(texts, size)
    assert "".join(piece for call in calls for piece in call) == "".join(texts)
    assert all(len(call) > 0 and sum(map(len, call)) <= size for call in calls)
    n_pieces = sum(len(list(cut(text, size))) for text in texts)
    assert len(calls) <= n_pieces


def test_a_long_context_is_cut_at_white_space() -> None:
    assert list(cut("alpha beta gamma", 12)) == ["alpha beta ", "gamma"]
    assert list(cut("x" * 25, 10)) == ["x" * 10, "x" * 10, "x" * 5]


def test_a_megabyte_of_context_is_packed_at_once() -> None:
    assert len(packed(["word " * 200_000], 24_000)) == math.ceil(1_000_000 / 24_000)


def retrieval(expected: Sequence[str], retrieved: Sequence[str | None], **params: Any) -> RowScore:
    row = replace(
        ROW, expected_documents=tuple(expected), retrieved_context=tuple(ContextChunk("text", uri) for uri in retrieved)
    )
    (score,) = get("llamaindex.retrieval")(RetrievalParams(**params)).score([row], EvalContext())
    return score


ONE = ("id1", "id2", "id3"), ("id3", "id1", "id2", "id4")
TWO = ("id1", "id2", "id3", "id4"), ("id5", "id1")
THREE = ("id1", "id2"), ("id3", "id4")
FOUR = ("id1", "id2"), ("id2", "id1", "id7")
FIVE = ("id1", "id2", "id3", "id4"), ("id1", "id2", "id5")
SIX = ("id1", "id2"), ("id1", "id7", "id15", "id2")


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (ONE, {"hit_rate": 1, "mrr": 1, "precision": 0.75, "recall": 1, "ap": 1, "ndcg": 1}),
        (TWO, {"hit_rate": 1, "mrr": 0.5, "precision": 0.5, "recall": 0.25, "ap": 0.125, "ndcg": 0.24630238874073}),
        (THREE, {"hit_rate": 0, "mrr": 0, "precision": 0, "recall": 0, "ap": 0, "ndcg": 0}),
        (FOUR, {"hit_rate": 1, "mrr": 1, "precision": 2 / 3, "recall": 1, "ap": 1, "ndcg": 1}),
        (FIVE, {"hit_rate": 1, "mrr": 1, "precision": 2 / 3, "recall": 0.5, "ap": 0.5, "ndcg": 0.6366824387328317}),
        (SIX, {"hit_rate": 1, "mrr": 1, "precision": 0.5, "recall": 1, "ap": 0.75, "ndcg": 0.8772153153380493}),
    ],
)
def test_metrics_equal_the_librarys(ids: tuple[Sequence[str], Sequence[str]], expected: dict[str, float]) -> None:
    assert retrieval(*ids).values == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("ids", "hit_rate", "mrr"), [(ONE, 1.0, 0.611111111111111), (FIVE, 0.5, 0.75), (SIX, 1.0, 0.625), (THREE, 0.0, 0.0)]
)
def test_granular_variants_equal_the_librarys(
    ids: tuple[Sequence[str], Sequence[str]], hit_rate: float, mrr: float
) -> None:
    score = retrieval(*ids, granular_hit_rate=True, granular_mrr=True)
    assert value(score, "hit_rate") == pytest.approx(hit_rate)
    assert value(score, "mrr") == pytest.approx(mrr)


def test_several_chunks_of_a_document_count_once() -> None:
    assert retrieval(("a", "b"), ("x", "a", "a", "x", "b")).values == retrieval(("a", "b"), ("x", "a", "b")).values


def test_a_chunk_without_a_document_takes_a_rank() -> None:
    score = retrieval(("a",), (None, None, "a"))
    assert (value(score, "mrr"), value(score, "precision")) == (1 / 3, 1 / 3)


@pytest.mark.parametrize("ids", [((), ("a",)), (("a",), ()), (("a",), (None,))])
def test_without_documents_on_both_sides_a_row_is_not_applicable(ids: tuple[Any, Any]) -> None:
    assert all(isinstance(found, NotApplicable) for found in retrieval(*ids).values.values())


@given(
    st.sets(st.sampled_from("abcdefgh"), min_size=1),
    st.lists(st.sampled_from([*"abcdefghijkl", None]), min_size=1, max_size=20).filter(any),
)
def test_metrics_are_bounded_and_agree_with_each_other(expected: set[str], retrieved: list[str | None]) -> None:
    score = retrieval(sorted(expected), retrieved)
    values = {key: value(score, key) for key in score.values}
    assert all(0 <= found <= 1 for found in values.values())
    hit = bool(expected & set(retrieved))
    assert all((found > 0) == hit for found in values.values())
    assert values["ap"] <= values["recall"] + 1e-12
    assert values["recall"] == len(expected & set(retrieved)) / len(expected)
