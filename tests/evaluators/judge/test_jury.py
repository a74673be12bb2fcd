"""A jury on one row: sides, numbers, ties, and judges that say nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest

from leadline.evaluators.core import Metric, boolean_metrics
from leadline.evaluators.data import Evidence, NotApplicable, Reason, RowScore, Unscored
from leadline.evaluators.judge.jury import Panel, Rates, choose_side, fit, log_odds, probability
from leadline.evaluators.settings import JudgeConfig, JuryConfig

PASS, FAIL = {"passes": 1.0, "failures": 0.0, "points": 4.0}, {"passes": 0.0, "failures": 1.0, "points": 1.0}
DOWN = dict.fromkeys(PASS, Unscored(Reason.JUDGE_UNAVAILABLE, "no route"))
UNREAD = {"passes": Unscored(Reason.JUDGE_UNPARSEABLE, "what?"), "failures": 1.0, "points": 0.0}

SIDES = (
    Metric("passes", "Passes", higher_is_better=True, primary=True, share=True),
    Metric("failures", "Failures", higher_is_better=False, share=True),
    Metric("points", "Points", higher_is_better=True, range=(0, 5)),
)
LEARNED = {
    "toy.passes": {
        "good": 0.7,
        "judges": {
            "a": {"passes": 0.9, "catches": 0.6},
            "b": {"passes": 0.9, "catches": 0.6},
            "c": {"passes": 0.8, "catches": 0.99},
        },
    }
}


def _jury(number=3, **fields):
    members = tuple(JudgeConfig(key=name, model=f"m/{name}") for name in "abcd"[:number])
    return JuryConfig(key="panel", model="panel", members=members, **fields)


def _panel(metrics=SIDES, number=3, **fields):
    jury = _jury(number, **fields)
    return Panel(jury, metrics, metrics[0], jury.weights_for("toy"))


def _scores(*values):
    return [
        RowScore(each, Evidence(f"said {number}", data={"calls": [f"call-{number}"], "verdict": number}))
        for number, each in enumerate(values)
    ]


def test_the_majority_decides_and_other_metrics_are_those_of_its_side():
    found = _panel().combine(_scores(FAIL, PASS, PASS | {"points": 5.0}))
    assert found.values == {"passes": 1.0, "failures": 0.0, "points": 4.5}
    assert found.evidence.message == "said 1"
    data = found.evidence.data
    assert data["calls"] == ["call-0", "call-1", "call-2"]
    assert data["jury"] == {
        "a": {"calls": ["call-0"], "value": 0.0},
        "b": {"calls": ["call-1"], "value": 1.0},
        "c": {"calls": ["call-2"], "value": 1.0},
    }
    assert data["disagreement"] == pytest.approx(1 / 3)


def test_pass_and_fail_stay_consistent_in_all_metrics_of_a_pass_fail_evaluator():
    names = ("passes", "failures", "retrieval_failures", "generation_failures", "parse_failures")
    metrics = boolean_metrics(*((name, name) for name in names), what="anything")
    by_context = dict(zip(names, (0.0, 1.0, 1.0, 0.0, 0.0), strict=True))
    by_answer = dict(zip(names, (0.0, 1.0, 0.0, 1.0, 0.0), strict=True))
    good = dict(zip(names, (1.0, 0.0, 0.0, 0.0, 0.0), strict=True))
    found = _panel(metrics).combine(_scores(by_context, by_answer, good)).values
    assert (found["passes"], found["failures"], found["parse_failures"]) == (0.0, 1.0, 0.0)
    assert _panel(metrics).combine(_scores(by_context, by_context, good)).values == by_context


def test_numbers_are_their_median_or_their_mean():
    points = (Metric("points", "Points", higher_is_better=True, primary=True, range=(0, 5)),)
    scores = _scores({"points": 1.0}, {"points": 5.0}, {"points": 4.5})
    by_median = _panel(points).combine(scores)
    assert by_median.values == {"points": 4.5}
    assert by_median.evidence.message == "said 2"
    assert by_median.evidence.data["disagreement"] == 4.0
    assert _panel(points, combine="mean").combine(scores).values == {"points": 3.5}
    weights = {"toy.points": {"judges": {"a": 0.2, "b": 0.2, "c": 0.6}}}
    weighted = _panel(points, combine="dawid-skene", weights=weights).combine(scores)
    assert weighted.values == {"points": pytest.approx(0.2 * 1 + 0.2 * 5 + 0.6 * 4.5)}


def test_learned_weights_let_one_good_judge_outvote_two():
    assert _panel().combine(_scores(PASS, PASS, FAIL)).values["passes"] == 1.0
    found = _panel(combine="dawid-skene", weights=LEARNED).combine(_scores(PASS, PASS, FAIL))
    # good: 0.7 * 0.9 * 0.9 * 0.2, bad: 0.3 * 0.4 * 0.4 * 0.99
    assert found.evidence.data["chance_good"] == pytest.approx(0.1134 / (0.1134 + 0.04752))
    assert found.values["passes"] == 1.0
    judges = LEARNED["toy.passes"]["judges"] | {"c": {"passes": 0.97, "catches": 0.99}}
    surer = {"toy.passes": {"good": 0.7, "judges": judges}}
    assert _panel(combine="dawid-skene", weights=surer).combine(_scores(PASS, PASS, FAIL)).values == FAIL


def test_a_side_that_no_judge_took_is_not_taken():
    weights = _jury(combine="dawid-skene", weights=LEARNED).weights_for("toy")
    side = choose_side([False, None, None], "abc", weights)
    assert side.passes is False
    assert side.good is not None


def test_judges_that_say_nothing_are_left_out_while_more_than_half_gave_a_verdict():
    found = _panel().combine(_scores(PASS, DOWN, PASS))
    assert found.values == PASS
    assert found.evidence.data["jury"]["b"]["problem"] == "judge_unavailable: no route"
    alone = _panel().combine(_scores(PASS, DOWN, UNREAD))
    assert alone.values["passes"] == Unscored(Reason.JUDGE_UNAVAILABLE, "1 of 3 judges gave a verdict. b: no route")
    assert not alone.complete
    assert alone.evidence.data["calls"] == ["call-0", "call-1", "call-2"]


def test_a_tie_is_no_verdict_and_is_settled_once_the_missing_judge_can_be_asked():
    even = _panel(number=2).combine(_scores(PASS, FAIL))
    assert even.complete
    assert {value.reason for value in even.values.values()} == {Reason.UNSCORABLE}
    assert even.values["passes"].message == "The judges are tied, 1 of 2 pass the row."
    odd = _panel().combine(_scores(PASS, FAIL, DOWN))
    assert not odd.complete
    assert odd.values["passes"].reason is Reason.JUDGE_UNAVAILABLE


def test_a_row_that_most_judges_find_beside_the_point_is_not_applicable():
    beside = dict.fromkeys(PASS, NotApplicable("no claim"))
    assert _panel().combine(_scores(beside, beside, PASS)).values == beside


def test_the_order_of_judges_is_no_part_of_the_identity_and_weights_are():
    jury = _jury()
    turned = jury.model_copy(update={"members": jury.members[::-1]})
    assert turned.identity() == jury.identity()
    assert _jury(combine="mean").identity() != jury.identity()
    learned = _jury(combine="dawid-skene", weights=LEARNED)
    other = {"toy.passes": LEARNED["toy.passes"] | {"good": 0.71}}
    assert learned.identity() != _jury(combine="dawid-skene", weights=other).identity()
    assert _jury(2).identity() != jury.identity()


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
