import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.tasks.statistics.agreement import agreement, bootstrap, krippendorff_alpha, spearman, weighted_kappa
from tests.support.simulated_labels import JUDGE_ON_LABELS, LABELS

PEOPLE = np.array(
    [
        [1, 1, 0, 1, 0, 1, 1, math.nan, 0, 1],
        [1, 0, 0, 1, 0, 1, math.nan, 1, 0, 1],
        [1, 1, 0, 1, 1, 1, 1, 1, 0, math.nan],
    ]
)


def test_agreement_equals_that_of_other_packages():
    agreed = agreement(LABELS, JUDGE_ON_LABELS)
    assert agreed.accuracy.value == pytest.approx(0.875)
    assert agreed.kappa == pytest.approx(0.6794871794871795)  # scikit-learn
    assert agreed.kappa_high - agreed.kappa == pytest.approx(1.96 * 0.13044331276476218, rel=1e-4)
    assert agreed.ac1 == pytest.approx(0.79602, abs=5e-6)  # irrCAC
    assert agreed.alpha == pytest.approx(0.6811945117029863)  # krippendorff
    assert agreed.recall_fail.value == pytest.approx(8 / 12)
    assert agreed.precision_fail.value == pytest.approx(8 / 9)


def test_alpha_of_three_people_with_gaps_equals_that_of_the_package_krippendorff():
    assert krippendorff_alpha(PEOPLE) == pytest.approx(0.6790123456790124)
    assert krippendorff_alpha(PEOPLE, "interval") == pytest.approx(0.6790123456790124)


def test_alpha_needs_two_ratings_of_a_unit_and_two_values():
    assert math.isnan(krippendorff_alpha(np.array([[1.0, math.nan], [math.nan, 0.0]])))
    assert math.isnan(krippendorff_alpha(np.ones((2, 5))))


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=2, max_size=60))
def test_kappa_of_pass_and_fail_equals_scikit_learn(pairs):
    from sklearn.metrics import cohen_kappa_score

    ones, others = np.array(pairs, float).T
    agreed = agreement(ones, others)
    if len({*pairs[0], *np.ravel(pairs)}) == 1:
        assert math.isnan(agreed.kappa)
    else:
        assert agreed.kappa == pytest.approx(cohen_kappa_score(ones, others))
    assert agreed.accuracy.low <= agreed.accuracy.value <= agreed.accuracy.high


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=2, max_size=60))
def test_quadratic_kappa_equals_scikit_learn(pairs):
    from sklearn.metrics import cohen_kappa_score

    ones, others = np.array(pairs, float).T
    ours = weighted_kappa(ones, others)
    if len(set(np.ravel(pairs).tolist())) == 1:
        assert math.isnan(ours)
    else:
        theirs = cohen_kappa_score(ones, others, weights="quadratic", labels=[1, 2, 3, 4, 5])
        assert ours == pytest.approx(theirs, abs=1e-9)


def test_weights_stand_for_rows():
    twice = agreement(np.repeat(LABELS, 2), np.repeat(JUDGE_ON_LABELS, 2))
    weighted = agreement(LABELS, JUDGE_ON_LABELS, np.full(len(LABELS), 2.0))
    assert weighted.kappa == pytest.approx(twice.kappa)
    assert weighted.accuracy.n == pytest.approx(len(LABELS))


def test_where_nearly_all_rows_pass_kappa_is_low_and_ac1_is_not():
    labels = np.array([1.0] * 95 + [0.0] * 5)
    judge = np.array([1.0] * 93 + [0.0] * 2 + [1.0] * 3 + [0.0] * 2)
    agreed = agreement(labels, judge)
    assert agreed.accuracy.value == pytest.approx(0.95)
    assert agreed.kappa < 0.5
    assert agreed.ac1 > 0.9


def test_ranks_of_a_constant_do_not_correlate():
    assert math.isnan(spearman(np.ones(5), np.arange(5.0)))
    assert spearman(np.arange(5.0), np.arange(5.0) ** 2) == pytest.approx(1)


def test_equal_values_share_the_mean_of_their_ranks():
    assert spearman(np.array([1.0, 1.0, 2.0, 3.0]), np.array([4.0, 3.0, 3.0, 5.0])) == pytest.approx(0.5)


def test_bootstrap_draws_whole_groups():
    values = np.repeat(np.random.default_rng(1).normal(size=40), 5)
    alone = bootstrap(lambda rows: float(values[rows].mean()), np.arange(200), samples=400)
    together = bootstrap(lambda rows: float(values[rows].mean()), np.repeat(np.arange(40), 5), samples=400)
    assert together[1] - together[0] > 1.7 * (alone[1] - alone[0])
