"""Strengths of models by comparisons: published values, extremes, and intervals that cover."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy.special import expit

from leadline.tasks.statistics.bounded_mean import mean_of_clusters
from leadline.tasks.statistics.bradley_terry import PairComparison, _fit, strengths

TEAMS = ("Milwaukee", "Detroit", "Toronto", "New York", "Boston", "Cleveland", "Baltimore")
WON = (
    (0, 7, 9, 7, 7, 9, 11),
    (6, 0, 7, 5, 11, 9, 9),
    (4, 6, 0, 7, 7, 8, 12),
    (6, 8, 6, 0, 6, 7, 10),
    (6, 2, 6, 7, 0, 7, 12),
    (4, 4, 5, 6, 6, 0, 6),
    (2, 4, 1, 3, 1, 7, 0),
)
"""Games that the team of the row won against that of the column: American League East, 1987 (Agresti, "Categorical Data
Analysis", section 10.6)."""

PUBLISHED = (1.5814, 1.4364, 1.2945, 1.2476, 1.1077, 0.6839, 0.0)
"""Strengths against Baltimore's, as the vignette of the R package BradleyTerry2 prints them for these games."""


def games_of(won: Sequence[Sequence[int]]) -> list[PairComparison]:
    """Return games, each in a case of its own."""
    number = itertools.count()
    return [
        PairComparison(one, other, 1.0, next(number))
        for one, line in enumerate(won)
        for other, times in enumerate(line)
        for _ in range(times)
    ]


def test_the_fit_has_the_published_strengths_of_a_season_of_baseball() -> None:
    won = np.array(WON, dtype=float)
    found = _fit(won + won.T, won)
    assert found - found[-1] == pytest.approx(PUBLISHED, abs=5e-5)


def test_the_made_up_case_moves_strengths_by_less_than_a_tenth_of_their_error() -> None:
    found = strengths(games_of(WON), len(TEAMS))
    plain = np.array(PUBLISHED) - np.mean(PUBLISHED)
    for strength, value in zip(found, expit(plain), strict=True):
        assert abs(strength.value - value) < 0.025 * (strength.high - strength.low)


def test_two_models_have_the_odds_of_the_share_won_with_half_a_case_each_added() -> None:
    found = strengths(
        [PairComparison(0, 1, score, case) for case, score in enumerate([1.0] * 6 + [0.5] * 2 + [0.0] * 2)], 2
    )
    assert found[0].value == pytest.approx(expit(math.log(7.5 / 3.5) / 2))
    assert found[1].value == pytest.approx(1 - found[0].value)


def test_the_interval_of_two_models_is_that_of_the_mean_preference() -> None:
    scores = np.array([1.0] * 30 + [0.5] * 8 + [0.0] * 12)
    found = strengths([PairComparison(0, 1, float(score), case) for case, score in enumerate(scores)], 2)
    mean = mean_of_clusters(scores, np.ones(50), low=0.0, high=1.0)
    low, high = (expit(math.log(end / (1 - end)) / 2) for end in mean.interval())
    assert found[0].low == pytest.approx(low, abs=0.002)
    assert found[0].high == pytest.approx(high, abs=0.002)


def test_a_model_that_won_everything_has_a_finite_strength_and_an_open_interval() -> None:
    games = [PairComparison(0, other, 1.0, case) for case in range(20) for other in (1, 2)]
    found = strengths(games + [PairComparison(1, 2, 0.5, case) for case in range(20)], 3)
    assert 0.9 < found[0].value < 1.0
    assert found[0].high == 1.0
    assert found[0].low < 0.9
    assert found[1].value == pytest.approx(found[2].value)


def test_models_that_nothing_connects_have_no_strengths() -> None:
    assert strengths([PairComparison(0, 1, 1.0, 0), PairComparison(2, 3, 1.0, 1)], 4) is None


def test_one_case_gives_strengths_without_intervals() -> None:
    found = strengths([PairComparison(0, 1, 1.0, 7)], 2)
    assert found[0].value > 0.5
    assert found[0].low is found[0].high is None


def test_copies_of_cases_make_no_interval_narrower() -> None:
    alone = [PairComparison(0, 1, float(case % 3 > 0), case) for case in range(30)]
    once, thrice = strengths(alone, 2), strengths(alone * 3, 2)
    assert thrice[0].low == pytest.approx(once[0].low, abs=1e-3)
    assert thrice[0].high == pytest.approx(once[0].high, abs=1e-3)


def drawn(
    random: np.random.Generator, gaps: Sequence[float], cases: int, copies: int, tie: float
) -> list[PairComparison]:
    """Return the comparisons of all models on some cases, whose answers differ in quality by chance.

    Args:
        random: Source of chance.
        gaps: Mean quality of each model.
        cases: Number of cases.
        copies: Comparisons of each pair on each case, by a judge with a little noise.
        tie: Difference in quality below which it is a tie.
    """
    quality = np.asarray(gaps) + random.normal(size=(cases, 1, len(gaps)))[:, [0] * copies]
    quality = quality + random.normal(size=(cases, 1, len(gaps)))
    games = []
    for one, other in itertools.combinations(range(len(gaps)), 2):
        difference = quality[..., one] - quality[..., other] + 0.5 * random.normal(size=quality.shape[:2])
        score = np.where(difference > tie, 1.0, np.where(difference < -tie, 0.0, 0.5))
        games += [
            PairComparison(one, other, float(score[case, copy]), case)
            for case in range(cases)
            for copy in range(copies)
        ]
    return games


def truth(gaps: Sequence[float], tie: float) -> tuple[float, ...]:
    """Return the strengths that very many cases would show."""
    games = drawn(np.random.default_rng(0), gaps, 60_000, 1, tie)
    models = len(gaps)
    won, played = np.zeros((models, models)), np.zeros((models, models))
    for one, other, score, _ in games:
        played[one, other] += 1
        played[other, one] += 1
        won[one, other] += score
        won[other, one] += 1 - score
    return tuple(expit(_fit(played, won)))


@pytest.mark.parametrize(
    ("gaps", "cases", "copies", "tie"),
    [
        ((-0.3, 0.3), 60, 1, 0.3),
        ((-0.5, 0.0, 0.5), 40, 1, 0.3),
        ((-0.5, 0.0, 0.5), 30, 4, 0.3),
        ((-1.0, -0.3, 0.3, 1.0), 60, 1, 0.1),
    ],
)
def test_intervals_cover(gaps: tuple[float, ...], cases: int, copies: int, tie: float) -> None:
    random, true = np.random.default_rng(17), truth(gaps, tie)
    runs, covered = 200, np.zeros(len(gaps))
    for _ in range(runs):
        found = strengths(drawn(random, gaps, cases, copies, tie), len(gaps))
        for model, (strength, value) in enumerate(zip(found, true, strict=True)):
            covered[model] += strength.low <= value <= strength.high
    assert 0.93 <= covered.mean() / runs <= 0.985


@pytest.mark.parametrize("chance", [0.9, 0.98])
def test_intervals_of_a_model_that_nearly_always_wins_cover(chance: float) -> None:
    random, true, covered = np.random.default_rng(3), expit(math.log(chance / (1 - chance)) / 2), 0
    for _ in range(200):
        won = random.random(50) < chance
        found = strengths([PairComparison(0, 1, float(score), case) for case, score in enumerate(won)], 2)
        covered += found[0].low <= true <= found[0].high
    assert covered >= 0.95 * 200
