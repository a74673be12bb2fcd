"""What is said of further trials: what they would do, what they cost, and how many are best for the money."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from leadline.tasks.db import TrialSpread, open_run
from leadline.tasks.publish.facts import Facts
from leadline.tasks.publish.report.sections.instrument import trial_advice
from leadline.tasks.publish.run_results import read_results
from tests.tasks.publish.sample import make_sample

ROWS, TRIALS = 400, 2


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Facts:
    store, run = make_sample(tmp_path_factory.mktemp("sample"))
    with open_run(store, run) as connection:
        return read_results(connection, run, run.read()).facts


def said(facts: Facts, *, within: float, between: float, **changes: Any) -> str:
    """Return what is said of a metric of which 400 rows were judged twice, with values in [0, 1]."""
    evaluator = next(one for one in facts.evaluators if one.primary and not one.primary.dataset_level)
    metric, model = replace(evaluator.primary, low=0.0, high=1.0), facts.models[0]
    found = facts.aggregates[metric.id, model.id]
    mean = replace(found, n_scored=ROWS, n_unscored=changes.pop("unscored", 0), reasons={})
    spread = TrialSpread(
        metric_id=metric.id, model_id=model.id, n_trials=TRIALS, n_rows=ROWS, n_differ=40, differ_share=0.1,
        n_cross=None, cross_share=None, within_std=within, lowest_mean=None, highest_mean=None, means_std=None,
        between_std=between, reliability=None, rerun_std=math.sqrt(2 * within**2 / (ROWS * TRIALS)),
    )  # fmt: skip
    judged = replace(evaluator, metrics=(metric,), computed=ROWS * TRIALS)
    calls = {"by_evaluator": [{"evaluator": evaluator.key, "cost_usd": changes.pop("paid", None)}]}
    answers = replace(model, n_rows=ROWS, total_cost_usd=changes.pop("answers", None))
    (advice,) = trial_advice(
        replace(
            facts, trial_spread=(spread,), evaluators=(judged,), models=(answers,), record={"judge_calls": calls},
            aggregates={(metric.id, model.id): mean},
        )
    )  # fmt: skip
    return advice.text


def test_noisy_verdicts_are_narrowed_by_trials_at_a_price(facts: Facts) -> None:
    text = said(facts, within=0.4, between=0.2, paid=1.6, answers=2.0)
    assert "differs by ±3.9 points" in text  # 1.96 * sqrt(2 * 0.16 / 800)
    assert "4 trials of every row would narrow ±3.4 points to ±2.8 points for $1.60 (800 verdicts)" in text
    assert "At $0.005 an answer and $0.002 a verdict, 3 trials of each row are best for the money." in text


def test_steady_verdicts_call_for_rows(facts: Facts) -> None:
    text = said(facts, within=0.05, between=0.4, paid=1.6, answers=2.0)
    assert "would hardly narrow the interval" in text
    assert text.endswith("1 trial of each row is best for the money.")


def test_without_prices_nothing_is_said_of_money(facts: Facts) -> None:
    assert "$" not in said(facts, within=0.4, between=0.2)
    assert "best for the money" not in said(facts, within=0.4, between=0.2, paid=1.6)


def test_rows_that_were_not_judged_come_first(facts: Facts) -> None:
    assert said(facts, within=0.4, between=0.2, unscored=3, paid=1.6, answers=2.0).endswith(
        "they narrow the interval more than further trials do."
    )
