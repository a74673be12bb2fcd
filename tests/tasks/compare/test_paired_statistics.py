"""The numbers of a comparison equal those of SciPy and of first principles."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from leadline.tasks.compare.verdicts import VerdictQuestion, judge
from leadline.tasks.statistics.paired import (
    EXACT,
    MOST_CLUSTERS,
    PairedSeries,
    cases_to_decide,
    detectable,
    least_cases,
    measure,
    score_interval,
    score_statistic,
    sign_flip_test,
    sign_test,
)
from leadline.tasks.statistics.statistics import holm

VALUES = st.lists(st.floats(-1, 1, allow_subnormal=False).map(lambda x: round(x, 3)), min_size=2, max_size=10)


def mean_of(sample: npt.NDArray[np.float64], axis: int = -1) -> npt.NDArray[np.float64]:
    mean: npt.NDArray[np.float64] = np.mean(sample, axis=axis)
    return mean


class TestSignFlips:
    @settings(max_examples=40, deadline=None)
    @given(VALUES)
    def test_counting_all_flips_equals_scipy(self, values: list[float]) -> None:
        ours, method = sign_flip_test(np.array(values))
        theirs = stats.permutation_test(
            (np.array(values),), mean_of, permutation_type="samples", vectorized=True, n_resamples=math.inf
        )
        assert method == "sign-flip exact"
        assert ours == pytest.approx(theirs.pvalue, abs=1e-12)

    def test_drawn_flips_come_near_the_exact_test(self) -> None:
        values = np.random.default_rng(1).normal(0.4, 1, EXACT)
        exact, _ = sign_flip_test(values)
        # Further values too small to matter make it draw.
        drawn, method = sign_flip_test(np.append(values, [1e-9] * 5))
        assert method == "sign-flip"
        assert drawn == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 9_999))

    def test_drawn_flips_are_the_same_each_time_and_never_give_0(self) -> None:
        values = np.random.default_rng(1).normal(3, 1, 100)
        assert sign_flip_test(values) == sign_flip_test(values) == (1 / 10_000, "sign-flip")

    def test_many_clusters_are_tested_by_students_t(self) -> None:
        values = np.random.default_rng(1).normal(0.02, 1, MOST_CLUSTERS + 1)
        p, method = sign_flip_test(values)
        assert method == "t"
        assert p == pytest.approx(stats.ttest_1samp(values, 0).pvalue, abs=1e-3)

    def test_no_difference_has_p_1(self) -> None:
        assert sign_flip_test(np.zeros(30)) == (1.0, "sign-flip exact")


class TestMcNemar:
    @given(st.integers(0, 60), st.integers(0, 60))
    def test_it_equals_the_binomial_test(self, wins: int, losses: int) -> None:
        expected = stats.binomtest(wins, wins + losses).pvalue if wins + losses else 1.0
        assert sign_test(wins, losses) == pytest.approx(expected, abs=1e-12)


def most_likely_share(wins: int, losses: int, n: int, difference: float) -> float:
    """Maximise the likelihood of the share of losses under a given difference, without a formula."""

    def unlikely(lost: float) -> float:
        won, same = lost + difference, 1 - 2 * lost - difference
        terms = [(wins, won), (losses, lost), (n - wins - losses, same)]
        return -sum(count * math.log(max(share, 1e-300)) for count, share in terms if count)

    low, high = max(0.0, -difference), (1 - difference) / 2
    return float(optimize.minimize_scalar(unlikely, bounds=(low, high), method="bounded", options={"xatol": 1e-12}).x)


DIFFERENCES = st.floats(-0.9, 0.9).filter(lambda other: other == 0 or abs(other) > 1e-6)
"""Differences of shares; squares of smaller ones vanish in floating point."""


class TestTango:
    @settings(max_examples=60, deadline=None)
    @given(st.integers(0, 25), st.integers(0, 25), st.integers(1, 60), DIFFERENCES)
    def test_the_statistic_takes_the_most_likely_shares(self, wins: int, losses: int, same: int, other: float) -> None:
        n = wins + losses + same
        lost = most_likely_share(wins, losses, n, other)
        variance = (2 * lost + other - other**2) / n
        z = ((wins - losses) / n - other) / math.sqrt(variance)
        assert score_statistic(wins, losses, n, other) == pytest.approx(z, abs=1e-4)

    @given(st.integers(0, 40), st.integers(0, 40), st.integers(1, 60))
    def test_the_interval_ends_where_5_percent_are_rejected(self, wins: int, losses: int, same: int) -> None:
        n = wins + losses + same
        low, high = score_interval(wins, losses, n)
        assert -1 < low <= (wins - losses) / n <= high < 1
        z = stats.norm.ppf(0.975)
        assert score_statistic(wins, losses, n, low) == pytest.approx(z, abs=1e-6)
        assert score_statistic(wins, losses, n, high) == pytest.approx(-z, abs=1e-6)

    def test_at_no_difference_it_is_mcnemars_statistic(self) -> None:
        assert score_statistic(14, 5, 100, 0.0) == pytest.approx((14 - 5) / math.sqrt(14 + 5))

    def test_nothing_changed_still_has_a_width(self) -> None:
        z2 = stats.norm.ppf(0.975) ** 2
        assert score_interval(0, 0, 100) == pytest.approx((-z2 / (100 + z2), z2 / (100 + z2)))

    @pytest.mark.parametrize(("wins", "losses", "ends"), [(5, 0, (None, 1.0)), (0, 5, (-1.0, None))])
    def test_all_won_or_all_lost_reaches_the_end(self, wins: int, losses: int, ends: tuple[float | None, ...]) -> None:
        for found, expected in zip(score_interval(wins, losses, 5), ends, strict=True):
            assert expected is None or found == expected


class TestMeans:
    def test_without_skew_the_interval_and_the_p_value_are_those_of_the_paired_t_test(self) -> None:
        random = np.random.default_rng(2)
        half = random.normal(0.1, 0.3, 20)
        values = np.concatenate([half, 2 * half.mean() - half])  # symmetric about its mean
        measured = measure(PairedSeries(values))
        baseline = random.random(40)
        theirs = stats.ttest_rel(baseline + values, baseline)
        assert measured.interval is not None
        assert [measured.interval.low, measured.interval.high] == pytest.approx(list(theirs.confidence_interval(0.95)))

    def test_a_long_tail_widens_the_interval_on_its_side(self) -> None:
        values = np.array([0.0] * 95 + [-0.5, -0.6, -0.7, -0.8, -0.9])
        found = measure(PairedSeries(values)).interval
        low, high = stats.t.interval(0.95, 99, values.mean(), stats.sem(values))
        assert found is not None
        assert found.low < low - 0.2 * (high - low)
        assert found.high == pytest.approx(high)

    @pytest.mark.parametrize("tiny", [1e-4, -1e-4])
    def test_one_tiny_difference_hardly_changes_the_interval(self, tiny: float) -> None:
        none, one = (measure(PairedSeries(np.array([0.0] * 19 + [value]), width=1.0)).interval for value in (0.0, tiny))
        assert none is not None
        assert one is not None
        assert [one.low, one.high] == pytest.approx([none.low, none.high], abs=1e-3)

    def test_copies_that_score_alike_count_once(self) -> None:
        values = np.random.default_rng(3).normal(0.1, 0.3, 30)
        alone = measure(PairedSeries(values))
        copied = measure(PairedSeries(values.repeat(4), np.arange(30).repeat(4)))
        assert alone.interval is not None
        assert copied.interval is not None
        assert (copied.n, copied.groups) == (120, 30)
        assert [copied.interval.low, copied.interval.high] == pytest.approx([alone.interval.low, alone.interval.high])
        assert copied.p == alone.p

    def test_equal_differences_are_bounded_by_the_range(self) -> None:
        measured = measure(PairedSeries(np.zeros(100), width=1.0))
        assert measured.interval is not None
        assert measured.interval.method == "bounded"
        assert measured.interval.high == pytest.approx(1 - 0.04**0.01)

    def test_equal_differences_without_a_range_have_no_interval(self) -> None:
        assert measure(PairedSeries(np.full(5, 0.5))).interval is None

    def test_one_pair_has_no_interval_in_an_open_range(self) -> None:
        assert measure(PairedSeries(np.array([0.5]))).interval is None

    def test_infinite_differences_get_the_sign_test(self) -> None:
        measured = measure(PairedSeries(np.array([-math.inf, -1.0, -2.0, 0.5])))
        assert (measured.effect, measured.interval, measured.test) == (-math.inf, None, "sign")
        assert measured.p == pytest.approx(stats.binomtest(1, 4).pvalue)

    def test_infinite_differences_in_both_directions_have_no_mean(self) -> None:
        assert measure(PairedSeries(np.array([-math.inf, math.inf]))).effect is None


class TestHolm:
    def test_a_worked_example(self) -> None:
        # Holm (1979): multiplied by 4, 3, 2, 1 in order of size, and never falling.
        assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])

    @given(st.lists(st.floats(0, 1), max_size=8))
    def test_it_lies_between_the_p_value_and_bonferroni(self, p_values: list[float]) -> None:
        for p, adjusted in zip(p_values, holm(p_values), strict=True):
            assert p <= adjusted <= min(1.0, len(p_values) * p) + 1e-12

    @pytest.mark.parametrize(("changed", "factor"), [(5, 1), (6, 2)])
    def test_metrics_whose_changed_cases_are_too_few_to_fail_at_the_level_do_not_count(
        self, changed: int, factor: int
    ) -> None:
        # 6 cases that change give 2^-5 = 0.031 at least, 5 give 0.0625: only 6 can be told apart at 0.05.
        few, many = (
            measure(PairedSeries(np.repeat([-1.0, 0.0], [n, 40 - n]), None, 1.0, binary=True)) for n in (changed, 12)
        )
        asked = [VerdictQuestion(found, 0.05, 1.0, found.effect, found.effect) for found in (few, many)]
        assert many.p is not None
        assert judge(asked, 0.05)[1].p_adjusted == pytest.approx(factor * many.p)


class TestHowMuchCanBeSeen:
    def test_it_is_the_textbooks_sum_of_two_quantiles(self) -> None:
        values = np.random.default_rng(4).normal(0, 0.2, 50)
        error = values.std(ddof=1) / math.sqrt(50)
        expected = (stats.t.ppf(0.975, 49) + stats.t.ppf(0.8, 49)) * error
        assert detectable(measure(PairedSeries(values)), 0.05) == pytest.approx(expected)

    def test_too_few_rows_show_nothing_at_all(self) -> None:
        measured = measure(PairedSeries(np.array([0.1, 0.2, 0.3, 0.4, 0.5])))
        assert measured.p == 2 / 32
        assert detectable(measured, 0.05) is None

    def test_more_cases_are_needed_the_nearer_the_margin_is(self) -> None:
        measured = measure(PairedSeries(np.random.default_rng(5).normal(0, 0.2, 50)))
        near, far = cases_to_decide(measured, 0.05, 0.05), cases_to_decide(measured, 0.2, 0.05)
        assert near is not None
        assert far is not None
        assert near > 2 * far > 50

    @pytest.mark.parametrize(("binary", "least"), [(True, 73), (False, 63)])
    def test_fewer_than_the_least_cases_never_pass(self, binary: bool, least: int) -> None:
        assert least_cases(0.05, 1.0, binary=binary) == least
        enough, short = (
            measure(PairedSeries(np.zeros(n), width=1.0, binary=binary)).interval for n in (least, least - 1)
        )
        assert enough is not None
        assert short is not None
        assert short.low < -0.05 <= enough.low

    def test_no_number_of_cases_passes_without_a_margin_unless_the_candidate_is_better(self) -> None:
        assert least_cases(0.0, 1.0, binary=True) is None
        assert least_cases(0.05, math.inf, binary=False) is None

    def test_where_nothing_changed_more_than_the_least_cases_are_needed(self) -> None:
        needed = cases_to_decide(measure(PairedSeries(np.zeros(20), width=1.0)), 0.05, 0.05)
        assert needed is not None
        assert 63 <= needed <= 64
