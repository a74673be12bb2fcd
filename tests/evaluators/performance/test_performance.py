"""Latency, cost and tokens of rows and of a whole run."""

from dataclasses import replace

import numpy as np
import pytest

from leadline.evaluators.core import EvalContext, get
from leadline.evaluators.data import NotApplicable, Reason, Row, RowField, Unscored
from leadline.evaluators.settings import Settings

ROW = Row("c", "m", actual_answer="it starts at seven", duration_s=1.5, cost_usd=0.25, input_tokens=7, output_tokens=3)


def score(name, row, **params):
    kind = get(name)
    return kind(kind.parameters.build(name, params)).score([row], EvalContext(Settings(device="cpu")))[0]


@pytest.mark.parametrize(("name", "field", "value"), [("latency", "duration_s", 1.5), ("cost", "cost_usd", 0.25)])
def test_a_row_is_worth_what_its_column_says(name, field, value):
    found = score(name, ROW)
    assert found.values == {name: value}
    assert found.payload == [value]
    for broken in (-1.0, float("inf"), float("nan")):
        unscored = score(name, replace(ROW, **{field: broken})).values[name]
        assert isinstance(unscored, Unscored)
        assert unscored.reason is Reason.UNSCORABLE


def test_tokens_are_those_that_were_counted():
    assert score("tokens", ROW).values == {"output_tokens": 3.0, "input_tokens": 7.0}
    alone = score("tokens", replace(ROW, input_tokens=None))
    assert alone.values["output_tokens"] == 3.0
    assert isinstance(alone.values["input_tokens"], NotApplicable)


def test_a_tokenizer_counts_only_where_it_is_asked_to_and_says_so(tiny):
    folder = str(tiny("t5-tokenizer"))
    uncounted = replace(ROW, output_tokens=None)
    kind = get("tokens")
    assert kind().required == (RowField.OUTPUT_TOKENS,)
    assert kind(kind.parameters(tokenizer=folder)).required == (RowField.ACTUAL_ANSWER,)
    estimated = score("tokens", uncounted, tokenizer=folder)
    assert estimated.values["output_tokens"] >= 4
    assert folder in estimated.evidence.message
    counted = score("tokens", ROW, tokenizer=folder)
    assert counted.values["output_tokens"] == 3.0
    assert not counted.evidence


def test_percentiles_of_a_model_come_with_intervals():
    evaluator = get("tokens")()
    prepared = evaluator.prepare([[number, None if number % 2 else number] for number in range(1, 201)])
    weights = np.ones(200)
    values = {key: value[0] for key, value in evaluator.aggregate(prepared, weights[np.newaxis]).items()}
    assert values["output_tokens_p50"] == 100
    assert values["input_tokens_p95"] == 190
    low, high = evaluator.intervals(prepared, weights, 200)["output_tokens_p95"]
    assert low < 190 < high <= 200


def test_the_sum_of_the_prices_is_told():
    evaluator = get("cost")()
    details = evaluator.details(evaluator.prepare([[0.25], [0.5]]), np.array([2.0, 1.0]), ["a", "b"])
    assert details["notes"] == ["All 3 answers with a price cost 1 USD together."]
