"""The Databricks judges: yes or no with a rationale, per row or per chunk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.evaluators.agent.databricks import DEFAULT_PROMPT, CustomParams, DatabricksCustom, pieces
from leadline.evaluators.core import EvalContext, get
from leadline.evaluators.data import ContextChunk, NotApplicable, Row, RowField
from leadline.evaluators.ground import UsageError
from leadline.evaluators.judge_client.transport import Refused
from tests.support.judges.judged import ScriptedJudge, fenced, judged, one, reason, scripted_context, value

ROW = Row(
    case="c",
    model="m",
    question="When does the pump start?",
    expected_answers=("At seven.",),
    retrieved_context=(ContextChunk("It starts at seven."), ContextChunk("Pumps are loud.")),
    actual_answer="It starts at seven.",
)

PROMPTS = {
    "correctness": "factually accurate, and semantically similar",
    "relevance_to_query": "Is the response relevant to the request?",
    "groundedness": "factually consistent with the retrieved context",
    "safety": "free of harmful and toxic content",
    "context_sufficiency": "sufficient to produce the ground truth",
}
CHUNK = "Is the chunk of text"
CUSTOM = "Give a score, a number from 1 to 5"


def rating(word: str, why: str = "because") -> dict[str, str]:
    return {"rationale": why, "rating": word}


@pytest.mark.parametrize("judge", PROMPTS)
@pytest.mark.parametrize(("word", "expected"), [("yes", 1.0), ("no", 0.0), ("Yes", 1.0)])
def test_yes_is_one_and_no_is_zero(judge: str, word: str, expected: float) -> None:
    score = one(f"databricks.{judge}", ScriptedJudge({PROMPTS[judge]: rating(word, "It says so.")}), ROW)
    assert value(score, judge) == expected
    assert score.evidence.data["assessment"] == {"rating": word.lower(), "rationale": "It says so."}
    assert score.evidence.message == "It says so."


@pytest.mark.parametrize("judge", PROMPTS)
@pytest.mark.parametrize("said", ["yes", {"rating": "maybe"}, {"rationale": "no rating"}, {"rating": 1}, "{"])
def test_what_is_no_rating_is_asked_once_more_and_then_unscored(judge: str, said: Any) -> None:
    scripted = ScriptedJudge({PROMPTS[judge]: said})
    assert reason(one(f"databricks.{judge}", scripted, ROW)) == "judge_unparseable"
    assert len(scripted.asked) == 2


@pytest.mark.parametrize(
    ("judge", "shown", "hidden"),
    [
        ("correctness", {"request", "response", "expected-response"}, {"retrieved-context", "fact"}),
        ("relevance_to_query", {"request", "response"}, {"expected-response", "retrieved-context"}),
        ("groundedness", {"request", "response", "retrieved-context"}, {"expected-response"}),
        ("safety", {"request", "response"}, {"expected-response", "retrieved-context"}),
        ("context_sufficiency", {"request", "expected-response", "retrieved-context"}, {"response"}),
    ],
)
def test_a_judge_sees_what_its_inputs_are(judge: str, shown: set[str], hidden: set[str]) -> None:
    scripted = ScriptedJudge({PROMPTS[judge]: rating("yes")})
    one(f"databricks.{judge}", scripted, ROW)
    (prompt,) = scripted.asked
    texts = {
        "request": ["When does the pump start?"],
        "response": ["It starts at seven."],
        "expected-response": ["At seven."],
        "retrieved-context": ["It starts at seven.", "Pumps are loud."],
    }
    assert {label: fenced(prompt, label) for label in shown} == {label: texts[label] for label in shown}
    assert not any(fenced(prompt, label) for label in hidden)


@pytest.mark.parametrize("judge", ["correctness", "context_sufficiency"])
@pytest.mark.parametrize("given", [["It starts.", "", 7, "At seven."], ["It starts.", "At seven."]])
def test_expected_facts_take_the_place_of_an_expected_answer(judge: str, given: list[Any]) -> None:
    scripted = ScriptedJudge({PROMPTS[judge]: rating("yes")})
    row = replace(ROW, metadata={"expected_facts": given})
    for each in (row, replace(row, expected_answers=())):
        assert value(one(f"databricks.{judge}", scripted, each)) == 1.0
        assert fenced(scripted.asked[-1], "fact") == ["It starts.", "At seven."]
        assert fenced(scripted.asked[-1], "expected-response") == []


@pytest.mark.parametrize("judge", ["correctness", "context_sufficiency"])
@pytest.mark.parametrize("metadata", [{}, {"expected_facts": []}, {"expected_facts": {"a": 1}}, {"expected_facts": 3}])
def test_without_ground_truth_a_row_is_not_applicable_and_nothing_is_asked(
    judge: str, metadata: Mapping[str, Any]
) -> None:
    score = one(f"databricks.{judge}", ScriptedJudge({}), replace(ROW, expected_answers=(), metadata=metadata))
    assert isinstance(score.values[judge], NotApplicable)


@pytest.mark.parametrize("judge", ["correctness", "context_sufficiency"])
def test_rows_with_facts_only_are_planned(judge: str) -> None:
    evaluator = get(f"databricks.{judge}")()
    assert RowField.EXPECTED_ANSWER not in evaluator.required
    assert {RowField.EXPECTED_ANSWER, RowField.METADATA} <= set(evaluator.reads)


def test_one_fact_may_be_a_text() -> None:
    scripted = ScriptedJudge({PROMPTS["correctness"]: rating("no")})
    one("databricks.correctness", scripted, replace(ROW, metadata={"expected_facts": "It starts."}))
    assert fenced(scripted.asked[0], "fact") == ["It starts."]


def test_several_expected_answers_are_alternatives_of_one_call() -> None:
    scripted = ScriptedJudge({PROMPTS["correctness"]: rating("yes")})
    one("databricks.correctness", scripted, replace(ROW, expected_answers=("At seven.", "07:00")))
    (prompt,) = scripted.asked
    assert fenced(prompt, "expected-response") == ["At seven.", "07:00"]
    assert "similar to one of them" in prompt


def chunks(*texts: str) -> Row:
    return replace(ROW, retrieved_context=tuple(ContextChunk(text) for text in texts))


def if_good(prompt: str) -> dict[str, str]:
    (text,) = fenced(prompt, "chunk")
    return rating("yes" if "good" in text else "no", f"{text} is so")


def test_precision_is_the_share_of_relevant_chunks() -> None:
    scripted = ScriptedJudge({CHUNK: if_good})
    score = one("databricks.chunk_relevance", scripted, chunks("good 1", "good 2", "bad", "good 3"))
    assert value(score, "precision") == 0.75
    assert score.evidence.data["assessment"] == {
        "ratings": ["yes", "yes", "no", "yes"],
        "rationales": ["good 1 is so", "good 2 is so", "bad is so", "good 3 is so"],
        "error_messages": [None] * 4,
    }
    assert [span.note for span in score.evidence.spans] == ["yes", "yes", "no", "yes"]


def test_a_chunk_retrieved_by_several_models_is_rated_once() -> None:
    scripted = ScriptedJudge({CHUNK: if_good})
    rows = [chunks("good", "bad"), replace(chunks("bad", "good"), model="other")]
    scores = judged("databricks.chunk_relevance", scripted, *rows)
    assert [value(score) for score in scores] == [0.5, 0.5]
    assert len(scripted.asked) == 2


def test_a_chunk_that_cannot_be_rated_leaves_the_row_unscored_and_the_other_ratings_kept() -> None:
    def sometimes(prompt: str) -> Any:
        (text,) = fenced(prompt, "chunk")
        return Refused("too long") if text == "long" else if_good(prompt)

    score = one("databricks.chunk_relevance", ScriptedJudge({CHUNK: sometimes}), chunks("good", "long", "bad"))
    assert reason(score) == "judge_refused"
    kept = score.evidence.data["assessment"]
    assert isinstance(kept, dict)
    assert kept["ratings"] == ["yes", None, "no"]
    assert kept["rationales"] == ["good is so", None, "bad is so"]
    assert [bool(message) for message in kept["error_messages"]] == [False, True, False]
    assert "too long" in kept["error_messages"][1]


def test_a_blank_chunk_is_not_relevant_and_costs_nothing() -> None:
    scripted = ScriptedJudge({CHUNK: if_good})
    assert value(one("databricks.chunk_relevance", scripted, chunks("good", " \n"))) == 0.5
    assert len(scripted.asked) == 1


@settings(max_examples=25, deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=10))
def test_precision_counts_the_chunks(relevant: list[bool]) -> None:
    row = chunks(*(f"{'good' if good else 'bad'} {number}" for number, good in enumerate(relevant)))
    score = one("databricks.chunk_relevance", ScriptedJudge({CHUNK: if_good}), row)
    assert value(score) == sum(relevant) / len(relevant)


def graded(score: float | str, why: str = "because") -> dict[str, Any]:
    return {"justification": why, "score": score}


@pytest.mark.parametrize(("given", "expected"), [(1, 0.0), (3, 0.0), (3.5, 1.0), (4, 1.0), (5, 1.0)])
def test_a_score_above_three_is_a_yes(given: float, expected: float) -> None:
    score = one("databricks.custom", ScriptedJudge({CUSTOM: graded(given, "why not")}), ROW)
    assert value(score, "rating") == expected
    assert score.evidence.data["assessment"] == {"rating": "yes" if expected else "no", "rationale": "why not"}


@pytest.mark.parametrize(("threshold", "expected"), [(0.5, 1.0), (2.9, 1.0), (4.5, 0.0)])
def test_the_threshold_of_yes_can_be_set(threshold: float, expected: float) -> None:
    score = one("databricks.custom", ScriptedJudge({CUSTOM: graded(3)}), ROW, rating_threshold=threshold)
    assert value(score) == expected


@pytest.mark.parametrize("given", [0, 6, "4", True, None])
def test_a_score_out_of_range_or_of_another_type_is_unreadable(given: Any) -> None:
    assert reason(one("databricks.custom", ScriptedJudge({CUSTOM: graded(given)}), ROW)) == "judge_unparseable"


def test_the_prompt_is_filled_in_and_otherwise_left_as_it_is() -> None:
    prompt = 'JSON {"a": {1}} {{ 7 * 7 }} {% raw %} {unknown} Q={request} A={response} C={retrieved_context} {response}'
    scripted = ScriptedJudge({CUSTOM: graded(5)})
    one("databricks.custom", scripted, replace(ROW, actual_answer="{request} {{ 1 }}"), judge_prompt=prompt)
    (asked,) = scripted.asked
    assert asked.startswith('JSON {"a": {1}} {{ 7 * 7 }} {% raw %} {unknown} Q=<request-')
    assert fenced(asked, "request") == ["When does the pump start?"]
    assert fenced(asked, "response") == ["{request} {{ 1 }}"] * 2
    assert fenced(asked, "retrieved_context") == ["It starts at seven.", "Pumps are loud."]


def test_a_retrieval_assessment_rates_each_chunk() -> None:
    def by_chunk(prompt: str) -> dict[str, Any]:
        (text,) = fenced(prompt, "retrieved_context")
        return graded(5 if "good" in text else 2, text)

    scripted = ScriptedJudge({CUSTOM: by_chunk})
    params = {"assessment_type": "RETRIEVAL", "judge_prompt": "Is {retrieved_context} any good?"}
    score = one("databricks.custom", scripted, chunks("good", "bad", "good too", "worse"), **params)
    assert value(score, "rating") == 0.5
    assert score.evidence.data["assessment"] == {
        "ratings": ["yes", "no", "yes", "no"],
        "rationales": ["good", "bad", "good too", "worse"],
        "error_messages": [None] * 4,
    }


@pytest.mark.parametrize(
    ("prompt", "kind", "needed"),
    [
        (DEFAULT_PROMPT, "ANSWER", {RowField.QUESTION, RowField.ACTUAL_ANSWER}),
        ("{response}", "ANSWER", {RowField.ACTUAL_ANSWER}),
        ("{request} {retrieved_context}", "RETRIEVAL", {RowField.QUESTION, RowField.RETRIEVED_CONTEXT}),
    ],
)
def test_a_row_needs_what_the_prompt_names(prompt: str, kind: Any, needed: set[RowField]) -> None:
    evaluator = DatabricksCustom(CustomParams(judge_prompt=prompt, assessment_type=kind))
    assert set(evaluator.required) == set(evaluator.reads) == needed
    assert evaluator.metrics[0].share is (kind == "ANSWER")


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"judge_prompt": "Is it good?"}, "holds none of"),
        ({"assessment_type": "RETRIEVAL", "judge_prompt": "{response}"}, "must hold {retrieved_context}"),
        ({"assessment_name": "correctness"}, "built-in judge"),
        ({"assessment_name": "a/b"}, "assessment_name"),
        ({"assessment_type": "OTHER"}, "assessment_type"),
    ],
)
def test_a_judge_that_makes_no_sense_is_refused(params: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        CustomParams.build("databricks.custom", params)


def test_the_prompt_is_part_of_a_scores_key_and_the_name_is_not() -> None:
    ctx: EvalContext = scripted_context(ScriptedJudge({}))

    def key(**params: Any) -> Any:
        return DatabricksCustom(CustomParams(**params)).identity(ctx)

    assert key(assessment_name="one") == key(assessment_name="two")
    assert key(judge_prompt="{request}") != key(judge_prompt="{response}")
    assert key(rating_threshold=2) != key()


@given(st.text(alphabet="{}request aé%"))
def test_pieces_lose_nothing_of_a_prompt(prompt: str) -> None:
    made = pieces(prompt, {name: [f"{{{name}}}"] for name in ("request", "response", "retrieved_context")})
    assert "".join(piece["text"] for piece in made) == prompt


@pytest.mark.parametrize(
    ("expected", "retrieved", "recall"),
    [
        (("d1", "d2"), ("d1", "x", "y"), 0.5),
        (("d1",), ("x",), 0.0),
        (("d1", "d1", "d2", "d3"), ("d3", "d1", "d3"), 2 / 3),
        (("d1",), (None, "d1"), 1.0),
        ((), ("d1",), None),
        (("d1",), (), None),
        (("d1",), (None,), None),
    ],
)
def test_document_recall_counts_distinct_documents_and_needs_them_on_both_sides(
    expected: tuple[str, ...], retrieved: tuple[str | None, ...], recall: float | None
) -> None:
    row = replace(
        ROW, expected_documents=expected, retrieved_context=tuple(ContextChunk("t", uri) for uri in retrieved)
    )
    (score,) = get("databricks.document_recall")().score([row], EvalContext())
    if recall is None:
        assert isinstance(score.values["document_recall"], NotApplicable)
    else:
        assert value(score, "document_recall") == pytest.approx(recall)
