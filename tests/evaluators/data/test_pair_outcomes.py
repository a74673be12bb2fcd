"""Outcomes of pairs of answers that a judge saw in both orders."""

from __future__ import annotations

import pytest

from leadline.evaluators.data import (
    LOSS,
    TIE,
    WIN,
    Order,
    PairOutcome,
    Preferred,
    from_payload,
    of_majority,
    outcome,
    to_payload,
)


@pytest.mark.parametrize(
    ("as_first", "as_second", "score", "order"),
    [
        ("first", "second", 1.0, Order.AGREED),
        ("second", "first", 0.0, Order.AGREED),
        ("tie", "tie", 0.5, Order.AGREED),
        ("first", "first", 0.5, Order.FIRST),
        ("second", "second", 0.5, Order.SECOND),
        ("tie", "first", 0.5, Order.MIXED),
        ("second", "tie", 0.5, Order.MIXED),
    ],
)
def test_only_a_preference_in_both_orders_wins_or_loses(
    as_first: Preferred, as_second: Preferred, score: float, order: Order
) -> None:
    found = outcome("b", as_first, as_second)
    assert (found.score, found.order) == (score, order)
    assert found.consistent is (order is Order.AGREED)
    turned = outcome("a", as_second, as_first)  # the rival's row asks the same two questions the other way round
    assert (turned.score, turned.order) == (1 - score, order)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ((WIN, WIN, LOSS), WIN),
        ((WIN, TIE, TIE), TIE),
        ((WIN, TIE, LOSS), TIE),
        ((WIN, LOSS), TIE),
        ((LOSS, LOSS, TIE, LOSS), LOSS),
    ],
)
def test_of_several_judges_more_than_half_decide_a_pair_alike_from_both_sides(
    scores: tuple[float, ...], expected: float
) -> None:
    found = of_majority([PairOutcome("b", score, Order.MIXED if score == TIE else Order.AGREED) for score in scores])
    turned = of_majority(
        [PairOutcome("a", 1 - score, Order.MIXED if score == TIE else Order.AGREED) for score in scores]
    )
    assert (found.rival, found.score) == ("b", expected)
    assert (turned.score, turned.order) == (1 - expected, found.order)


def test_a_payload_holds_all_of_an_outcome() -> None:
    outcomes = (outcome("b", "first", "tie"), PairOutcome("c", 0.5, Order.UNASKED), outcome("d", "first", "second"))
    assert from_payload(to_payload(outcomes)) == outcomes
    assert [each.asked for each in outcomes] == [True, False, True]
