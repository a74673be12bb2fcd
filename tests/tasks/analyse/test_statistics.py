"""The formulas against SciPy, against simulation, and at their edges."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from leadline.tasks.analyse.statistics import (
    Clusters,
    Differences,
    Interval,
    Judged,
    Sample,
    bounds,
    differ,
    mean_interval,
    rule_of_three,
    student_t,
    verdict,
    wilson,
)


def sample(values, low=0.0, high=1.0, *, share=False, clusters=None) -> Sample:
    values = np.asarray(values, dtype=float)
    mean = float(values.mean())
    return Sample(
        n=len(values),
        mean=mean,
        squares=float(((values - mean) ** 2).sum()) if math.isfinite(mean) else math.nan,
        constant=bool(values.min() == values.max()),
        low=low,
        high=high,
        share=share,
        clusters=clusters,
    )


def clusters_of(values, labels) -> Clusters:
    values, labels = np.asarray(values, dtype=float), np.asarray(labels)
    deviations = values - values.mean()
    sums = [deviations[labels == label].sum() for label in set(labels.tolist())]
    return Clusters(joined=len(values) - len(sums), covariance=float(sum(s**2 for s in sums) - (deviations**2).sum()))


@given(n=st.integers(1, 5000), share=st.floats(0, 1))
def test_wilson_equals_scipy(n, share):
    k = round(share * n)
    expected = stats.binomtest(k, n).proportion_ci(method="wilson")
    assert wilson(k / n, n) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_wilson_reaches_exactly_0_and_1_at_the_ends():
    assert wilson(0.0, 10)[0] == 0.0
    assert wilson(1.0, 10)[1] == 1.0
    assert wilson(1.0, 1)[0] == pytest.approx(0.2065, abs=1e-4)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=40).filter(lambda values: max(values) - min(values) > 1e-6))
def test_mean_interval_is_students_clipped_to_the_range(values):
    found = mean_interval(sample(values))
    low, high = stats.t.interval(0.95, len(values) - 1, np.mean(values), stats.sem(values))
    assert found is not None
    assert found.method == "t"
    assert (found.low, found.high) == pytest.approx((max(0, low), min(1, high)), abs=1e-9)


def test_an_open_range_is_clipped_on_its_closed_side_only():
    found = mean_interval(sample([0.0, 1.0, 30.0], 0.0, math.inf))
    assert found is not None
    assert found.low == 0.0
    assert found.high > 40


def test_one_row_has_no_interval_unless_it_is_a_share():
    assert mean_interval(sample([0.5])) is None
    assert sample([0.5]).std is None
    found = mean_interval(sample([1.0], share=True))
    assert found is not None
    assert found.method == "wilson"


def test_infinite_values_have_no_interval_and_no_deviation():
    assert mean_interval(sample([1.0, math.inf], 0, math.inf)) is None
    assert sample([1.0, math.inf], 0, math.inf).std is None


@given(st.integers(2, 500))
def test_equal_values_of_a_bounded_metric_get_the_exact_binomial_bound(n):
    found = mean_interval(sample([1.0] * n))
    exact = stats.binomtest(n, n, alternative="greater").proportion_ci(0.95, method="exact").low
    assert found is not None
    assert found.method == "rule_of_three"
    assert (found.low, found.high) == pytest.approx((exact, 1.0), abs=1e-9)


def test_rule_of_three_is_about_three_over_n():
    low, high = rule_of_three(0.5, 100, 0, 1)
    assert 0.5 - low == pytest.approx(0.5 * 3 / 100, rel=0.02)
    assert high - 0.5 == pytest.approx(0.5 * 3 / 100, rel=0.02)


def test_equal_values_of_an_open_ended_metric_have_an_interval_without_width():
    found = mean_interval(sample([7.0] * 5, 0, math.inf))
    assert found == Interval(7.0, 7.0, "t")


def test_rows_that_are_exact_copies_count_once():
    values = [0.1, 0.5, 0.4, 0.9, 0.8]
    twice = values * 2
    found = mean_interval(sample(twice, clusters=clusters_of(twice, [0, 1, 2, 3, 4] * 2)))
    assert found is not None
    expected = mean_interval(sample(values))
    assert expected is not None
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_copies_that_vary_independently_still_never_add_precision_beyond_their_number():
    values = [0.0, 1.0] * 10
    assert sample(values, clusters=clusters_of(values, [i // 2 for i in range(20)])).effective == 20


def test_all_rows_from_one_case_have_no_interval():
    assert mean_interval(sample([0.1, 0.2, 0.3], clusters=clusters_of([0.1, 0.2, 0.3], [0, 0, 0]))) is None


def covers(found: Interval | None, truth: float) -> bool:
    return found is not None and not found.excludes(truth)


@pytest.mark.parametrize("n", [8, 30, 200])
@pytest.mark.parametrize("kind", ["share", "beta", "skewed", "clustered"])
def test_intervals_cover_the_truth_about_as_often_as_they_claim(kind, n):
    random = np.random.default_rng([7, n, len(kind)])
    hits = 0
    for _ in range(1500):
        if kind == "share":
            truth = random.uniform(0.05, 0.95)  # at a single truth the coverage of shares jumps with n
            hits += covers(mean_interval(sample(random.random(n) < truth, share=True)), truth)
        elif kind == "beta":
            hits += covers(mean_interval(sample(random.beta(4, 2, n))), 4 / 6)
        elif kind == "skewed":
            hits += covers(mean_interval(sample(random.gamma(4.0, 1.0, n), 0, math.inf)), 4.0)
        else:
            cases = random.beta(4, 2, n)
            both = np.concatenate([cases, np.where(random.random(n) < 0.7, cases, random.beta(4, 2, n))])
            found = mean_interval(sample(both, clusters=clusters_of(both, np.tile(np.arange(n), 2))))
            hits += covers(found, 4 / 6)
    assert hits >= 0.93 * 1500


def test_ignoring_copies_would_not_cover_the_truth():
    """The clusters matter: without them the same data are covered far less often than claimed."""
    random = np.random.default_rng(11)
    hits = 0
    for _ in range(500):
        cases = random.beta(4, 2, 20)
        hits += covers(mean_interval(sample(np.tile(cases, 4))), 4 / 6)
    assert hits < 0.8 * 500


@given(
    scored=st.lists(st.floats(0, 1), min_size=1, max_size=20),
    missing=st.integers(0, 10),
)
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


def differences(values, labels=None, width=1.0) -> Differences:
    values = np.asarray(values, dtype=float)
    labels = np.arange(len(values)) if labels is None else np.asarray(labels)
    groups = [values[labels == label] for label in np.unique(labels)]
    return Differences(
        n=len(values),
        clusters=len(groups),
        total=float(values.sum()),
        total_total=float(sum(group.sum() ** 2 for group in groups)),
        n_total=float(sum(len(group) * group.sum() for group in groups)),
        n_n=float(sum(len(group) ** 2 for group in groups)),
        constant=bool(values.min() == values.max()),
        width=width,
    )


def test_a_paired_comparison_decides_as_the_paired_t_test_does():
    random = np.random.default_rng(5)
    for shift in np.linspace(0, 0.3, 40):
        ours = random.beta(4, 2, 25)
        theirs = np.clip(ours - shift + random.normal(0, 0.2, 25), 0, 1)
        assert differ(differences(ours - theirs)) == (stats.ttest_rel(ours, theirs).pvalue < 0.05)


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
    assert not differ(differences([1.0] * 4))
    assert differ(differences([1.0] * 6))
    assert differ(differences([3.0] * 3, width=math.inf))
    assert not differ(differences([0.5]))


def test_student_t_equals_scipy():
    assert student_t(1.0, 2.0, 9, 8) == pytest.approx(stats.t.interval(0.95, 8, 1.0, 2.0 / 3), abs=1e-9)
