"""Judges in YAML files: they score as those in Python do, and a fault names its file and key."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from leadline.evaluators.core import DataKind, EvalContext, Evaluator, all_evaluators, describe
from leadline.evaluators.core.suites import suite
from leadline.evaluators.data import (
    ContextChunk,
    Messages,
    NotApplicable,
    Row,
    RowField,
    Severity,
    Unscored,
    calls_of,
)
from leadline.evaluators.ground import UsageError
from leadline.evaluators.judge.file_evaluators import load_folder
from tests.support.judges.judged import ScriptedJudge, fenced, one, reason, value

EXAMPLES = Path(__file__).parents[3] / "examples" / "judges"
POLITE = """
id: tone.polite
name: Polite
description: Whether it is polite.
prompt: |
  Is {actual_answer} polite, for {question}? {"json": true}
classes: [polite, so-so, rude]
passing: [polite, so-so]
"""
HELPFUL = """
id: tone.helpful
name: Helpful
description: How helpful it is.
family: retrieval
prompt: "Does {CONTEXT} help to say {EXPECTED_OUTPUT}? One number."
scale: [1, 5]
passing: 4
"""
RATED = """
id: tone.rated
name: Rated
description: Whether it thanks.
details: A word is enough.
prompt: 'Does {actual_answer} thank? {"rationale": "why", "rating": "yes"}'
rating: true
metric: {key: thankful, name: Thankful}
topic: fairness
suits: [questions]
rag_only: true
source: Acme's handbook
"""
ROW = Row("c", "m", "the question", ("first", "second"), (ContextChunk("one"), ContextChunk("two")), "the answer")


def load(folder: Path, **files: str) -> tuple[type[Evaluator], ...]:
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return load_folder(folder)


@pytest.mark.parametrize(("says", "passes"), [("polite", 1.0), ("So-So.", 1.0), ("rude", 0.0)])
def test_a_word_passes_or_fails(tmp_path: Path, says: str, passes: float) -> None:
    load(tmp_path, polite=POLITE)
    judge = ScriptedJudge({"": says})
    score = one("tone.polite", judge, ROW)
    assert value(score, "model_passes") == passes
    assert value(score, "model_failures") == 1 - passes
    assert fenced(judge.asked[0], "answer") == ["the answer"]
    assert '{"json": true}' in judge.asked[0]


def test_a_word_that_cannot_be_read_is_a_parsing_failure(tmp_path: Path) -> None:
    load(tmp_path, polite=POLITE)
    score = one("tone.polite", ScriptedJudge({"": "politely"}), ROW)
    assert value(score, "model_parse_failures") == 1.0
    assert isinstance(score.values["model_passes"], Unscored)
    assert [flag.severity for flag in score.flags] == [Severity.HIGH]


def test_a_number_on_the_scale_is_the_value_and_the_best_of_several_expected_answers(tmp_path: Path) -> None:
    (kind,) = load(tmp_path, helpful=HELPFUL)
    judge = ScriptedJudge({"": lambda prompt: "4.5" if "second" in prompt else "2"})
    assert value(one("tone.helpful", judge, ROW), "helpful") == 4.5
    (metric,) = kind.spec.metrics
    assert (metric.range, metric.threshold, metric.higher_is_better) == ((1.0, 5.0), 4.0, True)
    assert kind.spec.inputs == (RowField.EXPECTED_ANSWER, RowField.RETRIEVED_CONTEXT)
    assert reason(one("tone.helpful", ScriptedJudge({"": "6"}), ROW)) == "judge_unparseable"


def test_a_lower_number_may_be_better(tmp_path: Path) -> None:
    load(tmp_path, helpful=HELPFUL + "higher_is_better: false\n")
    judge = ScriptedJudge({"": lambda prompt: "4.5" if "second" in prompt else "2"})
    assert value(one("tone.helpful", judge, ROW)) == 2.0


def test_files_are_evaluators_like_all_others(tmp_path: Path) -> None:
    load(tmp_path, helpful=HELPFUL, polite=POLITE)
    assert {"tone.polite", "tone.helpful"} <= set(all_evaluators())
    assert "tone.helpful" in suite("retrieval")
    assert "tone.polite" in suite("default")
    assert "tone.polite" in suite("custom")
    described = describe(all_evaluators()["tone.polite"])
    assert described["judge"] == "llm"
    assert described["description"] == "Whether it is polite."
    assert described["inputs"] == ["question", "actual_answer"]
    assert described["source"] == "polite.yaml"


def test_a_folder_can_be_loaded_again_and_says_then_what_it_says_then(tmp_path: Path) -> None:
    load(tmp_path, polite=POLITE)
    first = all_evaluators()["tone.polite"]().identity(EvalContext())
    load(tmp_path)
    assert all_evaluators()["tone.polite"]().identity(EvalContext()) == first
    load(tmp_path, polite=POLITE.replace("passing: [polite, so-so]", "passing: [polite]"))
    second = all_evaluators()["tone.polite"]().identity(EvalContext())
    load(tmp_path, polite=POLITE.replace("Is {", "Was {"))
    third = all_evaluators()["tone.polite"]().identity(EvalContext())
    assert first != second
    assert first != third


def test_on_a_scale_the_threshold_changes_no_key(tmp_path: Path) -> None:
    (kind,) = load(tmp_path, helpful=HELPFUL)
    before = kind().identity(EvalContext())
    (kind,) = load(tmp_path, helpful=HELPFUL.replace("passing: 4", "passing: 3"))
    assert kind().identity(EvalContext()) == before
    (kind,) = load(tmp_path, helpful=HELPFUL.replace("[1, 5]", "[1, 7]"))
    assert kind().identity(EvalContext()) != before


def test_the_judge_may_rate_with_a_rationale(tmp_path: Path) -> None:
    (kind,) = load(tmp_path, polite=RATED)
    judge = ScriptedJudge({"": {"rationale": "It thanks.", "rating": "Yes"}})
    score = one("tone.rated", judge, ROW)
    assert (value(score, "thankful"), score.evidence.message) == (1.0, "It thanks.")
    assert judge.schemas[0] is not None
    assert value(one("tone.rated", ScriptedJudge({"": {"rating": "no"}}), ROW)) == 0.0
    assert kind.spec.metrics[0].share
    assert kind.spec.source == "Acme's handbook"
    assert describe(kind)["description"] == "Whether it thanks.\n\nA word is enough."
    assert not kind.spec.llm
    assert (kind.spec.problem_type, kind.spec.suits) == ("fairness", (DataKind.QUESTIONS,))


def test_a_yes_for_one_expected_answer_is_enough(tmp_path: Path) -> None:
    load(tmp_path, polite=RATED.replace("{actual_answer}", "{actual_answer} {expected_answer}"))
    judge = ScriptedJudge({"": lambda prompt: {"rating": "yes" if "second" in prompt else "no"}})
    assert value(one("tone.rated", judge, ROW)) == 1.0
    assert len(judge.asked) == 2


CONVERSED = """
id: tone.calm
name: Calm
description: Whether the assistant stays calm.
prompt: 'Calm? {{ messages }} Before: {{ history }} Did: {{ tool_calls }} {"rationale": "why", "rating": "yes"}'
rating: true
unit: conversation
metric: {over_turns: min}
"""


def test_a_judge_may_be_about_a_conversation(tmp_path: Path) -> None:
    (kind,) = load(tmp_path, calm=CONVERSED)
    judge = ScriptedJudge({"": {"rating": "yes"}})
    said: Messages = (
        {"role": "user", "content": "Now!"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "7", "name": "look", "arguments": {"at": 1}}]},
        {"role": "tool", "tool_call_id": "7", "name": "look", "content": "gone"},
    )
    assert value(one("tone.calm", judge, replace(ROW, messages=said, tool_calls=calls_of(said)))) == 1.0
    assert fenced(judge.asked[0], "user") == ["Now!"]
    assert fenced(judge.asked[0], "call") == ['look {"at": 1}'] * 2
    assert "Before: (There is nothing.) Did:" in judge.asked[0]
    assert (kind.spec.unit, kind.spec.metrics[0].over_turns) == ("conversation", "min")
    assert kind.spec.required == (RowField.MESSAGES, RowField.TOOL_CALLS)
    assert RowField.HISTORY in kind.spec.reads


def test_a_judge_that_shows_nothing_but_the_history_needs_one(tmp_path: Path) -> None:
    (kind,) = load(tmp_path, calm=CONVERSED.replace("{{ messages }}", "").replace("{{ tool_calls }}", ""))
    assert kind.spec.required == (RowField.HISTORY,)


def test_a_conversation_without_calls_may_be_settled_by_that(tmp_path: Path) -> None:
    load(tmp_path, calm=CONVERSED + "blank: {tool_calls: {result: not applicable, message: No call.}}\n")
    score = one("tone.calm", ScriptedJudge({}), replace(ROW, tool_calls=()))
    assert score.values["calm"] == NotApplicable("No call.")


def test_a_number_may_have_to_be_whole(tmp_path: Path) -> None:
    load(tmp_path, helpful=HELPFUL + "whole: true\n")
    assert value(one("tone.helpful", ScriptedJudge({"": "4"}), ROW)) == 4.0
    assert reason(one("tone.helpful", ScriptedJudge({"": "4.5"}), ROW)) == "judge_unparseable"


@pytest.mark.parametrize(
    ("result", "passes"), [("pass", 1.0), ("fail", 0.0), ("not applicable", NotApplicable("Nothing was said."))]
)
def test_a_blank_field_decides_without_a_judge(tmp_path: Path, result: str, passes: object) -> None:
    rule = f"blank:\n  actual_answer: {{result: {result}, message: Nothing was said.}}\n"
    load(tmp_path, polite=POLITE + rule)
    judge = ScriptedJudge({"": "polite"})
    assert one("tone.polite", judge, replace(ROW, actual_answer=" \n")).values["model_passes"] == passes
    assert judge.asked == []
    assert value(one("tone.polite", judge, replace(ROW, question=" ")), "model_passes") == 1.0


def test_a_blank_field_may_have_a_value(tmp_path: Path) -> None:
    load(tmp_path, helpful=HELPFUL + "blank: {retrieved_context: {result: 1, message: Nothing was found.}}\n")
    score = one("tone.helpful", ScriptedJudge({"": "4"}), replace(ROW, retrieved_context=(ContextChunk(" "),)))
    assert (value(score), score.evidence.message) == (1.0, "Nothing was found.")


@pytest.mark.parametrize("more", ["blank: {actual_answer: {result: pass}}", "metrics: {a: A, b: B, c: C, d: D, e: E}"])
def test_what_changes_a_score_is_in_its_key(tmp_path: Path, more: str) -> None:
    (kind,) = load(tmp_path, polite=POLITE)
    before = kind().identity(EvalContext())
    (kind,) = load(tmp_path, polite=f"{POLITE}{more}\n")
    assert kind().identity(EvalContext()) != before
    assert before["file"] == {"classes": ("polite", "so-so", "rude"), "passing": ("polite", "so-so")}


def test_what_only_describes_is_not_in_the_key(tmp_path: Path) -> None:
    (kind,) = load(tmp_path, polite=RATED)
    before = kind().identity(EvalContext())
    for right, wrong in (
        ("A word is", "Two words are"),
        ("Acme", "Emca"),
        ("[questions]", "[]"),
        ("name: T", "name: B"),
    ):
        assert right in RATED
        (kind,) = load(tmp_path, polite=RATED.replace(right, wrong))
        assert kind().identity(EvalContext()) == before


FAULTS = [
    ("id: tone.polite", "id: Tone Polite", "id: 'Tone Polite' is not of the form"),
    ("id: tone.polite", "id: faithfulness", "id: there is an evaluator called 'faithfulness' already"),
    ("id: tone.polite\n", "", "id is missing"),
    ("name: Polite\n", "name: ''\n", "name: '' is not allowed; it must have at least 1 character."),
    ("description:", "descripton:", "descripton: there is no such field; did you mean description?"),
    ("{actual_answer}", "{actual_anwser}", "prompt: {actual_anwser} is no placeholder; is {actual_answer} meant?"),
    ("Is {actual_answer} polite, for {question}?", "Is it?", "prompt: it has no placeholder"),
    ("classes: [polite, so-so, rude]", "classes: [yes, no]", "classes.0: put words that YAML takes for true or false"),
    ("classes: [polite, so-so, rude]", "classes: [polite]", "classes must be at least two different words"),
    ("classes: [polite, so-so, rude]", "classes: [polite, POLITE]", "classes must be at least two different words"),
    ("classes: [polite, so-so, rude]\n", "", "give either classes or a scale"),
    ("classes: [polite, so-so, rude]", "classes: [a, b]\nscale: [1, 2]", "give either classes or a scale"),
    ("classes: [polite, so-so, rude]", "scale: [5, 1]", "scale must go from a number to a greater one"),
    ("classes: [polite, so-so, rude]", "scale: [1, 5]", "passing must be a number on the scale"),
    ("classes: [polite, so-so, rude]", "scale: [0, .inf]", "scale.1: Infinity is not a finite number"),
    ("passing: [polite, so-so]", "passing: [kind]", "passing names 'kind'"),
    ("passing: [polite, so-so]", "passing: [polite, so-so, rude]", "passing must name some of the classes"),
    ("passing: [polite, so-so]\n", "", "passing must name some of the classes"),
    ("classes:", "family: kitchen\nclasses:", "family: families are generation,"),
    ("classes:", "inputs: [question]\nclasses:", "inputs are question, but the prompt shows actual_answer, question"),
    ("classes:", "inputs: [weather]\nclasses:", "inputs.0: 'weather' is none of 'question'"),
    ("classes: [", "classes: [[", "line 8: this is no YAML"),
    ("classes:", "rating: true\nclasses:", "give either classes or a scale, or rating: true"),
    ("classes:", "whole: perhaps\nclasses:", "whole: 'perhaps' is not true or false"),
    ("classes:", "metrics: {a: A}\nclasses:", "metrics must be five"),
    (
        "classes:",
        "blank: {expected_answer: {result: pass}}\nclasses:",
        "blank.expected_answer: the prompt does not show",
    ),
    ("classes:", "blank: {question: {result: 1}}\nclasses:", "blank.question: 1 is no value of the metric"),
    ("classes:", "blank: {question: {result: yes}}\nclasses:", "blank.question.result"),
    ("classes:", "blank: {weather: {result: pass}}\nclasses:", "blank.weather"),
    ("classes:", "suits: [weather]\nclasses:", "suits.0: 'weather' is none of"),
    ("classes:", "verdicts: {of: contexts}\nclasses:", "verdicts: there is no such field"),
    ("classes:", "origin: h2o\nclasses:", "origin: there is no such field"),
    ("name: Polite", "name: !!python/object/apply:os.system [echo]", "this is no YAML"),
]


@pytest.mark.parametrize(("right", "wrong", "said"), FAULTS)
def test_a_fault_names_file_and_key(tmp_path: Path, right: str, wrong: str, said: str) -> None:
    assert right in POLITE
    with pytest.raises(UsageError) as caught:
        load(tmp_path, tone=POLITE.replace(right, wrong))
    assert str(tmp_path / "tone.yaml") in str(caught.value)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


SCALE_FAULTS = [
    ("blank: {retrieved_context: {result: 6}}", "blank.retrieved_context: 6 is no value of the metric"),
    ("blank: {retrieved_context: {result: fail}}", "blank.retrieved_context: a row can fail where there are classes"),
    ("whole: true\nscale: [0.5, 5]", "whole is for a scale from a whole number to another"),
    ("looks_for: help", "metrics and looks_for are for classes"),
    ("metric: {key: A B}", "metric.key: the value is not of the form"),
]


@pytest.mark.parametrize(("more", "said"), SCALE_FAULTS)
def test_a_fault_of_a_scale_names_file_and_key(tmp_path: Path, more: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(tmp_path, helpful=f"{HELPFUL}{more}\n")
    assert str(tmp_path / "helpful.yaml") in str(caught.value)
    assert said in str(caught.value)


def test_brackets_nested_without_end_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"odd\.yaml.*this is no YAML"):
        load(tmp_path, odd="[" * 500_000)


@pytest.mark.parametrize("text", ["", "- a list", "just text", "a: &a [*a]", "\x00", "? {}\n: 1"])
def test_a_file_that_is_something_else_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match=r"odd\.yaml"):
        load(tmp_path, odd=text)


def test_two_files_cannot_share_an_id(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"second\.yaml: id: there is an evaluator called 'tone\.polite' already"):
        load(tmp_path, first=POLITE, second=POLITE)


def test_a_folder_without_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no YAML file"):
        load_folder(tmp_path)
    with pytest.raises(UsageError, match="There is no folder"):
        load_folder(tmp_path / "nowhere")


def test_the_examples_are_judges() -> None:
    kinds = {kind.spec.id: kind for kind in load_folder(EXAMPLES)}
    assert set(kinds) == {"politeness", "helpfulness"}
    assert value(one("politeness", ScriptedJudge({"": "neutral"}), ROW), "model_passes") == 1.0
    assert value(one("helpfulness", ScriptedJudge({"": "4"}), ROW), "helpfulness") == 4.0
