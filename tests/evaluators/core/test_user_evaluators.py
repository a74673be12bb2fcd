"""Plain functions of a row as evaluators."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest

from leadline import EvalContext, Row
from leadline.evaluators.core.user_evaluators import FunctionMetric, metric
from leadline.evaluators.data import NotApplicable, RowField, Unscored
from leadline.evaluators.ground import UsageError

ROW = Row("case", "model", question="Who?", actual_answer="Ada, please", metadata={"tone": "kind"})


def polite(row: Row) -> bool:
    """Say please.

    More about it.
    """
    return "please" in (row.actual_answer or "")


def scored(function: Any) -> Any:
    [score] = FunctionMetric(function).evaluator()().score([ROW], EvalContext())
    [value] = score.values.values()
    return value, score.evidence.message


@pytest.mark.parametrize(
    ("returned", "value"),
    [(True, 1.0), (False, 0.0), (3, 3.0), (-0.5, -0.5), (np.float32(0.5), 0.5), (np.int64(2), 2.0)],
)
def test_numbers_and_truths_are_scores(returned: Any, value: float) -> None:
    assert scored(lambda row: returned) == (value, "")


def test_a_sentence_says_why() -> None:
    assert scored(lambda row: (0.5, "half of it")) == (0.5, "half of it")


def test_nothing_means_that_it_does_not_apply() -> None:
    assert scored(lambda row: None)[0] == NotApplicable("")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda row: "good", "returned str, not a number"),
        (lambda row: math.nan, "returned NaN"),
        (lambda row: -math.inf, "returned infinity"),
        (lambda row: 1 / 0, "ZeroDivisionError"),
        (lambda row: row.case == "case", "cannot read row.case"),
        (lambda row: row.model == "model", "cannot read row.model"),
    ],
)
def test_what_is_no_score_leaves_the_row_unscored_with_the_reason(function: Any, message: str) -> None:
    value, _ = scored(function)
    assert isinstance(value, Unscored)
    assert message in value.message


def test_it_reads_every_field_so_that_its_key_covers_them() -> None:
    kind = FunctionMetric(polite).evaluator()
    assert set(kind.spec.reads) == set(RowField)
    assert kind.spec.required == (RowField.ACTUAL_ANSWER,)
    assert scored(lambda row: row.metadata["tone"] == "kind")[0] == 1.0


def test_a_function_that_returns_a_bool_is_a_share() -> None:
    [found] = FunctionMetric(polite).evaluator().spec.metrics
    assert (found.key, found.range, found.share, found.description) == ("polite", (0.0, 1.0), True, "Say please.")
    [other] = FunctionMetric(lambda row: 1.0, name="other").evaluator().spec.metrics
    assert (other.range, other.share, other.threshold) == ((-math.inf, math.inf), False, None)


def test_the_decorator_says_more_and_the_function_can_still_be_called() -> None:
    @metric(name="length", higher_is_better=False, low=0, high=100, threshold=20, inputs=["question", "actual_answer"])
    def characters(row: Row) -> int:
        return len(row.actual_answer or "")

    assert characters(ROW) == 11
    spec = characters.evaluator().spec
    assert spec.id == "length"
    assert spec.required == (RowField.QUESTION, RowField.ACTUAL_ANSWER)
    assert (spec.metrics[0].range, spec.metrics[0].threshold, spec.metrics[0].higher_is_better) == ((0, 100), 20, False)


def test_names_of_what_has_none() -> None:
    assert FunctionMetric(functools.partial(polite)).id == "polite"
    one, other = FunctionMetric(lambda row: 1.0), FunctionMetric(lambda row: 2.0)
    assert one.id.startswith("lambda_")
    assert one.id != other.id


async def waits(row: Row) -> float:
    return 1.0


@pytest.mark.parametrize(
    ("function", "about", "message"),
    [
        (waits, {}, "coroutine function"),
        (lambda row, other: 1.0, {}, "cannot be called with a row: missing a required argument: 'other'"),
        (lambda: 1.0, {}, "cannot be called with a row"),
        (polite, {"name": "so polite"}, "cannot be the name"),
        (polite, {"inputs": ["answer"]}, "there is no field 'answer'"),
    ],
)
def test_what_makes_no_sense_is_refused(function: Any, about: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        FunctionMetric(function, **about)
