"""Parameters: refused with their name when wrong, and part of a score's key only if they can change a score."""

from typing import Annotated

import pytest
from pydantic import Field, ValidationError

from leadline.evaluators.core import REPORT_ONLY, Effect, JudgeKey, Params, effect_of
from leadline.evaluators.ground import UsageError


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
