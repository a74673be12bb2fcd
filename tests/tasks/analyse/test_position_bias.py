"""Judges whose verdicts depend on the order of two answers."""

from __future__ import annotations

from leadline.evaluators.data import Order
from leadline.tasks.analyse.pair_records import JudgedPair, position_bias


def pairs(*orders: Order, case: int | None = None) -> list[JudgedPair]:
    return [
        JudgedPair("a", "b", number if case is None else case, won=0.0, lost=0.0, orders={order: 1.0})
        for number, order in enumerate(orders)
    ]


AGREED, FIRST, SECOND, MIXED = Order.AGREED, Order.FIRST, Order.SECOND, Order.MIXED


def test_a_place_that_decides_far_more_often_than_the_other_is_a_bias() -> None:
    found = position_bias(pairs(*[FIRST] * 33, *[SECOND] * 2, *[MIXED] * 3, *[AGREED] * 62))
    assert (found.asked, found.first, found.second, found.mixed) == (100, 33, 2, 3)
    assert found.preferred == "first"
    assert found.bias.value == 0.31
    assert found.inconsistent.value == 0.38
    turned = position_bias(pairs(*[SECOND] * 33, *[FIRST] * 2, *[AGREED] * 65))
    assert turned.preferred == "second"


def test_contradictions_without_a_direction_are_no_bias() -> None:
    found = position_bias(pairs(*[FIRST] * 25, *[SECOND] * 24, *[AGREED] * 51))
    assert found.preferred == ""
    assert found.contradicts


def test_few_pairs_and_few_contradictions_are_neither() -> None:
    few = position_bias(pairs(FIRST, FIRST, AGREED, AGREED))
    assert few.preferred == ""
    assert not few.contradicts
    many = position_bias(pairs(*[FIRST] * 7, *[SECOND] * 3, *[AGREED] * 190))
    assert many.preferred == ""
    assert not many.contradicts


def test_pairs_of_one_case_and_pairs_that_were_not_asked_tell_nothing() -> None:
    assert position_bias(pairs(*[FIRST] * 50, case=1)) is None
    assert position_bias(pairs(*[Order.UNASKED] * 50)) is None
