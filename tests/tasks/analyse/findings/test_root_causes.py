"""Root causes of failing answers of a RAG system, and what of them reaches the problem that names the answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leadline.evaluators.core import all_evaluators
from leadline.tasks.analyse.findings.root_causes import (
    ASPECTS,
    Cause,
    CauseAspect,
    CauseFacts,
    refuses,
    root_cause,
    share_of_words,
)
from leadline.tasks.policy.policy import Role, Rule
from tests.support.stores.problem_factory import GROUPED, problems
from tests.support.stores.run_factory import Given, Toy, answer

WRONG = {CauseAspect.CORRECTNESS: False}


@pytest.mark.parametrize(
    ("facts", "cause"),
    [
        (CauseFacts(retrieved=False, passes=WRONG), Cause.RETRIEVAL_MISSED),
        (CauseFacts(retrieved=True, documents=0.0, passes=WRONG), Cause.RETRIEVAL_MISSED),
        (CauseFacts(retrieved=True, context_share=0.1, passes=WRONG), Cause.RETRIEVAL_MISSED),
        (CauseFacts(retrieved=True, passes=WRONG | {CauseAspect.RECALL: False}), Cause.RETRIEVAL_MISSED),
        (CauseFacts(retrieved=False, refused=True, passes=WRONG), Cause.RETRIEVAL_MISSED),
        (CauseFacts(retrieved=True, documents=1.0, refused=True, passes=WRONG), Cause.REFUSAL),
        (CauseFacts(retrieved=True, context_share=0.9, passes=WRONG), Cause.NOT_USED),
        (CauseFacts(retrieved=True, documents=1.0, context_share=0.6, passes=WRONG), Cause.NOT_USED),
        (CauseFacts(retrieved=True, context_share=0.9, passes=WRONG | {CauseAspect.SUPPORT: False}), Cause.CONTRADICTS),
        (CauseFacts(retrieved=True, answer_share=0.9, passes={CauseAspect.FORM: False}), Cause.FORMAT),
        (CauseFacts(retrieved=True, answer_share=0.9, passes=WRONG), Cause.REFERENCE),
        (
            CauseFacts(retrieved=True, passes=WRONG | {CauseAspect.SUPPORT: True, CauseAspect.RELEVANCE: True}),
            Cause.REFERENCE,
        ),
        (CauseFacts(retrieved=True, passes=WRONG), Cause.UNKNOWN),
        (CauseFacts(retrieved=True, context_share=0.1, passes={CauseAspect.RELEVANCE: False}), Cause.UNKNOWN),
        (CauseFacts(retrieved=True, refused=True, refusal_expected=True, passes=WRONG), Cause.UNKNOWN),
    ],
)
def test_the_first_link_of_the_chain_that_fails_is_the_cause(facts: CauseFacts, cause: Cause) -> None:
    assert root_cause(facts) is cause


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("", True),
        (None, True),
        ("I don\u2019t know.", True),
        ("I'm sorry, but I cannot provide that.", True),
        ("The provided documents do not mention the berth.", True),
        ("There is not enough information to answer.", True),
        ("Das wei\u00df ich leider nicht.", True),
        ("Shore power is not available at Berth 2.", False),
        ("No, batteries are not accepted.", False),
        ("You cannot give way to port there.", False),
    ],
)
def test_refusals_are_told_from_answers_that_say_no(text: str | None, refused: bool) -> None:
    assert refuses(text) is refused


def test_a_number_must_stand_there_as_a_number() -> None:
    assert share_of_words("It is 5.4 m high.", "It is 15.4 m high or 5.42") == pytest.approx(1 / 4)
    assert share_of_words("It is 5.4 m high.", "so HIGH: 5.4.") == 1
    assert share_of_words("Yes.", "Yes.") is None


def test_every_aspect_is_of_an_evaluator_that_exists() -> None:
    known = all_evaluators()
    for name in ASPECTS:
        id_, _, metric = name.partition("/")
        assert id_ in known
        assert not metric or metric in {each.key for each in known[id_].spec.metrics}


def wrong_answers(missed: int, unused: int) -> dict[str, Any]:
    """Return a run of a RAG model with wrong answers, of some of which the expected document was retrieved."""
    rows = []
    for place in range(missed + unused):
        document = "other.md" if place < missed else "right.md"
        context = [("The deepest berth is berth seven, of depth 9.5 m.", document)]
        more = {"expected": ["Berth seven, depth 9.5 m."], "documents": ["right.md"], "context": context}
        rows.append(answer(f"c{place}", "a", **more))
    scores = [Given(row["case"], "a", 0.1, evaluator="answer_correctness") for row in rows]
    return {"rows": rows, "scores": scores, "evaluators": [Toy("answer_correctness", rule=Rule(Role.SHOULD))]}


def test_the_problem_of_a_missed_threshold_counts_root_causes_and_says_what_to_do(tmp_path: Path) -> None:
    found = problems(tmp_path, policy=GROUPED, **wrong_answers(missed=9, unused=0))
    (problem,) = [each for each in found if each["fault"] == "model"]
    assert problem["attrs"]["root_causes"] == {"retrieval_missed": 9}
    assert problem["attrs"]["root_cause_evidence"] == [
        "expected documents", "words of the expected answers", "Answer_Correctness",
    ]  # fmt: skip
    assert "Root causes of 9 failing answers: 9 where the retrieval did not find" in problem["description"]
    assert problem["actions"].startswith("Improve the retrieval")


def test_two_common_causes_have_an_action_each(tmp_path: Path) -> None:
    found = problems(tmp_path, policy=GROUPED, **wrong_answers(missed=4, unused=5))
    (problem,) = [each for each in found if each["fault"] == "model"]
    assert problem["attrs"]["root_causes"] == {"context_not_used": 5, "retrieval_missed": 4}
    assert "Context not used (5): The retrieval is good enough" in problem["actions"]
    assert "Missed by the retrieval (4): Improve" in problem["actions"]


def test_a_leak_has_no_root_cause_of_answer_quality(tmp_path: Path) -> None:
    made = wrong_answers(missed=9, unused=0)
    leaks = [Given(row["case"], "a", 0.1, evaluator="leak") for row in made["rows"]]
    toy = Toy("leak", family="privacy", rule=Rule(Role.MUST))
    made |= {"scores": made["scores"] + leaks, "evaluators": [*made["evaluators"], toy]}
    found = problems(tmp_path, policy=GROUPED, **made)
    (leak,) = [each for each in found if each["kind"] == "failing_rows"]
    assert "root_causes" not in leak["attrs"]
    assert "Root causes" not in leak["description"]
