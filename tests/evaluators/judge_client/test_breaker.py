"""The breaker: when a judge is held to be down, and how it is found again."""

from __future__ import annotations

import asyncio

import pytest

from leadline.evaluators.judge_client.breaker import Breaker
from leadline.evaluators.judge_client.failures import JudgeRefused, JudgeUnavailable
from tests.support.judges.virtual_time import run


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def failing(breaker: Breaker, clock: Clock, times: int, every: float) -> None:
    for _ in range(times):
        breaker.failed("boom")
        clock.now += every


def test_failures_within_a_short_time_prove_nothing() -> None:
    clock = Clock()
    breaker = Breaker(20, clock=clock)
    breaker.succeeded()
    failing(breaker, clock, 1_000, 0.01)
    breaker.check()


def test_few_failures_prove_nothing_however_long_they_take() -> None:
    clock = Clock()
    breaker = Breaker(20, clock=clock)
    failing(breaker, clock, 4, 100)
    breaker.check()


def test_a_success_in_between_starts_the_count_afresh() -> None:
    clock = Clock()
    breaker = Breaker(20, clock=clock)
    for _ in range(10):
        failing(breaker, clock, 4, 10)
        breaker.succeeded()
    breaker.check()


def test_a_judge_that_never_answered_is_given_less_time() -> None:
    clock = Clock()
    breaker = Breaker(20, clock=clock)
    failing(breaker, clock, 8, 1)
    with pytest.raises(JudgeUnavailable, match="boom"):
        breaker.check()


def test_while_open_one_call_tries_and_the_others_wait_for_what_it_finds() -> None:
    async def main(found: bool) -> tuple[list[int], list[object]]:
        clock = asyncio.get_running_loop().time
        breaker = Breaker(20, clock=clock)
        for _ in range(10):
            breaker.failed("boom")
            await asyncio.sleep(3)
        with pytest.raises(JudgeUnavailable):
            async with breaker.attempt():
                raise AssertionError("it is not yet time")
        await asyncio.sleep(20)
        tried: list[int] = []

        async def call(number: int) -> None:
            async with breaker.attempt():
                tried.append(number)
                await asyncio.sleep(1)
                breaker.succeeded() if found else breaker.failed("still down")

        return tried, await asyncio.gather(*(call(n) for n in range(5)), return_exceptions=True)

    tried, results = run(main(found=True))
    assert (tried, results) == ([0, 1, 2, 3, 4], [None] * 5)
    tried, results = run(main(found=False))
    assert tried == [0]
    assert results[0] is None
    assert all(isinstance(result, JudgeUnavailable) and "still down" in str(result) for result in results[1:])


def test_a_try_that_is_given_up_leaves_it_to_the_next() -> None:
    async def main() -> None:
        breaker = Breaker(20, clock=asyncio.get_running_loop().time)
        breaker.refused("no")
        await asyncio.sleep(20)

        async def call() -> None:
            async with breaker.attempt():
                await asyncio.sleep(5)
                breaker.succeeded()

        first, second = (asyncio.ensure_future(call()) for _ in range(2))
        await asyncio.sleep(1)
        first.cancel()
        await second

    run(main())


def test_a_wrong_key_opens_it_at_once_and_says_so() -> None:
    breaker = Breaker(20, clock=Clock())
    breaker.succeeded()
    breaker.refused("AuthenticationError: no such key")
    with pytest.raises(JudgeRefused, match="no such key"):
        breaker.check()


def test_being_told_to_slow_down_is_a_sign_of_life_for_minutes() -> None:
    clock = Clock()
    breaker = Breaker(20, 300, clock=clock)
    for _ in range(299):
        breaker.throttled("429")
        clock.now += 1
    breaker.check()
    clock.now += 2
    breaker.throttled("429")
    with pytest.raises(JudgeUnavailable):
        breaker.check()


@pytest.mark.parametrize(
    ("answered", "said"),
    [
        (False, "The judge does not answer: no route. Is its server up"),
        (True, "The judge is up and gives no answers: no r"),
    ],
)
def test_a_server_that_says_something_is_not_said_to_be_down(answered: bool, said: str) -> None:
    clock = Clock()
    breaker = Breaker(20, clock=clock)
    for _ in range(5):
        breaker.failed("no route", answered=answered)
        clock.now += 5
    with pytest.raises(JudgeUnavailable) as error:
        breaker.check()
    assert str(error.value).startswith(said)
