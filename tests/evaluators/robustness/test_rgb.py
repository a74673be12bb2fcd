"""RGB's evaluators: both scorers by the documented rules, quirks included, and the cases that they are for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.evaluators.core import EvalContext
from leadline.evaluators.data import NotApplicable, Reason, Row, Unscored
from leadline.evaluators.robustness.rgb import (
    CounterfactualParams,
    CounterfactualRobustness,
    InformationIntegration,
    NegativeRejection,
    NoiseRobustness,
    Official,
    RgbCase,
    RgbEvaluator,
    RgbParams,
    Space,
    is_right,
    normalized,
    rgb_case,
)

TOOLS = EvalContext()


def row(answer: str, *expected: str, **metadata: Any) -> Row:
    return Row(case="c", model="m", actual_answer=answer, expected_answers=expected, metadata=metadata)


def case(*parts: tuple[str, ...], counterfactual: tuple[str, ...] = (), language: str = "en") -> RgbCase:
    return rgb_case(
        row("", rgb={"answer": [list(part) for part in parts], "counterfactual_answer": list(counterfactual),
                     "language": language})
    )  # fmt: skip


def value(evaluator: RgbEvaluator, of: Row, metric: str = "accuracy") -> Any:
    return evaluator.score([of], TOOLS)[0].values[metric]


@pytest.mark.parametrize(
    ("answer", "truth", "right"),
    [
        ("The capital of France is Paris.", "Paris", True),
        (
            "The main causes include greenhouse gas emissions from burning fossil fuels, loss of forests that absorb "
            "CO2, industrial pollution, and methane from agriculture.",
            "Greenhouse gases from fossil fuels, deforestation, industrial emissions, and agricultural methane",
            False,  # 7 of 11 words, whatever the source's own text says of it
        ),
        ("is", "Paris is nice", True),
        ("a", "Tampa, Florida", True),
        ("The winner is not Norway", "Norway", True),
        ("", "Paris", False),
        ("one two three four, the rest is unlike it", "four three two one five", False),
        ("one two three four in another order", "four three two one five", True),
    ],
)
def test_space_accepts_containment_and_four_fifths_of_the_words(answer: str, truth: str, right: bool) -> None:
    assert value(NoiseRobustness(), row(answer, truth)) == right
    assert value(InformationIntegration(), row(answer, truth)) == right


def test_strict_accepts_an_equal_text_only() -> None:
    strict = NoiseRobustness(RgbParams(strict=True))
    assert value(strict, row("  PARIS! ", "Paris")) == 1
    assert value(strict, row("It is Paris", "Paris")) == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [("Paris.", "paris"), ("The capital is Paris!!!", "the capital is paris"), ("  a \n b;:, ", "a b"), ("...", "")],
)
def test_normalizing(text: str, expected: str) -> None:
    assert normalized(text) == expected


@pytest.mark.parametrize(
    ("answer", "refused"),
    [
        ("I cannot answer this question because the documents don't contain relevant information.", True),
        ("Based on the provided documents, I cannot determine the answer.", True),
        ("The documents do not mention this topic, so I cannot provide an answer.", True),
        ("The answer is probably 42 but I’m not sure.", True),
        ("Based on the information, the answer is London.", False),
        ("Paris is correct; the unknown soldier is elsewhere.", True),
        ("However, the answer is London.", False),
        ("", False),
    ],
)
def test_space_refusals(answer: str, refused: bool) -> None:
    assert value(NegativeRejection(), row(answer), "rejection_rate") == refused


@pytest.mark.parametrize(
    ("answer", "refused"),
    [
        ("I can not answer the question because of the insufficient information in documents.", True),
        ("Insufficient Information", False),  # letter case counts
        ("文档信 息不 足，因此我无法基于提供的文档回答该问题。", True),
        ("I cannot say.", False),
    ],
)
def test_official_refusals_are_the_prompts_own_words(answer: str, refused: bool) -> None:
    assert value(NegativeRejection(RgbParams(scorer="official")), row(answer), "rejection_rate") == refused


@pytest.mark.parametrize(
    ("answer", "detected", "corrected"),
    [
        ("The documents state London, but that is incorrect. The actual capital is Paris.", 1, 1),
        ("According to the documents, the capital is London.", 0, 0),
        ("The documents are wrong - the capital is Tokyo.", 1, 0),
        ("However, the answer is London.", 1, 0),
        ("It is not London.", 1, 0),
        ("Paris", 0, 1),
    ],
)
def test_space_counterfactual(answer: str, detected: int, corrected: int) -> None:
    score = CounterfactualRobustness().score([row(answer, "Paris", counterfactual_answer="London")], TOOLS)[0]
    assert score.values == {"error_detection_rate": detected, "error_correction_rate": corrected}


def test_repeating_the_wrong_answer_beside_four_fifths_of_the_right_words_corrects_nothing() -> None:
    right, wrong = "alpha beta gamma delta epsilon", "omega"
    answer = "delta gamma beta alpha omega"
    assert Space().is_correct(answer, right)
    assert not Space().corrects(answer, case((right,), counterfactual=(wrong,)))


def test_official_correction_is_among_the_detected_only() -> None:
    official = CounterfactualRobustness(CounterfactualParams(scorer="official"))
    said = "There are factual errors in the provided documents."
    corrected = official.score([row(f"{said} It is Paris.", "Paris")], TOOLS)[0]
    assert corrected.values == {"error_detection_rate": 1, "error_correction_rate": 1}
    silent = official.score([row("It is Paris.", "Paris")], TOOLS)[0]
    assert silent.values["error_detection_rate"] == 0
    assert isinstance(silent.values["error_correction_rate"], NotApplicable)
    assert silent.complete
    assert silent.evidence.data["correct"] is True


def test_a_refusal_that_noticed_the_error_is_a_correction_only_for_evalue_py() -> None:
    answer = row("There are factual errors and insufficient information.", "Paris")
    for asked, expected in ((False, 0), (True, 1)):
        params = CounterfactualParams(scorer="official", refusals_correct=asked)
        assert value(CounterfactualRobustness(params), answer, "error_correction_rate") == expected


@pytest.mark.parametrize(
    ("answer", "labels"),
    [
        ("1月 3日 和 1月12日", [1, 1]),
        ("1月3日", [1, 0]),
        ("不清楚", [0, 0]),
        ("信息不足，但是 1月3日 1月12日", [-1]),
        ("信息 不 足", [-1]),
    ],
)
def test_official_labels_in_chinese_ignore_spaces_of_the_answer(answer: str, labels: list[int]) -> None:
    asked = case(("1月3日",), ("1月12日", "一月十二日"), language="zh")
    assert Official().labels(answer, asked) == labels
    assert is_right(labels) == (labels == [1, 1])


def test_any_spelling_of_a_part_will_do_but_every_part_must_be_there() -> None:
    asked = {"answer": [["1313851", "131万"], ["187万", "186.35万"]], "language": "zh"}
    for scorer in ("official", "space"):
        evaluator = InformationIntegration(RgbParams(scorer=scorer))
        assert value(evaluator, row("131万 和 186.35万", rgb=asked)) == 1
        assert value(evaluator, row("131万 或者 两百", rgb=asked)) == 0


def test_letter_case_counts_for_official_phrases_but_not_for_answers() -> None:
    assert Official().labels("PARIS", case(("paris",))) == [1]
    assert Official().detection("Factual Errors", case(("x",))) is None


def test_cases_of_another_task_are_not_applicable() -> None:
    evaluators = (NoiseRobustness(), NegativeRejection(), InformationIntegration(), CounterfactualRobustness())
    for mine in evaluators:
        for other in evaluators:
            answer = row("Paris", "Paris", rgb={"task": other.tasks[0]})
            score = mine.score([answer], TOOLS)[0]
            assert all(isinstance(each, NotApplicable) for each in score.values.values()) == (mine is not other)
    assert value(NoiseRobustness(), row("Paris", "Paris", rgb={"task": "closed_book"})) == 1


def test_a_case_without_an_expected_answer_is_unscored() -> None:
    found = value(NoiseRobustness(), row("Paris"))
    assert isinstance(found, Unscored)
    assert found.reason is Reason.UNSCORABLE
    score = CounterfactualRobustness().score([row("This is wrong.")], TOOLS)[0]
    assert score.values["error_detection_rate"] == 1
    assert isinstance(score.values["error_correction_rate"], Unscored)


@pytest.mark.parametrize(
    "metadata",
    [
        {"rgb": "yes"},
        {"rgb": {"answer": 7, "task": 3, "counterfactual_answer": {"a": 1}}},
        {"rgb": {"answer": [[], None]}},
    ],
)
def test_odd_metadata_breaks_nothing(metadata: dict[str, Any]) -> None:
    for evaluator in (NoiseRobustness(), CounterfactualRobustness(CounterfactualParams(scorer="official"))):
        evaluator.score_row(row("7 of them", "7", **metadata), TOOLS)


@given(st.text("abc XYZ.,", max_size=60), st.text("abcXYZ ", min_size=1, max_size=20))
def test_an_answer_that_holds_the_expected_one_is_right_for_both(around: str, truth: str) -> None:
    answer = f"{around}{truth}{around}"
    assert Official().labels(answer, case((truth,))) == [1]
    if normalized(truth):
        assert Space().is_correct(answer, truth)


def test_a_long_run_of_punctuation_is_read_at_once() -> None:
    value(NoiseRobustness(), row("!" * 2_000_000 + "x", "Paris"))
