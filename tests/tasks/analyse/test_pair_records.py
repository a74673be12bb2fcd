"""Judges whose verdicts depend on the order of two answers."""

from __future__ import annotations

import pytest

from leadline.evaluators.data import Order, PairOutcome, outcome
from leadline.tasks.analyse.pair_records import (
    JudgedPair,
    merged,
    model_strengths,
    order_note,
    pair_tables,
    position_bias,
)


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


UNASKED = PairOutcome("b", 0.5, Order.UNASKED)
WON = outcome("b", "first", "second")
LOST = outcome("a", "second", "first")


def test_a_pair_that_the_rows_of_both_models_tell_of_counts_once() -> None:
    (pair,) = merged([("a", 1, -2, [WON], 1.0), ("b", 1, -2, [LOST], 1.0)])
    assert (pair.one, pair.other, pair.won, pair.lost, pair.score, pair.asked) == ("a", "b", 1.0, 0.0, 1.0, 1.0)
    (one_sided,) = merged([("b", 1, -2, [LOST], 1.0)])
    assert one_sided == pair


def test_trials_count_in_shares() -> None:
    biased = outcome("b", "first", "first")
    (pair,) = merged([("a", 1, -2, [WON], 0.5), ("a", 1, -2, [biased], 0.5)])
    assert (pair.won, pair.lost, pair.score, pair.inconsistent) == (0.5, 0.0, 0.75, 0.5)


def test_tables_hold_each_model_against_each_and_all() -> None:
    rows = [
        ("a", 1, -2, [WON, outcome("c", "first", "first")], 1.0),
        ("a", 2, -3, [UNASKED, outcome("c", "second", "first")], 1.0),
        ("b", 3, -4, [outcome("c", "tie", "tie")], 1.0),
    ]
    tables = pair_tables(merged(rows))
    assert set(tables) == {"a", "b", "c"}
    whole, against_b, against_c = tables["a"]["labels"]
    assert [line["value"] for line in (whole, against_b, against_c)] == ["", "b", "c"]
    assert whole["values"] == {
        "compared": 4, "won": 1, "lost": 1, "tied": 1, "inconsistent": 1, "win rate": 0.5,
    }  # fmt: skip
    assert against_b["values"] == {
        "compared": 2, "won": 1, "lost": 0, "tied": 1, "inconsistent": 0, "win rate": 0.75,
    }  # fmt: skip
    assert "4 pairs" in tables["a"]["notes"][0]
    assert "in 1 it preferred whichever came first" in order_note(merged(rows))


def test_strengths_are_by_key_and_none_where_models_never_met() -> None:
    rows = [("a", case, -1 - case, [WON], 1.0) for case in range(9)]
    found = model_strengths(merged(rows))
    assert found["a"].value == pytest.approx(1 - found["b"].value)
    assert found["a"].value > 0.7
    apart = [*rows, ("c", 1, -2, [outcome("d", "first", "second")], 1.0)]
    assert model_strengths(merged(apart)) == {}
    assert model_strengths([]) == {}
