"""What a comparison claims, it keeps: false alarms, false passes and power, over thousands of simulated comparisons."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from scipy import stats

from benchmarks.coverage import NEEDED, WORSE, Candidate, decided, passes
from leadline.tasks.compare.verdicts import ChangeAnswer, VerdictQuestion, judge
from leadline.tasks.statistics.paired import PairedSeries, detectable, measure

ALPHA = 0.05
FLIPS = 499

Make = Callable[[np.random.Generator], PairedSeries]


def shares(n: int, effect: float = 0.0, changed: float = 0.15) -> Make:
    """Pass/fail of ``n`` rows, of which a share ``changed`` changes sides."""
    chances = [(changed - effect) / 2, 1 - changed, (changed + effect) / 2]
    return lambda random: PairedSeries(random.choice([-1.0, 0.0, 1.0], p=chances, size=n), None, 1.0, True)


def numbers(n: int, effect: float = 0.0) -> Make:
    return lambda random: PairedSeries(random.normal(effect, 0.2, n), None, 1.0)


def copies(clusters: int, size: int, effect: float = 0.0) -> Make:
    """Rows in families that change together."""

    def make(random: np.random.Generator) -> PairedSeries:
        family = np.arange(clusters).repeat(size)
        together = random.normal(0, 0.18, clusters)[family] + random.normal(0, 0.09, clusters * size)
        return PairedSeries(effect + together, family, 1.0)

    return make


def rare_losses(n: int, share: float) -> Make:
    """Nearly all rows stay as they are, a few lose up to the whole range; the effect is -share / 2."""
    return lambda random: PairedSeries(np.where(random.random(n) < share, -random.random(n), 0.0), None, 1.0)


def simulate(makes: Sequence[Make], margin: float, times: int) -> list[list[ChangeAnswer]]:
    random = np.random.default_rng(7)
    out = []
    for _ in range(times):
        measured = [measure(make(random), flips=FLIPS) for make in makes]
        out.append(
            judge([VerdictQuestion(found, margin, 1.0, found.effect, found.effect) for found in measured], ALPHA)
        )
    return out


def at_most(level: float, times: int) -> float:
    """The greatest share that a true chance of ``level`` shows in so many trials, but once in a thousand."""
    return float(stats.binom.ppf(0.999, times, level)) / times


def share_of(answers: list[list[ChangeAnswer]], verdict: str) -> float:
    return float(np.mean([any(answer.verdict == verdict for answer in found) for found in answers]))


@pytest.mark.parametrize("margin", [0.0, 0.05])
def test_a_model_compared_with_itself_fails_no_more_often_than_declared(margin: float) -> None:
    makes = [shares(40), shares(12, changed=0.4), numbers(30), copies(12, 4)]
    answers = simulate(makes, margin, 300)
    assert share_of(answers, "fail") <= at_most(ALPHA, 300)
    changed = np.mean([any(answer.change != "none shown" for answer in found) for found in answers])
    assert changed <= at_most(ALPHA, 300)


@pytest.mark.parametrize(
    "make", [shares(150, -0.05), numbers(40, -0.05), copies(20, 3, -0.05), rare_losses(100, 0.1), rare_losses(50, 0.1)]
)
def test_a_model_that_is_worse_by_just_the_margin_seldom_passes_or_fails(make: Make) -> None:
    answers = simulate([make], 0.05, 400)
    assert share_of(answers, "pass") <= at_most(0.04, 400)
    assert share_of(answers, "fail") <= at_most(0.03, 400)


@pytest.mark.parametrize("n", [20, 50, 100])
@pytest.mark.parametrize("candidate", WORSE, ids=lambda candidate: candidate.name)
def test_rare_losses_that_were_not_seen_do_not_pass(candidate: Candidate, n: int) -> None:
    assert passes(candidate, n, 250, seed=6) <= at_most(0.04, 250)


@pytest.mark.parametrize("candidate", [NEEDED[0], NEEDED[1], NEEDED[3]], ids=lambda candidate: candidate.name)
def test_as_many_more_cases_as_are_asked_for_decide_about_four_times_in_five(candidate: Candidate) -> None:
    share, _ = decided(candidate, 50)
    assert 0.7 <= share <= 0.98


def test_a_regression_in_one_metric_of_many_is_not_hidden_by_the_others() -> None:
    answers = simulate([numbers(60, -0.2), *[numbers(60)] * 4], 0.0, 100)
    assert np.mean([found[0].verdict == "fail" for found in answers]) > 0.99


@pytest.mark.parametrize("make", [numbers, lambda n, effect: shares(n, effect, changed=0.3)])
def test_the_detectable_difference_is_found_four_times_in_five(make: Callable[[int, float], Make]) -> None:
    n, times = 100, 300
    seen = measure(make(4000, 0.0)(np.random.default_rng(8)))
    smallest = detectable(seen, ALPHA)
    assert smallest is not None
    effect = -smallest * math.sqrt(4000 / n)
    answers = simulate([make(n, effect)], 0.0, times)
    found = np.mean([answer.change == "worse" for (answer,) in answers])
    # McNemar's exact test is a little less keen than the normal distribution says.
    assert 0.72 <= found <= 0.86
