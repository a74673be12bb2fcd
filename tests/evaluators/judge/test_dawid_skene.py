"""The model of Dawid and Skene, against counts by hand and judges whose error rates are known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from leadline.evaluators.judge.dawid_skene import Rates, fit, log_odds, probability


def _votes(rates, truth, seed):
    """Draw the votes of judges who err independently."""
    random = np.random.default_rng(seed)
    return np.array(
        [np.where(random.random(len(truth)) < np.where(truth == 1, one.passes, one.catches), truth, 1 - truth)
         for one in rates]
    )  # fmt: skip


def test_with_labels_of_all_rows_it_is_counting():
    labels = np.array([1.0] * 10 + [0.0] * 6)
    votes = np.array([[1.0] * 9 + [0.0] + [0.0] * 5 + [1.0], [1.0] * 16])
    found = fit(votes, labels)
    assert found.good == pytest.approx(11 / 18)
    assert found.rates[0] == pytest.approx((10 / 12, 6 / 8))
    assert found.rates[1] == pytest.approx((11 / 12, 1 / 8))
    assert found.posterior.tolist() == labels.tolist()


def test_an_answer_that_stands_for_two_counts_as_two():
    labels, votes = np.array([1.0, 1.0, 0.0, 0.0, 0.0]), np.array([[1.0, 0.0, 0.0, 1.0, 0.0]])
    stands_for = np.array([2.0, 1.0, 1.0, 2.0, 1.0])
    twice = np.repeat(np.arange(5), stands_for.astype(int))
    found, same = fit(votes, labels, stands_for), fit(votes[:, twice], labels[twice])
    assert (found.good, found.rates) == (pytest.approx(same.good), (pytest.approx(same.rates[0]),))


def test_votes_are_weighed_by_hand():
    rates = (Rates(0.9, 0.8), Rates(0.6, 0.7))
    # good: 0.3 * 0.9 * 0.4, bad: 0.7 * 0.2 * 0.7
    expected = 0.108 / (0.108 + 0.098)
    assert probability(log_odds([1.0, 0.0], rates, 0.3)) == pytest.approx(expected)
    assert probability(log_odds([1.0, None], rates, 0.3)) == pytest.approx(0.27 / (0.27 + 0.14))
    assert probability(log_odds([None, None], rates, 0.3)) == pytest.approx(0.3)


def test_without_labels_it_ends_where_counts_and_votes_agree():
    """Three judges, forty rows: what it ends with is what its own rows count up to."""
    votes = np.tile(np.array([[1.0, 1, 0, 0], [1, 0, 0, 0], [1, 1, 1, 0]]), 10)
    found = fit(votes, np.full(40, math.nan))
    good = found.posterior
    assert found.good == pytest.approx((good.sum() + 1) / 42, abs=1e-8)
    for one, rates in zip(votes, found.rates, strict=True):
        assert rates.passes == pytest.approx(((good * one).sum() + 1) / (good.sum() + 2), abs=1e-8)
        assert rates.catches == pytest.approx((((1 - good) * (1 - one)).sum() + 1) / (42 - good.sum()), abs=1e-8)
    again = [probability(log_odds(row.tolist(), found.rates, found.good)) for row in votes.T]
    assert good == pytest.approx(again, abs=1e-8)
    assert good[0] > 0.9 > 0.1 > good[3]


@pytest.mark.parametrize("labelled", [0, 100])
def test_known_error_rates_are_found_again(labelled):
    rates = (Rates(0.95, 0.7), Rates(0.8, 0.85), Rates(0.7, 0.9), Rates(0.9, 0.6))
    truth = (np.random.default_rng(1).random(4_000) < 0.7).astype(float)
    labels = np.full(len(truth), math.nan)
    labels[:labelled] = truth[:labelled]
    found = fit(_votes(rates, truth, 2), labels)
    assert found.good == pytest.approx(0.7, abs=0.03)
    for one, known in zip(found.rates, rates, strict=True):
        assert one == pytest.approx(known, abs=0.04)
    assert ((found.posterior > 0.5) == truth).mean() > 0.9


def test_a_judge_without_a_vote_takes_no_part():
    truth = np.array([1.0, 0.0] * 20)
    votes = np.array([truth, np.full(40, math.nan)])
    found = fit(votes, truth)
    assert found.rates[1] == (0.5, 0.5)
    assert found.rates[0] == pytest.approx((21 / 22, 21 / 22))
