import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.tasks.statistics.early_stopping import adjusted, always_valid_interval, log_wealth

VALUES = np.array([*map(float, "111110110111111111110111111111111111110111110111101111111111")])


def test_wealth_equals_that_of_the_package_confseq():
    assert VALUES.mean() == pytest.approx(0.9)
    assert math.exp(log_wealth(VALUES, 0.7)[-1]) == pytest.approx(248.73222916188507)
    assert math.exp(log_wealth(VALUES, 0.7, 200)[-1]) == pytest.approx(1421.977928257659)


def test_answers_that_all_pass_are_enough_after_22_of_2000():
    wealth = log_wealth(np.ones(2_000), 0.75, 2_000)
    assert int(np.argmax(wealth >= math.log(20))) + 1 == 22


def test_what_the_rest_cannot_undo_is_certain():
    wealth = log_wealth(np.ones(80), 0.75, 100)
    assert math.isinf(wealth[76])
    assert math.isfinite(wealth[70])


def test_adjusted_values_are_those_of_closed_testing():
    assert adjusted([60, 3, 0.5]) == pytest.approx([21.166666666666668, 1.75, 0.5])
    assert adjusted([7.0]) == [7.0]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_the_interval_holds_the_mean_of_all_values_when_all_are_seen(values):
    low, high = always_valid_interval(np.array(values), np.ones(len(values)), len(values), largest=1)
    assert low - 1e-6 <= float(np.mean(values)) <= high + 1e-6


def test_nothing_seen_bounds_nothing():
    assert always_valid_interval(np.array([]), np.array([]), largest=1) == (0, 1)


@pytest.mark.parametrize("rate", [0.05, 0.75])
def test_looking_after_every_row_is_wrong_at_most_as_often_as_promised(rate):
    wrong = 0
    for seed in range(400):
        draw = np.random.default_rng(seed)
        values = draw.permutation((np.arange(500) < rate * 500).astype(float))
        wrong += bool(log_wealth(values, rate, 500)[:-1].max() >= math.log(20))
    assert wrong / 400 <= 0.05


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_the_limits_are_those_that_an_e_process_of_forty_to_one_refutes(rate):
    """Each side has half of the level, so that both together are wrong as often as promised."""
    draw = np.random.default_rng(7)
    values = draw.permutation((np.arange(300) < rate * 300).astype(float))[:100]
    low, high = always_valid_interval(values, np.ones(100), 300, largest=1)
    forty = math.log(2 / 0.05)
    assert 0.01 < low < high < 0.99
    for limit, seen in ((low, values), (1 - high, 1 - values)):
        assert log_wealth(seen, limit - 0.005, 300).max() >= forty
        assert log_wealth(seen, limit + 0.005, 300).max() < forty
