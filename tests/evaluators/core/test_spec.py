"""Metrics know their direction, boolean evaluators have their four or five; parameters, and rows that pass or fail."""

from __future__ import annotations

import json
from typing import Annotated

import pytest
from pydantic import Field, ValidationError

from leadline.evaluators.core import (
    INF,
    REPORT_ONLY,
    Effect,
    JudgeKey,
    Metric,
    Params,
    boolean_metrics,
    effect_of,
    unparseable,
    verdict,
)
from leadline.evaluators.data import Reason
from leadline.evaluators.ground import UsageError


@pytest.mark.parametrize(
    ("higher", "value", "threshold", "verdict"),
    [
        (True, 0.75, None, True),
        (True, 0.74, None, False),
        (False, 0.75, None, True),
        (False, 0.76, None, False),
        (True, 0.5, 0.4, True),
        (False, 0.5, 0.4, False),
        (False, INF, INF, True),
        (True, 0.5, 0.0, True),
    ],
)
def test_thresholds_are_inclusive_in_the_metrics_direction(higher, value, threshold, verdict):
    assert Metric("m", "M", higher).passes(value, threshold) is verdict


def test_a_metric_without_a_threshold_has_no_verdict_unless_one_is_given():
    metric = Metric("m", "M", True, threshold=None)
    assert metric.passes(0.9) is None
    assert metric.passes(0.9, 0.5) is True


def test_infinite_bounds_become_words_in_json():
    out = Metric("m", "M", False, range=(-INF, INF), threshold=INF).to_json()
    assert out["range"] == ["-inf", "inf"]
    assert out["threshold"] == "inf"
    json.dumps(out, allow_nan=False)


def test_boolean_metrics_are_shares_with_passes_first():
    pairs = [("passes", "Passes"), ("failures", "Failures"), ("retrieval", "Retrieval"), ("generation", "Generation")]
    four = boolean_metrics(*pairs, None, what="leaks")
    five = boolean_metrics(*pairs, ("parsing", "Parsing"), what="leaks")
    assert [metric.key for metric in four] == ["passes", "failures", "retrieval", "generation"]
    assert five[:4] == four
    assert [metric.primary for metric in five] == [True, False, False, False, False]
    assert [metric.higher_is_better for metric in five] == [True, False, False, False, False]
    assert all(metric.share and metric.threshold == 0.5 and "leaks" in metric.description for metric in five)


def test_the_short_forms_say_the_direction_and_make_the_name_of_the_key() -> None:
    assert Metric.higher("answer_recall", "How much.", share=True, threshold=None) == Metric(
        "answer_recall", "Answer recall", True, threshold=None, share=True, description="How much."
    )
    assert Metric.lower("ter", name="TER", range=(0.0, 2.0)) == Metric("ter", "TER", False, (0.0, 2.0))


KEYS = ("passes", "failures", "retrieval", "generation", "parsing")
METRICS = boolean_metrics(*((key, key.title()) for key in KEYS), what="x")


def values(**outcome):
    return [getattr(value, "reason", value) for value in verdict(METRICS, **outcome).values()]


@pytest.mark.parametrize(
    ("generation", "retrieval", "expected"),
    [
        (False, False, [1.0, 0.0, 0.0, 0.0, 0.0]),
        (True, False, [0.0, 1.0, 0.0, 1.0, 0.0]),
        (False, True, [0.0, 1.0, 1.0, 0.0, 0.0]),
        (True, True, [0.0, 1.0, 1.0, 1.0, 0.0]),
    ],
)
def test_a_row_fails_when_one_side_fails(generation, retrieval, expected):
    assert values(generation=generation, retrieval=retrieval) == expected


def test_what_is_unknown_is_unscored_unless_the_other_side_fails_the_row():
    unknown = Reason.UNSCORABLE
    assert values(generation=None, parsing=True) == [unknown, unknown, 0.0, unknown, 1.0]
    assert values(generation=None, retrieval=True, parsing=True) == [0.0, 1.0, 1.0, unknown, 1.0]
    assert values(generation=False, retrieval=None) == [unknown, unknown, unknown, 0.0, 0.0]


def test_an_evaluator_without_parsing_metric_has_four_values():
    assert list(verdict(METRICS[:4], generation=False)) == list(KEYS[:4])


def test_an_unparseable_row_is_counted_and_told():
    score = unparseable(METRICS, "It is broken.")
    assert score.values["parsing"] == 1.0
    assert score.complete  # what does not parse today will not tomorrow
    by_judge = unparseable(METRICS, "It is broken.", why=Reason.JUDGE_UNPARSEABLE)
    assert not by_judge.complete  # another judge may be clear
    assert score.evidence.message == score.flags[0].message == "It is broken."


class Example(Params):
    depth: Annotated[int, Field(ge=1, description="How deep.")] = 3
    colour: Annotated[str, Field(description="Of the report.", json_schema_extra=REPORT_ONLY)] = "blue"


def test_values_are_validated_and_converted():
    assert Example.build("example", {"depth": "4"}).depth == 4
    assert Example.build("example", {}).metric_threshold is None
    assert Example.build("example", {"metric_threshold": {"a": 0.5}}).metric_threshold == {"a": 0.5}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"depth": 0}, r"example\.depth: 0 is not allowed; it must be at least 1"),
        ({"depth": "deep"}, r"example\.depth: .deep. is not a whole number"),
        ({"dpeth": 2}, r"example\.dpeth: .*Its parameters are: colour, depth, metric_threshold"),
        ({"min_test_cases": -1}, r"example\.min_test_cases"),
        ({"colour": "x" * 10_000 + "y", "depth": 0}, r"example\.depth"),
    ],
)
def test_a_wrong_value_is_refused_in_one_line_that_names_it(values, message):
    with pytest.raises(UsageError, match=message) as caught:
        Example.build("example", values)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
    assert caught.value.exit_code == 2


def test_parameters_are_frozen():
    with pytest.raises(ValidationError):
        Example().depth = 5


def test_identity_holds_what_changes_a_value_and_nothing_else():
    assert Example().identity() == {"depth": 3}
    assert Example(colour="red", metric_threshold=0.1, save_llm_result=False, min_test_cases=9).identity() == {
        "depth": 3
    }
    assert Example(depth=4).identity() == {"depth": 4}
    assert effect_of(Example, "depth") is Effect.SCORES
    assert effect_of(Example, "colour") is Effect.REPORT
    assert effect_of(Example, "metric_threshold") is Effect.VERDICT


def test_the_judge_key_changes_no_value_by_itself():
    assert JudgeKey(custom_eval_judge_config_key="gpt").identity() == {}


@pytest.mark.parametrize("given", [float("nan"), {"bleu_1": float("nan")}])
def test_nan_is_no_threshold_and_infinity_is_one(given: object) -> None:
    with pytest.raises(UsageError, match="NaN is no number to compare with"):
        Params.build("bleu", {"metric_threshold": given})
    assert Params.build("bleu", {"metric_threshold": float("inf")}).metric_threshold == float("inf")
