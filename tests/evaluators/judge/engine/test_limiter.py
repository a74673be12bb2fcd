"""The limiter: it finds the concurrency that a provider allows, and lets everybody through in turn."""

from __future__ import annotations

import asyncio

import pytest

from leadline.evaluators.judge.engine.limiter import AdaptiveLimiter
from tests.support.judges.virtual_time import now, run


def make(start: int, most: int) -> AdaptiveLimiter:
    return AdaptiveLimiter(start, most, asyncio.get_running_loop().time)


async def work(limiter: AdaptiveLimiter, capacity: int, calls: int) -> tuple[int, float]:
    """Make calls of one second to a provider that refuses what exceeds its capacity; returns refusals and time."""
    busy = refused = 0
    began = now()

    async def call() -> None:
        nonlocal busy, refused
        again = False
        while True:
            async with limiter.slot(first=again):
                if busy >= capacity:
                    refused += 1
                    limiter.was_throttled(None)
                else:
                    busy += 1
                    await asyncio.sleep(1)
                    busy -= 1
                    limiter.succeeded()
                    return
            again = True
            await asyncio.sleep(0.5)

    await asyncio.gather(*(call() for _ in range(calls)))
    return refused, now() - began


@pytest.mark.parametrize("capacity", [1, 3, 10, 40, 500])
def test_it_finds_the_capacity_of_a_provider(capacity: int) -> None:
    async def main() -> None:
        limiter = make(16, 256)
        calls = 40 * min(capacity, 256)
        refused, seconds = await work(limiter, capacity, calls)
        assert refused < 0.1 * calls + 70
        assert seconds < 1.3 * calls / min(capacity, 256) + 10
        assert limiter.in_flight == 0

    run(main())


def test_slow_start_doubles_each_round_trip() -> None:
    async def main() -> None:
        limiter = make(4, 64)

        async def call() -> None:
            async with limiter.slot():
                await asyncio.sleep(1)
                limiter.succeeded()

        tasks = [asyncio.ensure_future(call()) for _ in range(200)]
        seen = []
        for _ in range(4):
            await asyncio.sleep(0.5)
            seen.append(limiter.in_flight)
            await asyncio.sleep(0.5)
        assert seen == [4, 8, 16, 32]
        await asyncio.gather(*tasks)

    run(main())


def test_a_burst_of_refusals_counts_once() -> None:
    async def main() -> None:
        limiter = make(30, 64)
        for _ in range(30):
            limiter.was_throttled(None)
        assert limiter.limit == 20

    run(main())


def test_it_never_falls_below_one() -> None:
    async def main() -> None:
        limiter = make(1, 64)
        for _ in range(50):
            limiter.was_throttled(None)
            await asyncio.sleep(3)
        async with limiter.slot():
            assert limiter.in_flight == 1

    run(main())


def test_retry_after_holds_everybody_and_then_lets_them_go() -> None:
    async def main() -> None:
        limiter = make(4, 4)
        limiter.was_throttled(30)
        began = now()

        async def call() -> float:
            async with limiter.slot():
                return now() - began

        waited = await asyncio.gather(*(call() for _ in range(10)))
        assert min(waited) >= 30
        assert max(waited) < 31

    run(main())


def test_a_waiter_that_is_cancelled_leaves_no_hole() -> None:
    async def main() -> None:
        limiter = make(1, 1)
        order: list[int] = []

        async def call(number: int) -> None:
            async with limiter.slot():
                order.append(number)
                await asyncio.sleep(1)

        tasks = [asyncio.ensure_future(call(n)) for n in range(5)]
        await asyncio.sleep(0.1)
        tasks[1].cancel()
        tasks[2].cancel()
        await asyncio.sleep(0.9)
        tasks[3].cancel()  # just admitted, or just about to be
        await asyncio.gather(*tasks, return_exceptions=True)
        assert order[0] == 0
        assert order[-1] == 4
        assert limiter.in_flight == 0

    run(main())


def test_a_call_that_waited_before_goes_first() -> None:
    async def main() -> None:
        limiter = make(1, 1)
        order: list[str] = []

        async def call(name: str, first: bool) -> None:
            async with limiter.slot(first=first):
                order.append(name)
                await asyncio.sleep(1)

        await asyncio.gather(call("holds", False), call("new", False), call("again", True))
        assert order == ["holds", "again", "new"]

    run(main())
