"""The formulas against SciPy, against simulation, and at their edges."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from leadline.tasks.statistics.statistics import (
    Clusters,
    Differences,
    Interval,
    Judged,
    Sample,
    binomial_test,
    bounds,
    clopper_pearson,
    differ,
    fisher_exact,
    mean_interval,
    verdict,
)


def sample(values, low=0.0, high=1.0, *, share=False, clusters=None) -> Sample:
    values = np.asarray(values, dtype=float)
    mean = float(values.mean())
    return Sample(
        n=len(values),
        mean=mean,
        squares=float(((values - mean) ** 2).sum()) if math.isfinite(mean) else math.nan,
        cubes=float(((values - mean) ** 3).sum()) if math.isfinite(mean) else math.nan,
        constant=bool(values.min() == values.max()),
        low=low,
        high=high,
        share=share,
        clusters=clusters,
    )


def clusters_of(values, labels) -> Clusters:
    values, labels = np.asarray(values, dtype=float), np.asarray(labels)
    n, deviations = len(values), values - values.mean()
    sizes = np.array([(labels == label).sum() for label in set(labels.tolist())])
    sums = np.array([deviations[labels == label].sum() for label in set(labels.tolist())])
    influences, alone = sums * n / np.maximum(1, n - sizes), deviations * n / (n - 1)
    return Clusters(
        joined=n - len(sums),
        sizes=float((sizes * sizes - sizes).sum()),
        covariance=float((influences**2).sum() - (alone**2).sum()),
        coskewness=float((influences**3).sum() - (alone**3).sum()),
        within=max(0.0, float((deviations**2).sum() - (sums**2 / sizes).sum())),
    )


@given(n=st.integers(1, 5000), share=st.floats(0, 1))
def test_the_interval_of_a_share_equals_scipys_exact_one(n, share):
    k = round(share * n)
    expected = stats.binomtest(k, n).proportion_ci(method="exact")
    assert clopper_pearson(k / n, n) == pytest.approx((expected.low, expected.high), abs=1e-9)


@given(n=st.integers(0, 5000), hits=st.floats(0, 1), share=st.floats(0.001, 0.999))
def test_the_chance_of_so_many_hits_equals_scipys(n, hits, share):
    k = round(hits * n)
    expected = stats.binomtest(k, n, share, alternative="greater").pvalue if n else 1.0
    assert binomial_test(k, n, share) == pytest.approx(expected, rel=1e-6, abs=1e-200)


@given(a=st.integers(0, 400), b=st.integers(0, 400), c=st.integers(0, 400), d=st.integers(0, 400))
def test_the_chance_of_so_many_marked_ones_among_those_drawn_equals_scipys(a, b, c, d):
    expected = stats.fisher_exact([[a, b], [c, d]], alternative="greater").pvalue if a + b + c + d else 1.0
    assert fisher_exact(a, a + b, a + c, a + b + c + d) == pytest.approx(expected, rel=1e-9, abs=1e-200)


def test_the_interval_of_a_share_reaches_exactly_0_and_1_at_the_ends():
    assert clopper_pearson(0.0, 10)[0] == 0.0
    assert clopper_pearson(1.0, 10)[1] == 1.0
    assert clopper_pearson(1.0, 1)[0] == pytest.approx(0.025)


@given(st.lists(st.floats(-1, 1), min_size=20, max_size=60).filter(lambda values: max(values) - min(values) > 1e-3))
def test_where_much_was_seen_and_nothing_is_skewed_the_interval_is_students(values):
    values = np.concatenate([values, -np.array(values), [-1, 1] * 10])
    found = mean_interval(sample(values, -1.0, 1.0))
    low, high = stats.t.interval(0.95, len(values) - 1, np.mean(values), stats.sem(values))
    assert found.method == "bounded"
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-9)


def test_an_open_range_is_clipped_on_its_closed_side_only():
    found = mean_interval(sample([0.0, 1.0, 30.0], 0.0, math.inf))
    assert found.low == 0.0
    assert found.high > 40


def test_one_row_has_no_interval_unless_it_is_a_share():
    assert mean_interval(sample([0.5])) is None
    assert sample([0.5]).std is None
    found = mean_interval(sample([1.0], share=True))
    assert found.method == "exact"


def test_infinite_values_have_no_interval_and_no_deviation():
    assert mean_interval(sample([1.0, math.inf], 0, math.inf)) is None
    assert sample([1.0, math.inf], 0, math.inf).std is None


def test_equal_values_have_an_interval_with_a_width_on_the_sides_where_the_range_ends():
    assert mean_interval(sample([7.0] * 5, -math.inf, math.inf)) == Interval(7.0, 7.0, "trusting")
    found = mean_interval(sample([7.0] * 5, 0.0, math.inf))
    assert (found.low, found.high) == (pytest.approx(7 * 0.04 ** (1 / 5)), 7.0)


@pytest.mark.parametrize(("rows", "method"), [(71, "trusting"), (72, "t")])
@pytest.mark.parametrize(("low", "high"), [(0.0, math.inf), (-math.inf, 3.0), (-math.inf, math.inf)])
def test_a_mean_in_an_open_range_of_which_few_rows_tell_trusts_that_no_outlier_was_missed(rows, method, low, high):
    values = np.linspace(1, 2, rows)
    twice, cases = np.repeat(values, 2), np.repeat(np.arange(rows), 2)
    for one in (sample(values, low, high), sample(twice, low, high, clusters=clusters_of(twice, cases))):
        found = mean_interval(one)
        assert found.method == method
    bounded = mean_interval(sample(values, 0.0, 3.0))
    assert bounded.method == "bounded"


def test_an_interval_that_trusts_what_was_seen_has_no_end_where_the_range_has_none():
    found = Interval(1.0, 2.0, "trusting")
    assert found.surely(0.0, math.inf) == Interval(1.0, math.inf, "trusting")
    assert found.surely(-math.inf, 3.0) == Interval(-math.inf, 2.0, "trusting")
    for method in ("t", "bounded", "ranks"):
        assert Interval(1.0, 2.0, method).surely(-math.inf, math.inf) == Interval(1.0, 2.0, method)


def test_rows_that_are_exact_copies_count_once():
    values = [0.1, 0.5, 0.4, 0.9, 0.8]
    twice = values * 2
    found = mean_interval(sample(twice, clusters=clusters_of(twice, [0, 1, 2, 3, 4] * 2)))
    expected = mean_interval(sample(values))
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_copies_that_vary_independently_still_never_add_precision_beyond_their_number():
    values = [0.0, 1.0] * 10
    assert sample(values, clusters=clusters_of(values, [i // 2 for i in range(20)])).effective == 20


def test_all_rows_from_one_case_have_no_interval():
    assert mean_interval(sample([0.1, 0.2, 0.3], clusters=clusters_of([0.1, 0.2, 0.3], [0, 0, 0]))) is None


@given(scored=st.lists(st.floats(0, 1), min_size=1, max_size=20), missing=st.integers(0, 10))
def test_bounds_are_the_means_with_the_missing_rows_filled_in(scored, missing):
    worst, best = bounds(float(np.mean(scored)), len(scored), missing, 0.0, 1.0)
    assert worst == pytest.approx(np.mean(scored + [0.0] * missing))
    assert best == pytest.approx(np.mean(scored + [1.0] * missing))


def test_bounds_at_their_edges():
    assert bounds(3.0, 2, 0, math.inf, 0.0) == (3.0, 3.0)
    assert bounds(3.0, 2, 2, math.inf, 0.0) == (None, 1.5)
    assert bounds(None, 0, 4, 0.0, 1.0) == (0.0, 1.0)
    assert bounds(None, 0, 0, 0.0, 1.0) == (None, None)


def judged(low, high, *, value=None, worst=None, best=None, coverage=1.0) -> Judged:
    middle = (low + high) / 2 if value is None else value
    return Judged(
        middle, Interval(low, high, "t"), middle if worst is None else worst, middle if best is None else best, coverage
    )


@pytest.mark.parametrize(
    ("given_", "higher", "expected"),
    [
        (judged(0.75, 0.9), True, "pass"),  # the threshold itself is good
        (judged(0.74, 0.9), True, "inconclusive"),
        (judged(0.5, 0.74), True, "fail"),
        (judged(0.5, 0.75), True, "inconclusive"),
        (judged(0.5, 0.75), False, "pass"),
        (judged(0.76, 0.9), False, "fail"),
        (judged(0.8, 0.9, worst=0.7, coverage=0.8), True, "inconclusive"),
        (judged(0.5, 0.6, best=0.8, coverage=0.5), True, "inconclusive"),
        (Judged(None, None, 0.0, 1.0, 0.0), True, "inconclusive"),
        (Judged(0.9, None, 0.9, 0.9, 1.0), True, "inconclusive"),
        (Judged(math.inf, None, None, None, 1.0), False, "fail"),
        (Judged(math.inf, None, None, None, 1.0), True, "pass"),
        (Judged(1.0, Interval(0.5, 0.6, "t"), None, 0.5, 0.99), False, "pass"),  # hardly any row is missing
        (Judged(1.0, Interval(0.5, 0.6, "t"), None, 0.5, 0.5), False, "inconclusive"),
    ],
)
def test_verdicts(given_, higher, expected):
    assert verdict(given_, 0.75, higher_is_better=higher) == expected


def test_no_threshold_no_verdict():
    assert verdict(judged(0, 1), None, higher_is_better=True) is None


def differences(values, labels=None) -> Differences:
    values = np.asarray(values, dtype=float)
    labels = np.arange(len(values)) if labels is None else np.asarray(labels)
    n, groups = len(values), [values[labels == label] for label in np.unique(labels)]
    influences = [(group - values.mean()).sum() * n / max(1, n - len(group)) for group in groups]
    return Differences(
        n=n,
        clusters=len(groups),
        mean=float(values.mean()),
        sizes=float(sum(len(group) ** 2 for group in groups)),
        squares=float(sum(each**2 for each in influences)),
        cubes=float(sum(each**3 for each in influences)),
        constant=bool(values.min() == values.max()),
    )


def test_a_paired_comparison_decides_as_the_paired_t_test_does():
    random = np.random.default_rng(5)
    for shift in np.linspace(0, 0.3, 40):
        half = random.normal(0, 0.2, 13)
        values = shift + np.concatenate([half, -half])  # without skew
        assert differ(differences(values)) == (stats.ttest_1samp(values, 0).pvalue < 0.05)


def test_equal_models_are_seldom_called_different():
    random = np.random.default_rng(6)
    wrong = sum(differ(differences(random.beta(4, 2, 30) - random.beta(4, 2, 30))) for _ in range(1000))
    assert wrong <= 70


def test_many_comparisons_ask_for_more_evidence():
    values = [0.3, 0.1, 0.2, 0.0, 0.12, 0.02]
    assert differ(differences(values))
    assert not differ(differences(values), comparisons=10)


def test_differences_that_are_all_equal():
    assert not differ(differences([0.0] * 50))
    assert not differ(differences([1.0] * 5))  # 2^-4: heads or tails five times in a row
    assert differ(differences([1.0] * 6))
    assert not differ(differences([1.0] * 6), comparisons=2)
    assert not differ(differences([0.5]))
