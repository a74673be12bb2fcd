"""How long users' regular expressions may take, over a whole run."""

from __future__ import annotations

from contextlib import suppress

import pytest

from leadline.evaluators.text import time_budget as module
from leadline.evaluators.text.time_budget import STRIKES, RegexTimeBudget


class Clock:
    """Time that passes only when somebody waits."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(module, "time", made)
    return made


def hang(budget: RegexTimeBudget, clock: Clock, condition: str) -> float:
    """Let a condition take all the time that it has, and return how much that was."""
    before = clock.now
    with suppress(TimeoutError), budget.waiting(condition) as seconds:
        clock.now += seconds
        raise TimeoutError
    return clock.now - before


def test_a_condition_that_took_too_long_on_three_texts_is_not_tried_again(clock: Clock) -> None:
    budget = RegexTimeBudget()
    for _ in range(STRIKES):
        assert hang(budget, clock, "slow") == pytest.approx(2.0)
    with pytest.raises(TimeoutError, match="on 3 other texts and was not tried again"), budget.waiting("slow"):
        pytest.fail("the condition was tried again")


def test_conditions_that_took_too_long_are_hurried_and_others_keep_their_time(clock: Clock) -> None:
    budget = RegexTimeBudget()
    for number in range(10):
        hang(budget, clock, f"slow {number}")
    assert budget.lost == 20.0
    assert hang(budget, clock, "slow 0") == pytest.approx(0.05)
    with budget.waiting("never slow") as seconds:
        assert seconds == 2.0


def test_many_different_conditions_that_hang_take_hours_at_the_most(clock: Clock) -> None:
    budget = RegexTimeBudget()
    for number in range(100_000):
        for _ in range(3):
            hang(budget, clock, f"slow {number}")
    assert clock.now < 2 * 3600
    with pytest.raises(TimeoutError, match="too long on another text and was not"), budget.waiting("slow 99999"):
        pytest.fail("the condition was tried again")


def test_time_that_a_condition_took_without_running_out_is_not_lost(clock: Clock) -> None:
    budget = RegexTimeBudget()
    with budget.waiting("fine"):
        clock.now += 1.9
    assert budget.lost == 0.0
