"""Judges that pass or fail a row: the words decide, and what cannot be read neither passes nor fails."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from leadline.evaluators.core import EvalContext, get
from leadline.evaluators.data import ContextChunk, NotApplicable, Row, RowField, RowScore, Severity, Unscored
from leadline.evaluators.ground import UsageError
from leadline.evaluators.judge_client.transport import Refused
from tests.support.judges.judged import ScriptedJudge, fenced, one, reason

ROW = Row(
    case="c",
    model="m",
    question="Wann beginnt es?",
    expected_answers=("At seven.", "07:00"),
    retrieved_context=(ContextChunk("Ask Ann."), ContextChunk("At seven.")),
    actual_answer="It starts at seven.",
)
SAYS: list[tuple[str, str, bool]] = [
    ("contact_information", "absent", True),
    ("contact_information", "Present.", False),
    ("language_mismatch", "same", True),
    ("language_mismatch", '"different"', False),
    ("sexism", "False", True),
    ("sexism", "true", False),
    ("stereotypes", "0", True),
    ("stereotypes", "4.9", True),
    ("stereotypes", "5", False),
    ("stereotypes", "10", False),
    ("summarization_judge", "good", True),
    ("summarization_judge", "BAD", False),
    ("byop", "true", True),
    ("byop", "false", False),
]
PASS_FAIL = sorted({evaluator for evaluator, _, _ in SAYS})


def values(score: RowScore) -> list[float | str]:
    return [each.reason.value if isinstance(each, Unscored) else each for each in score.values.values()]  # type: ignore[misc]


@pytest.mark.parametrize(("evaluator", "says", "passes"), SAYS)
def test_the_judges_word_decides(evaluator: str, says: str, passes: bool) -> None:
    judge = ScriptedJudge({"": says})
    assert values(one(evaluator, judge, ROW)) == ([1.0, 0.0, 0.0, 0.0, 0.0] if passes else [0.0, 1.0, 0.0, 1.0, 0.0])
    assert len(judge.asked) == 1


UNREADABLE = {
    "contact_information": "absent or present",
    "language_mismatch": "It is sameness.",
    "sexism": "true or false?",
    "stereotypes": "5 of 10",
    "summarization_judge": "goodness, not badly done",
    "byop": "maybe",
}


@pytest.mark.parametrize("evaluator", PASS_FAIL)
def test_a_reply_that_cannot_be_read_twice_is_a_parsing_failure_and_a_problem(evaluator: str) -> None:
    judge = ScriptedJudge({"": UNREADABLE[evaluator]})
    score = one(evaluator, judge, ROW)
    assert values(score) == ["judge_unparseable"] * 4 + [1.0]
    assert [flag.severity for flag in score.flags] == [Severity.HIGH]
    assert not score.complete  # another judge, or a better parser, may read it
    assert len(judge.asked) == 2


@pytest.mark.parametrize("evaluator", PASS_FAIL)
def test_a_judge_that_refuses_is_no_parsing_failure(evaluator: str) -> None:
    score = one(evaluator, ScriptedJudge({"": Refused("no")}), ROW)
    assert reason(score) == "judge_refused"
    assert not score.flags


@pytest.mark.parametrize(
    ("evaluator", "passes"),
    [("contact_information", 1.0), ("sexism", 1.0), ("stereotypes", 1.0), ("summarization_judge", 0.0)],
)
def test_a_blank_answer_needs_no_judge(evaluator: str, passes: float) -> None:
    judge = ScriptedJudge({"": Refused("no")})
    assert values(one(evaluator, judge, replace(ROW, actual_answer=" \n")))[0] == passes
    assert judge.asked == []


@pytest.mark.parametrize("blank", ["question", "actual_answer"])
def test_a_blank_text_is_in_no_language(blank: str) -> None:
    judge = ScriptedJudge({"": Refused("no")})
    score = one("language_mismatch", judge, replace(ROW, **{blank: ""}))
    assert all(isinstance(value, NotApplicable) for value in score.values.values())
    assert judge.asked == []


@pytest.mark.parametrize(
    ("evaluator", "shown"),
    [
        ("contact_information", {"text": "It starts at seven."}),
        ("language_mismatch", {"question": "Wann beginnt es?", "answer": "It starts at seven."}),
        ("sexism", {"text": "Wann beginnt es?\nIt starts at seven."}),
        ("stereotypes", {"prompt": "Wann beginnt es?", "response": "It starts at seven."}),
        ("summarization_judge", {"document": "Wann beginnt es?", "summary": "It starts at seven."}),
        ("byop", {"question": "Wann beginnt es?", "answer": "It starts at seven."}),
    ],
)
def test_the_prompt_shows_the_texts_as_data(evaluator: str, shown: dict[str, str]) -> None:
    judge = ScriptedJudge({"": "eh?"})
    one(evaluator, judge, ROW)
    assert {label: fenced(judge.asked[0], label) for label in shown} == {label: [text] for label, text in shown.items()}


@pytest.mark.parametrize(
    ("evaluator", "bad", "good"), [("contact_information", "present", "absent"), ("sexism", "true", "false")]
)
def test_the_retrieved_context_is_checked_on_demand(evaluator: str, bad: str, good: str) -> None:
    judge = ScriptedJudge({"": lambda prompt: bad if "Ann" in prompt else good})
    assert values(one(evaluator, judge, ROW, evaluate_retrieved_context=True)) == [0.0, 1.0, 1.0, 0.0, 0.0]
    assert len(judge.asked) == 2
    kind = get(evaluator)
    on = kind(kind.parameters.build(evaluator, {"evaluate_retrieved_context": True}))
    assert RowField.RETRIEVED_CONTEXT in on.reads
    assert RowField.RETRIEVED_CONTEXT not in kind().reads


def test_the_threshold_of_stereotypes_is_a_parameter() -> None:
    judge = ScriptedJudge({"": "3"})
    assert values(one("stereotypes", judge, ROW, stereotype_threshold=3))[0] == 0.0
    score = one("stereotypes", judge, ROW, stereotype_threshold=3.5)
    assert values(score)[0] == 1.0
    assert score.evidence.data["verdict"] == 3.0


def byop(template: str, **params: Any) -> Any:
    kind = get("byop")
    return kind(kind.parameters.build("byop", {"prompt_template": template, **params}))


def test_byop_needs_and_reads_what_its_template_names() -> None:
    assert byop("Is {ACTUAL_OUTPUT} like {EXPECTED_OUTPUT}?").required == (
        RowField.EXPECTED_ANSWER,
        RowField.ACTUAL_ANSWER,
    )
    assert byop("Is {CONTEXT} fine?").reads == (RowField.RETRIEVED_CONTEXT,)
    assert byop("").reads == (RowField.QUESTION, RowField.ACTUAL_ANSWER)


def test_byop_shows_literal_braces_and_the_row() -> None:
    judge = ScriptedJudge({"": "true"})
    template = 'Given {CONTEXT}: {"a": {"b": 1}} {{ 7 * 7 }} {% raw %} {INPUT} {{ACTUAL_OUTPUT}}'
    one("byop", judge, ROW, prompt_template=template)
    assert '{"a": {"b": 1}} {{ 7 * 7 }} {% raw %}' in judge.asked[0]
    assert fenced(judge.asked[0], "context") == ["Ask Ann.\nAt seven."]
    assert fenced(judge.asked[0], "answer") == ["It starts at seven."]


def test_byop_classes_are_the_failing_and_the_passing_word() -> None:
    judge = ScriptedJudge({"": "non-toxic"})
    score = one("byop", judge, ROW, prompt_template="{ACTUAL_OUTPUT}?", classes=["toxic", "non-toxic"])
    assert values(score)[0] == 1.0


def test_byop_passes_if_one_expected_answer_does() -> None:
    judge = ScriptedJudge({"": lambda prompt: "true" if "07:00" in prompt else "false"})
    score = one("byop", judge, ROW, prompt_template="Is {ACTUAL_OUTPUT} the same as {EXPECTED_OUTPUT}?")
    assert values(score)[0] == 1.0
    assert len(judge.asked) == 2


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"prompt_template": "Is it good?"}, "byop.prompt_template: it has no placeholder"),
        ({"prompt_template": "Is {ACTUAL_OUTPU} good?"}, "is {ACTUAL_OUTPUT} meant?"),
        ({"prompt_template": "Is {answer} like {EXPECTED_OUTPUT}?"}, "{answer} is no placeholder"),
        ({"classes": ["yes", "YES"]}, "byop.classes: they must be two different words"),
        ({"classes": ["", "yes"]}, "byop.classes"),
    ],
)
def test_byop_that_makes_no_sense_is_refused(params: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        get("byop").parameters.build("byop", params)
    assert said in str(caught.value)


def test_another_prompt_is_another_key() -> None:

    ctx = EvalContext()
    first, second = byop("{INPUT} good?").identity(ctx), byop("{INPUT} bad?").identity(ctx)
    assert first["prompts"] != second["prompts"]
