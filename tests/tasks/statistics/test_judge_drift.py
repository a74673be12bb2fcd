import numpy as np
import pytest

from leadline.tasks.statistics.judge_stability import value_drift, verdict_drift

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
    assert drift == verdict_drift(ENROLLED, np.array(fresh)[:, None])
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
