"""Comparisons of several models: each counted once, tables of each against each, strengths."""

from __future__ import annotations

import pytest

from leadline.evaluators.data import Order, PairOutcome, outcome
from leadline.tasks.analyse.pair_records import merged, model_strengths, order_note, pair_tables

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
