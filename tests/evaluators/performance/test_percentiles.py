"""Percentiles and their intervals: the definition, NumPy, and how often the intervals hold the truth."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.evaluators.performance.usage import LEVELS, ascending, interval, percentile, ranks

numbers = st.floats(0, 1e6, allow_nan=False)


@given(st.lists(numbers, min_size=1, max_size=60), st.sampled_from(sorted(LEVELS.values())))
def test_a_percentile_is_numpys_inverse_of_the_distribution(values, level):
    [found] = percentile(ascending(values), np.ones((1, len(values))), level)
    assert found == np.quantile(values, level, method="inverted_cdf")


@given(st.lists(st.tuples(numbers, st.integers(1, 4)), min_size=1, max_size=30))
def test_a_weight_is_as_many_equal_rows(pairs):
    values, weights = [value for value, _ in pairs], np.array([float(weight) for _, weight in pairs])
    apart = [value for value, weight in pairs for _ in range(weight)]
    for level in LEVELS.values():
        [found] = percentile(ascending(values), weights[np.newaxis], level)
        [plain] = percentile(ascending(apart), np.ones((1, len(apart))), level)
        assert found == plain
        ours = interval(ascending(values), weights, level, len(apart))
        assert ours == interval(ascending(apart), np.ones(len(apart)), level, len(apart))


@given(st.lists(numbers, min_size=1, max_size=200), st.sampled_from(sorted(LEVELS.values())))
def test_an_interval_holds_its_percentile(values, level):
    data, weights = ascending(values), np.ones(len(values))
    low, high = interval(data, weights, level, len(values))
    assert low <= percentile(data, weights[np.newaxis], level)[0] <= high


@pytest.mark.parametrize(("level", "least"), [(0.95, 72), (0.99, 368)])
def test_so_many_rows_bound_a_percentile_from_above(level, least):
    assert ranks(level, least - 1)[1] == least
    assert ranks(level, least)[1] == least
    assert math.isinf(interval(ascending(list(range(least - 1))), np.ones(least - 1), level, least)[1])


@pytest.mark.parametrize("n", [1, 2, 10, 72, 400, 100_000])
def test_either_rank_is_the_nearest_that_is_wrong_at_most_one_time_in_forty(n):
    from scipy.stats import binom

    for level in LEVELS.values():
        low, high = ranks(level, n)
        assert binom.cdf(low - 1, n, level) < 0.025 <= binom.cdf(low, n, level)
        assert binom.sf(high - 1, n, level) <= 0.025 + 1e-12 < binom.sf(high - 2, n, level) + 2e-12


@pytest.mark.parametrize("n", [30, 120, 500])
def test_intervals_of_skewed_durations_hold_the_truth_19_times_in_20(n):
    from scipy.stats import lognorm

    draws = np.random.default_rng(7).lognormal(sigma=1.0, size=(400, n))
    for level in LEVELS.values():
        truth = lognorm(s=1.0).ppf(level)
        ends = [interval(ascending(list(draw)), np.ones(n), level, n) for draw in draws]
        assert np.mean([low <= truth <= high for low, high in ends]) >= 0.93


def test_copies_of_a_case_widen_an_interval():
    values, weights = ascending([float(value) for value in range(400)]), np.ones(400)
    alone, copied = interval(values, weights, 0.5, 400), interval(values, weights, 0.5, 100)
    assert copied[0] < alone[0] < alone[1] < copied[1]


def test_nothing_to_count_has_no_percentile():
    assert np.isnan(percentile(ascending([None]), np.ones((2, 1)), 0.5)).all()
    assert interval(ascending([None]), np.ones(1), 0.5, 1) is None
