"""Changes net of a judge's own noise, and whether it is still the one that was enrolled."""

from __future__ import annotations

import math

import numpy as np
import pytest

from leadline.tasks.statistics.judge_stability import (
    Components,
    net_of_sample,
    net_rate,
    pair_noise,
    value_drift,
    verdict_drift,
)

ORIGINALS = np.array([[1, 1], [1, 0], [0, 0], [1, 1], [1, 1], [0, 1], [1, 1], [0, 0]], float)
COPIES = np.array([[1, 1], [0, 0], [0, 1], [0, 0], [1, 1], [1, 0], [1, 0], [0, 0]], float)


def _judge(draw, rows, changed):
    """The chances that a noisy judge passes each row and its copy; ``changed`` is the share of copies turned round."""
    noisy = draw.random(rows) < 0.2
    p = np.where(noisy, draw.beta(0.8, 0.8, rows), (draw.random(rows) < 0.7).astype(float))
    turned = draw.random(rows) < changed
    return p, np.where(turned, 1 - p, p)


def _replies(draw, chances, trials):
    return (draw.random((len(chances), trials)) < chances[:, None]).astype(float)


def test_net_change_is_what_disagrees_crosswise_less_the_rows_own_disagreement():
    pairs = pair_noise(ORIGINALS, COPIES)
    assert pairs.net.tolist() == [0, 0, 0, 1, 0, -0.5, 0, 0]
    assert pairs.noise.mean() == pytest.approx(0.3125)


def test_a_missing_trial_counts_as_none():
    one = np.array([[1.0, 0.0, math.nan]])
    assert pair_noise(one, COPIES[:1]).net[0] == pytest.approx(pair_noise(one[:, :2], COPIES[:1]).net[0])


def test_rows_judged_again_bound_the_net_rate():
    told = net_of_sample(36, 300, 12, 200)
    assert (told.net, told.low, told.high) == pytest.approx((0.06, 0.007222966593931263, 0.10876355923193523))
    assert told.changed
    untold = net_of_sample(24, 300, 6, 100)
    assert (untold.net, untold.low, untold.high) == pytest.approx((0.02, -0.04966346000693053, 0.06851269710972258))
    assert not untold.changed


def test_without_a_second_trial_nothing_is_told():
    assert not net_of_sample(200, 300, 0, 0).changed


def test_pairs_that_never_differ_are_bounded_by_the_rule_of_three():
    rate = net_rate(pair_noise(np.ones((60, 2)), np.ones((60, 2))), np.arange(60))
    assert (rate.net, rate.high) == pytest.approx((0, 0.05))


def test_one_original_has_no_interval():
    assert net_rate(pair_noise(ORIGINALS, COPIES), np.zeros(8)) is None


@pytest.mark.parametrize(("changed", "least_power"), [(0.0, 0.0), (0.1, 0.9)])
@pytest.mark.parametrize("phases", [1, 2])
def test_the_net_rate_covers_and_noise_alone_is_no_change(changed, least_power, phases):
    runs, covered, shown = 300, 0, 0
    for seed in range(runs):
        draw = np.random.default_rng(seed)
        p, q = _judge(draw, 300, changed)
        ones, others = _replies(draw, p, 2), _replies(draw, q, 2)
        truth = float(((p - q) ** 2).mean())
        if phases == 1:
            rate = net_rate(pair_noise(ones, others), np.arange(300))
        else:
            chances = np.where(ones[:, 0] != others[:, 0], 1.0, 0.3)
            again = draw.random(300) < chances
            rate = net_rate(pair_noise(ones, others), np.arange(300), np.where(again, 1 / chances, 0.0))
        covered += rate.low <= truth <= rate.high
        shown += rate.changed
    assert covered / runs >= 0.92
    assert shown / runs >= least_power if changed else shown / runs <= 0.06


def test_trials_pay_where_the_judge_varies_and_rows_where_they_do():
    parts = Components(0.085, 0.016)
    assert parts.best_trials(5, 1) == pytest.approx(0.970142500145332)
    assert parts.standard_error(100, 3) < parts.standard_error(100, 1)
    assert Components(0.0, 0.5).best_trials(5, 1) == math.inf


ENROLLED = np.array([[1, 1, 1, 1], [0, 0, 0, 0], [1, 1, 0, 1], [1, 1, 1, 1], [0, 0, 0, 0], [1, 1, 1, 1]])
FRESH = [
    ([1, 0, 1, 1, 0, 1], 1.0, 1),
    ([0, 1, 1, 1, 0, 1], 0.104, 9),
    ([0, 1, 0, 0, 0, 1], 0.0032, 15),
    ([0, 1, 0, 0, 1, 0], 0.000128, 23),
]


@pytest.mark.parametrize(("fresh", "p", "differing"), FRESH)
def test_the_chance_of_fresh_verdicts_is_exact(fresh, p, differing):
    drift = verdict_drift(ENROLLED, np.array(fresh))
    assert drift.p == pytest.approx(p)
    assert drift.statistic == differing


@pytest.mark.parametrize(("fresh", "p", "differing"), FRESH)
def test_permuted_numbers_agree_with_the_exact_test(fresh, p, differing):
    assert value_drift(ENROLLED.astype(float), np.array(fresh, float)).p == pytest.approx(p, abs=0.01)


def test_chances_of_two_fresh_replies_equal_a_full_enumeration():
    from itertools import combinations

    enrolled, fresh = np.array([[1, 0, 1], [0, 0, 1]]), np.array([[0, 0], [1, 1]])

    def statistic(old, new):
        return sum(int((a != b[:, None]).sum()) for a, b in zip(old, new, strict=True))

    every = np.column_stack([fresh, enrolled])
    seen, ways, as_many = statistic(enrolled, fresh), 0, 0
    for first in combinations(range(5), 2):
        for second in combinations(range(5), 2):
            new = np.array([every[0][list(first)], every[1][list(second)]])
            old = np.array([np.delete(every[0], first), np.delete(every[1], second)])
            ways += 1
            as_many += statistic(old, new) >= seen
    assert verdict_drift(enrolled, fresh).p == pytest.approx(as_many / ways)


def test_a_noisy_judge_that_did_not_change_is_rarely_suspected_and_one_that_did_is():
    alarms, found = 0, 0
    for seed in range(400):
        draw = np.random.default_rng(seed)
        noisy = draw.random(100) < 0.2
        chances = np.where(noisy, draw.beta(0.8, 0.8, 100), (draw.random(100) < 0.7).astype(float))
        enrolled = (draw.random((100, 4)) < chances[:, None]).astype(int)
        alarms += verdict_drift(enrolled, (draw.random(100) < chances).astype(int)).p <= 0.01
        other = np.where(draw.random(100) < 0.1, 1 - chances, chances)
        found += verdict_drift(enrolled, (draw.random(100) < other).astype(int)).p <= 0.01
    assert alarms / 400 <= 0.02
    assert found / 400 >= 0.9
