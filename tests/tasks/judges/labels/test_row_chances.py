"""The chance with which rows of a run came into samples, of this run and of others."""

import numpy as np
import pytest

from leadline.tasks.judges.labels.judged_rows import JudgedMetric, JudgedRows
from leadline.tasks.judges.labels.label_sets import LabelSample, RowChance, SampledRow, holding_all, row_chances

METRIC = JudgedMetric("toy", "value", 0.5, True, 0, 1, False, 0, "Value", "", "c")


def _judged(changed: int = 0, model: str = "bot") -> JudgedRows:
    """Return a hundred rows, of which the first few have other answers than the samples knew."""
    keys = [f"new-{n}" if n < changed else f"key-{n}" for n in range(100)]
    cases = [f"case-{n}" for n in range(100)]
    return JudgedRows(METRIC, np.arange(100), keys, cases, [model] * 100, np.arange(100), np.ones(100))


def _sample(rows: range, *, seed: int = 1, chance: float | None = None) -> LabelSample:
    drawn = tuple(
        SampledRow(f"key-{n}", f"case-{n}", "bot", "bot: passed", len(rows) / 100 if chance is None else chance)
        for n in rows
    )
    return LabelSample(f"{seed}-{len(rows)}", "run", "toy.value", "uniform", seed, "c", 100, drawn)


def test_a_larger_sample_of_the_same_order_gives_its_chance_to_the_rows_of_the_smaller() -> None:
    found = row_chances(_judged(), [_sample(range(20)), _sample(range(40))])
    assert len(found) == 40
    assert [drawn.chance for drawn in found.values()] == pytest.approx([0.4] * 40)


def test_rows_of_two_orders_may_have_come_by_either() -> None:
    found = row_chances(_judged(), [_sample(range(50)), _sample(range(50, 100), seed=2)])
    assert [drawn.chance for drawn in found.values()] == pytest.approx([0.75] * 100)


@pytest.mark.parametrize(("changed", "stands"), [(0, True), (2, True), (10, False), (40, False)])
def test_a_sample_does_not_stand_for_a_run_in_which_answers_that_were_drawn_have_changed(
    changed: int, stands: bool
) -> None:
    assert bool(row_chances(_judged(changed), [_sample(range(40))])) is stands


def test_a_sample_of_another_model_says_nothing_of_this_one() -> None:
    assert ("key-1", "other") not in row_chances(_judged(model="other"), [_sample(range(40))])


def test_two_rows_of_one_order_come_together_and_those_of_two_orders_by_chance() -> None:
    one = row_chances(_judged(), [_sample(range(20))])["key-1", "bot"]
    same = row_chances(_judged(), [_sample(range(50))])["key-1", "bot"]
    other = row_chances(_judged(), [_sample(range(50), seed=2)])["key-1", "bot"]
    assert one.with_other(same) == pytest.approx(0.2)
    assert one.with_other(other) == pytest.approx(0.1)


def test_orders_that_overlap_are_not_one_order() -> None:
    one, both = RowChance(0.2, frozenset({"1"})), RowChance(0.5, frozenset({"1", "2"}))
    assert one.with_other(both) == both.with_other(one) == pytest.approx(0.1)
    assert both.with_other(RowChance(0.3, frozenset({"2", "1"}))) == pytest.approx(0.3)


def test_the_smallest_sample_that_holds_all_rows_is_theirs() -> None:
    small, large = _sample(range(20)), _sample(range(40))
    assert holding_all([large, small], {("key-1", "bot")}) is small
    assert holding_all([large, small], {("key-30", "bot")}) is large
    assert holding_all([large, small], {("key-60", "bot")}) is None
