"""The interval of a mean against other formulas, against simulation, and at its edges."""

from __future__ import annotations

import dataclasses
import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from benchmarks.coverage import COPIED, MEANS, UNEVEN, alike, copied, covered, ours, samples, share
from leadline.tasks.statistics.bounded_mean import Mean, intervals, mean_of_clusters
from leadline.tasks.statistics.statistics import clopper_pearson, effective_number

PAGE = Path(__file__).parents[3] / "docs" / "mechanisms" / "statistics.md"
DRAWS = 1000


def mean_of(values: list[float], low: float = 0.0, high: float = 1.0) -> Mean:
    return mean_of_clusters(np.array(values), np.ones(len(values)), low=low, high=high)


@given(st.integers(1, 400))
def test_for_counts_of_rare_events_the_interval_reaches_up_to_raos_score_interval(k: int) -> None:
    """Of a Poisson count, which has the variance k and the skewness 1 / √k, it ends at (k - λ)² = z² λ."""
    _, high = Mean(k, math.sqrt(k), 1 / math.sqrt(k), 1e9, 1e9).interval()
    z2 = stats.norm.ppf(0.975) ** 2
    assert high == pytest.approx(k + z2 / 2 + math.sqrt(k * z2 + z2 * z2 / 4), rel=1e-6)


@given(st.integers(2, 500), st.floats(0, 1))
def test_without_spread_it_is_the_rule_of_three_at_4_percent(n: int, value: float) -> None:
    low, high = mean_of([value] * n).interval()
    unseen = stats.binomtest(n, n, alternative="greater").proportion_ci(0.96, method="exact").low
    assert low == pytest.approx(value * unseen, abs=1e-9)
    assert high == pytest.approx(value + (1 - unseen) * (1 - value), abs=1e-9)


@pytest.mark.parametrize("spread", [0.001, 0.01, 0.05, 0.1])
def test_it_ends_where_the_worst_share_unseen_is_still_possible(spread: float) -> None:
    """The mixture of what was seen and the end of the range, minimised over the share by SciPy instead of a grid."""
    n, value = 40, 0.8
    mean = Mean(value, spread / math.sqrt(n), 0.0, n - 1, n, 0.0, 1.0)

    def end(share: float) -> float:
        level = min(0.04 / (1 - share) ** n, 1 - 1e-12)
        return float((1 - share) * (value - stats.t.ppf(1 - level, n - 1) * mean.error))

    worst = optimize.minimize_scalar(
        end, bounds=(0, 1 - 0.04 ** (1 / n)), method="bounded", options={"xatol": 1e-9}
    ).fun
    students = value - stats.t.ppf(0.975, n - 1) * mean.error
    assert mean.interval()[0] == pytest.approx(min(worst, students), abs=0.002 * value)


@given(st.floats(0, 1e-3), st.integers(10, 200))
def test_one_value_that_hardly_differs_hardly_changes_the_interval(tiny: float, n: int) -> None:
    none, one = mean_of([1.0] * n).interval(), mean_of([1.0] * (n - 1) + [1.0 - tiny]).interval()
    assert one == pytest.approx(none, abs=1e-3)


def test_a_range_without_end_bounds_nothing_on_that_side_and_skew_counts_for_more() -> None:
    values = list(np.random.default_rng(1).lognormal(0, 1, 30))
    low, high = mean_of(values, 0.0, math.inf).interval()
    plain = stats.t.interval(0.95, 29, np.mean(values), stats.sem(values))
    assert 0 < low < plain[0] + 1e-9
    assert high - np.mean(values) > 1.4 * (plain[1] - np.mean(values))


def test_copies_that_score_alike_count_once_however_many_they_are() -> None:
    values = np.random.default_rng(3).random(20)
    alone = mean_of(list(values)).interval()
    found = mean_of_clusters(values * 7, np.full(20, 7.0), low=0.0, high=1.0)
    assert found.interval() == pytest.approx(alone)


def test_the_error_over_clusters_is_that_of_leaving_each_out() -> None:
    random = np.random.default_rng(4)
    sizes = np.array([1, 2, 3, 9, 1, 4])
    groups = [random.random(size) for size in sizes]
    found = mean_of_clusters(np.array([group.sum() for group in groups]), sizes.astype(float))
    without = [np.concatenate(groups[:at] + groups[at + 1 :]).mean() for at in range(6)]
    expected = math.sqrt(5 / 6 * sum((one - found.value) ** 2 for one in without))
    assert found.error == pytest.approx(expected)


def test_a_mean_of_more_cases_is_narrower_and_covers_more_of_what_was_not_seen() -> None:
    mean = mean_of([0.9, 0.8, 1.0, 0.7, 0.9])
    more = mean.of_more(4)
    assert (more.error, more.draws, more.df) == (pytest.approx(mean.error / 2), 20, 19)


def documented() -> dict[str, list[float]]:
    """Return how often the new intervals contain the truth, in percent, by the rows of the page's tables."""
    rows = re.findall(r"^\| (.+?) \|(.*→.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return {name: [float(each) for each in re.findall(r"→ ([\d.]+) \(", cells)] for name, cells in rows}


def at_most(level: float) -> float:
    """Return the greatest share that a true chance shows in so many draws, but once in a thousand."""
    return float(stats.binom.ppf(0.999, DRAWS, level)) / DRAWS


@pytest.mark.parametrize("population", MEANS, ids=lambda population: population.name)
def test_intervals_of_means_contain_the_truth_as_often_as_documented(population) -> None:
    random = np.random.default_rng(11)
    for n, said in zip((10, 30, 100), documented()[population.name], strict=False):
        found = ours(population.draw(random, DRAWS, n), population)
        assert 100 * found.inside == pytest.approx(said, abs=2.5)
        if math.isfinite(population.high):
            assert found.inside >= 0.935
            assert max(found.above, found.below) <= at_most(0.04)
        elif n >= 30:
            assert found.inside >= 0.92


@pytest.mark.parametrize("population", COPIED, ids=lambda population: population.name)
@pytest.mark.parametrize("kind", ["four each", "1 to 10", "one has half"])
def test_intervals_over_copies_contain_the_truth(kind: str, population) -> None:
    random = np.random.default_rng(12)
    sizes = copied(kind, 30, random)
    found = ours(alike(random, population, sizes, 0.5, DRAWS), population, sizes)
    assert found.inside >= 0.935
    assert max(found.above, found.below) <= at_most(0.04)


@pytest.mark.parametrize("correlation", [0.5, 1.0])
@pytest.mark.parametrize(("kind", "groups"), [*UNEVEN, ("1 to 10", 30), ("four each", 30)])
def test_shares_contain_the_truth_whatever_cluster_outweighs_the_others(
    kind: str, groups: int, correlation: float
) -> None:
    """The interval of the mean, and that of a pass share by the effective number of rows."""
    random = np.random.default_rng(14)
    for chance in (0.8, 0.95):
        found, passes = [], []
        for _ in range(5):
            sizes = copied(kind, groups, random)
            values = alike(random, share(chance), sizes, correlation, DRAWS // 5)
            found.append(ours(values, share(chance), sizes))
            ends = [clopper_pearson(one.mean, one.effective) for one in samples(values, share(chance), sizes)]
            passes.append(covered(*np.array(ends).T, chance))
        for each in (found, passes):
            assert np.mean([one.inside for one in each]) >= 0.935
            assert max(np.mean([(one.above, one.below) for one in each], axis=0)) <= at_most(0.04)


@pytest.mark.parametrize(("kind", "groups"), [*UNEVEN, ("four each", 30)])
def test_one_formula_counts_how_many_independent_rows_a_sample_is_worth(kind: str, groups: int) -> None:
    random = np.random.default_rng(15)
    sizes = copied(kind, groups, random)
    values = alike(random, share(0.8), sizes, 0.5, 20)
    numbered = np.repeat(np.arange(groups), sizes)
    for row, one in zip(values, samples(values, share(0.8), sizes), strict=True):
        assert effective_number(row, numbered) == pytest.approx(one.effective)


def test_copies_that_do_not_resemble_each_other_count_nearly_as_rows_of_their_own() -> None:
    values = np.random.default_rng(16).random(400)
    assert effective_number(values, np.arange(400) // 4) > 250
    assert effective_number(np.repeat(values[:100], 4), np.arange(400) // 4) == pytest.approx(100, rel=0.05)
    assert effective_number(np.ones(8), np.arange(8) // 2) == 4
    assert effective_number(values[:5], np.zeros(5, dtype=int)) == 1


def test_ignoring_copies_would_not_contain_it() -> None:
    random = np.random.default_rng(13)
    population = dataclasses.replace(COPIED[1])
    sizes = np.full(20, 4)
    assert ours(alike(random, population, sizes, 1.0, 300), population).inside < 0.85


MEAN = st.builds(
    Mean, st.floats(0, 1), st.floats(0, 2), st.floats(-1.5, 1.5), st.sampled_from([1.0, 7.5, 300.0, 1e12]),
    st.floats(1, 1e6), st.sampled_from([-math.inf, -3.0, 0.0]), st.sampled_from([1.0, 5.0, math.inf]),
)  # fmt: skip


def end_of(mean: Mean, skew: float, room: float) -> float:
    """One side of an interval as the module's text has it, a share that stays unseen after the other."""
    if math.isinf(room):
        skew *= 1 + 40 / max(mean.draws, 20.0)
    a, reaches = max(0.0, skew), []
    for chance in [None, *np.geomspace(1.0, 0.04, 48).tolist()]:
        level = 0.025 if chance is None else min(0.04 / chance, 1 - 1e-9)
        t = stats.t.isf(level, min(mean.df, 1e9))
        reach = mean.error * (a / 2 * t * t + t * math.sqrt(1 + a * a / 4 * t * t))
        unseen = 0.0 if chance is None else -math.expm1(math.log(chance) / mean.draws)
        reaches.append(reach + unseen * (max(0.0, room) - reach) if math.isfinite(room) else reach)
    return max(reaches) if math.isfinite(room) else reaches[0]


@given(st.lists(MEAN, max_size=6))
def test_intervals_of_many_means_are_those_of_each(means: list[Mean]) -> None:
    found = intervals(means)
    assert len(found) == len(means)
    for mean, (low, high) in zip(means, found, strict=True):
        assert (low, high) == pytest.approx(mean.interval(), rel=1e-12, abs=1e-12)
        assert low == pytest.approx(
            max(mean.low, mean.value - end_of(mean, -mean.skew, mean.value - mean.low)), rel=1e-6
        )
        assert high == pytest.approx(
            min(mean.high, mean.value + end_of(mean, mean.skew, mean.high - mean.value)), rel=1e-6
        )
