"""Reliability over trials: the published formulas, whose trials they are, and intervals over cases."""

import json

import numpy as np
import pytest

from leadline.evaluators.agent.pass_k import PassK, PassKParams, interval
from leadline.evaluators.core import EvalContext
from leadline.evaluators.data import NotApplicable, Row
from tests.evaluators.agent.agents import CONFORMANCE, call, expect, row_of, score

KNOWN = json.loads((CONFORMANCE / "pass_k.json").read_text(encoding="utf-8"))


def trial(task, passed):
    return Row("case", "model", question=task, tool_calls=[], metadata={"passed": passed})


def whole(rows, **params):
    """Return the metrics and intervals of a model, from the payloads of its rows."""
    evaluator = PassK(PassKParams(**params))
    payloads = [json.dumps(each.payload) for each in evaluator.score(rows, EvalContext())]
    distinct = sorted(set(payloads))
    weights = np.array([float(payloads.count(each)) for each in distinct])
    prepared = evaluator.prepare([json.loads(each) for each in distinct])
    values = evaluator.aggregate(prepared, weights[np.newaxis])
    intervals = evaluator.intervals(prepared, weights, len(rows))
    return {name: found[0] for name, found in values.items()}, intervals, evaluator.details(prepared, weights, [])


@pytest.mark.parametrize("known", KNOWN, ids=str)
def test_values_are_those_of_the_published_formulas(known):
    rows = [trial("a", number < known["successes"]) for number in range(known["trials"])]
    found, _, _ = whole(rows, k=known["k"])
    assert found["pass_hat_k"] == pytest.approx(known["pass_hat_k"])
    assert found["pass_at_k"] == pytest.approx(known["pass_at_k"])


def test_a_models_value_is_the_mean_over_cases_with_enough_trials():
    rows = [trial("a", True), trial("a", True), trial("b", True), trial("b", False), trial("c", False)]
    found, intervals, details = whole(rows, k=2)
    assert found == {"pass_hat_k": 0.5, "pass_at_k": 1.0}
    assert intervals["pass_hat_k"] == (0, 1)
    assert intervals["pass_at_k"] == (pytest.approx(0.025**0.5), 1)
    assert details["notes"] == [
        "k = 1: pass^k 0.500, pass@k 0.500 (cases with so many trials: 3)",
        "k = 2: pass^k 0.500, pass@k 1.000 (cases with so many trials: 2)",
    ]


def test_no_case_has_enough_trials():
    found, intervals, _ = whole([trial("a", True)], k=3)
    assert np.isnan(found["pass_hat_k"])
    assert intervals["pass_hat_k"] is None


def test_the_case_is_what_was_asked_not_how_its_key_is_written():
    rows = [row_of(expected_tool_calls=[], question="a", scenario={"topics": [topic]}) for topic in ("x", "y", "x")]
    keys = [score(PassK, row).payload[0] for row in rows]
    assert keys[0] == keys[2] != keys[1]


def test_a_trial_passes_by_metadata_then_state_and_facts_then_calls():
    state = {"scenario": {"expected_state": {"a": 1}, "expected_facts": ["noon"]}}
    said = [{"role": "assistant", "content": "At noon."}]

    def passed(**fields):
        return score(PassK, row_of(call("a"), **fields)).values["passed"]

    assert passed(metadata={"passed": 0, "final_state": {"a": 1}}, messages=said, **state) == 0
    assert passed(metadata={"passed": 1.0}) == 1
    assert passed(metadata={"final_state": {"a": 1}}, messages=said, **state) == 1
    assert passed(metadata={"final_state": {"a": 2}}, messages=said, **state) == 0
    assert passed(metadata={"final_state": {"a": 1}}, **state) == 0
    assert passed(expected_tool_calls=[expect("a")]) == 1
    assert passed(expected_tool_calls=[expect("a"), expect("a")]) == 0
    assert isinstance(passed(), NotApplicable)


@pytest.mark.parametrize("shape", [(4, 2), (2, 2), (8, 1)], ids=str)
def test_intervals_over_forty_cases_hold_the_truth_as_often_as_they_say(shape):
    random = np.random.default_rng(11)
    chances = random.beta(*shape, 200_000)
    truth = float((chances**2).mean())
    drawn = random.binomial(4, random.choice(chances, (4_000, 40)))
    ends = np.array([interval(values) for values in drawn * (drawn - 1) / 12])
    assert ((ends[:, 0] <= truth) & (truth <= ends[:, 1])).mean() >= 0.93
