"""The gate to a model: the concurrency that a provider allows, and when a judge is held to be down."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from leadline.evaluators.judge_client.call_limits import AdaptiveLimiter, Breaker, KnownLimit, LimitFile
from leadline.evaluators.judge_client.calls import JudgeRefused, JudgeUnavailable, MemoryLedger
from leadline.evaluators.judge_client.client import JudgeClient
from leadline.evaluators.judge_client.http_client import close_connections
from leadline.evaluators.judge_client.providers import remote_transport
from leadline.evaluators.settings import JudgeConfig
from tests.support.judges.judge_endpoint import GIBBERISH, JudgeEndpoint, at_random, broken, serving, throttled
from tests.support.judges.scripted_judge import question
from tests.support.judges.virtual_time import now, run, virtual_time

anyio_backend = virtual_time


def make(start: int, most: int) -> AdaptiveLimiter:
    return AdaptiveLimiter(start, most, asyncio.get_running_loop().time)


@dataclass
class Provider:
    """A provider in virtual time.

    Attributes:
        at_once: Calls in flight above which it refuses.
        a_second: Calls a second above which it refuses.
        refuses: Share of the calls that it refuses for reasons of its own.
        retry_after: Seconds that it asks for.
        latency: Seconds that a call takes.
    """

    at_once: int = 10**9
    a_second: float = 1e9
    refuses: float = 0.0
    retry_after: float | None = None
    latency: float = 1.0
    refused: int = 0
    busy: int = 0

    def __post_init__(self) -> None:
        self._draw = random.Random(4)
        self._left, self._seen = self.a_second, 0.0

    def admits(self) -> bool:
        self._left = min(self.a_second, self._left + (now() - self._seen) * self.a_second)
        self._seen = now()
        if self.busy >= self.at_once or self._left < 1 or self._draw.random() < self.refuses:
            self.refused += 1
            return False
        self._left -= 1
        return True

    async def call(self, limiter: AdaptiveLimiter) -> None:
        """Call it until it answers, as the client does."""
        tries = 0
        while True:
            tries += 1
            async with limiter.slot(first=tries > 1) as place:
                if self.admits():
                    self.busy += 1
                    await asyncio.sleep(self.latency * self._draw.uniform(0.8, 1.2))
                    self.busy -= 1
                    place.succeeded()
                    return
                place.refused(self.retry_after)
            await asyncio.sleep((self.retry_after or 0.5) * self._draw.uniform(1, 1.2))


def seconds_for(provider: Provider, calls: int, most: int = 128) -> float:
    """Return how long a provider and a limiter take for some calls."""

    async def main() -> float:
        limiter, began = make(16, most), now()
        await asyncio.gather(*(provider.call(limiter) for _ in range(calls)))
        assert limiter.in_flight == 0
        return now() - began

    return run(main())


@pytest.mark.parametrize("at_once", [1, 3, 10, 40, 500])
def test_the_calls_that_a_provider_takes_at_once_are_found_and_kept(at_once: int) -> None:
    provider, most = Provider(at_once=at_once), min(at_once, 128)
    assert seconds_for(provider, 40 * most) < 1.15 * 40 + 5
    assert provider.refused < 40 + 0.03 * 40 * most


@pytest.mark.parametrize("retry_after", [None, 1.0])
@pytest.mark.parametrize("a_second", [5, 50, 200])
def test_the_calls_that_a_provider_takes_a_second_are_found_and_kept(a_second: int, retry_after: float | None) -> None:
    provider = Provider(a_second=a_second, retry_after=retry_after, latency=0.3)
    assert seconds_for(provider, 20 * a_second) < 1.2 * 20
    assert provider.refused < 50 + 0.04 * 20 * a_second


@pytest.mark.parametrize("refuses", [0.01, 0.05, 0.1])
def test_refusals_for_other_reasons_than_load_hold_up_no_other_call(refuses: float) -> None:
    undisturbed = seconds_for(Provider(latency=0.3), 2_000, most=64)
    provider = Provider(refuses=refuses, retry_after=1.0, latency=0.3)
    assert seconds_for(provider, 2_000, most=64) < undisturbed / 0.75
    assert provider.refused > 2_000 * refuses / 2


def test_a_limit_is_found_among_refusals_for_other_reasons() -> None:
    provider = Provider(at_once=40, refuses=0.05, retry_after=1.0, latency=0.3)
    assert seconds_for(provider, 5_000) < 1.5 * 5_000 / (40 / 0.3)
    assert provider.refused < (0.05 + 0.08) * 5_000


async def test_a_limit_that_comes_after_other_refusals_have_ended_is_found() -> None:
    limiter, provider = make(16, 128), Provider(refuses=0.08, latency=0.3)
    await asyncio.gather(*(provider.call(limiter) for _ in range(2_000)))
    provider.refuses = 0.0
    await asyncio.gather(*(provider.call(limiter) for _ in range(2_000)))
    provider.at_once, provider.refused = 30, 0
    await asyncio.gather(*(provider.call(limiter) for _ in range(3_000)))
    assert provider.refused < 250
    assert limiter.limit < 45


def seconds_with_memory(provider: Provider, calls: int, folder: Path) -> tuple[int, float]:
    """Return where a limiter with a memory starts, and how long it and a provider take for some calls."""

    async def main() -> tuple[int, float]:
        limiter, began = make(16, 128), now()
        limiter.remember_in(LimitFile(folder, ("server", "model")))
        start = limiter.limit
        await asyncio.gather(*(provider.call(limiter) for _ in range(calls)))
        return start, now() - began

    return run(main())


def test_a_later_process_starts_at_the_limit_that_was_found(tmp_path: Path) -> None:
    fresh = seconds_with_memory(Provider(at_once=64, latency=0.3), 2_000, tmp_path)
    provider = Provider(at_once=64, latency=0.3)
    again = seconds_with_memory(provider, 2_000, tmp_path)
    assert fresh[0] == 16
    assert 58 <= again[0] <= 64
    assert again[1] < fresh[1] - 0.3
    assert provider.refused < 0.015 * 2_000


def test_a_limit_that_is_remembered_is_left_when_more_is_taken(tmp_path: Path) -> None:
    seconds_with_memory(Provider(at_once=20, latency=0.3), 1_000, tmp_path)
    seconds_with_memory(Provider(at_once=100, latency=0.3), 3_000, tmp_path)
    start, _ = seconds_with_memory(Provider(latency=0.3), 10, tmp_path)
    assert start > 80


def test_a_limit_that_is_remembered_is_left_when_less_is_taken(tmp_path: Path) -> None:
    seconds_with_memory(Provider(latency=0.3), 1_000, tmp_path)
    provider = Provider(at_once=10, latency=0.3)
    start, seconds = seconds_with_memory(provider, 1_000, tmp_path)
    assert start == 128
    assert seconds < 1.15 * 1_000 * 0.3 / 10 + 5


def test_the_settings_bound_a_limit_that_is_remembered(tmp_path: Path) -> None:
    file = LimitFile(tmp_path, ("server", "model"))
    file.write(KnownLimit(90, found=True))
    limiter = AdaptiveLimiter(16, 32)
    limiter.remember_in(file)
    assert limiter.limit == 32


def test_few_calls_teach_nothing(tmp_path: Path) -> None:
    seconds_with_memory(Provider(), 5, tmp_path)
    assert LimitFile(tmp_path, ("server", "model")).read() is None


async def test_slow_start_doubles_each_round_trip() -> None:
    limiter = make(4, 64)

    async def call() -> None:
        async with limiter.slot() as place:
            await asyncio.sleep(1)
            place.succeeded()

    tasks = [asyncio.ensure_future(call()) for _ in range(200)]
    seen = []
    for _ in range(4):
        await asyncio.sleep(0.5)
        seen.append(limiter.in_flight)
        await asyncio.sleep(0.5)
    assert seen == [4, 8, 16, 32]
    await asyncio.gather(*tasks)


async def all_refused(limiter: AdaptiveLimiter, calls: int, retry_after: float | None = None) -> None:
    """Send calls at once of which all are refused."""
    async with AsyncExitStack() as held:
        for place in [await held.enter_async_context(limiter.slot()) for _ in range(calls)]:
            place.refused(retry_after)


async def test_a_burst_of_refusals_counts_once() -> None:
    limiter = make(30, 64)
    await all_refused(limiter, 30)
    assert 16 <= limiter.limit <= 20


async def test_it_never_falls_below_one() -> None:
    limiter = make(1, 64)
    for _ in range(50):
        await all_refused(limiter, 1)
        await asyncio.sleep(3)
    async with limiter.slot():
        assert limiter.in_flight == 1


async def test_retry_after_of_most_calls_holds_everybody_and_then_lets_them_go() -> None:
    limiter = make(8, 8)
    await all_refused(limiter, 8, 30)
    began = now()

    async def call() -> float:
        async with limiter.slot():
            return now() - began

    waited = await asyncio.gather(*(call() for _ in range(10)))
    assert min(waited) >= 30
    assert max(waited) < 31


async def test_a_shorter_pause_does_not_shorten_a_longer_one() -> None:
    limiter = make(8, 8)
    await all_refused(limiter, 8, 30)
    began = now()
    limiter._give_way(1)
    async with limiter.slot():
        assert now() - began >= 30


async def test_a_quota_that_is_spent_is_not_asked_again_and_again() -> None:
    limiter, provider = make(64, 64), Provider(latency=0.3, retry_after=20)
    await asyncio.gather(*(provider.call(limiter) for _ in range(1_000)))
    provider.refuses = 1.0
    calls = [asyncio.ensure_future(provider.call(limiter)) for _ in range(1_000)]
    await asyncio.sleep(19)
    assert provider.refused <= 64
    provider.refuses = 0.0
    await asyncio.gather(*calls)


async def test_retry_after_of_one_call_among_many_holds_nobody_else() -> None:
    limiter = make(8, 8)
    async with AsyncExitStack() as held:
        places = [await held.enter_async_context(limiter.slot()) for _ in range(8)]
        places[0].refused(30)
    async with asyncio.timeout(0.1), limiter.slot():
        assert limiter.limit == 8


async def test_a_waiter_that_is_cancelled_leaves_no_hole() -> None:
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


async def test_a_call_that_waited_before_goes_first() -> None:
    limiter = make(1, 1)
    order: list[str] = []

    async def call(name: str, first: bool) -> None:
        async with limiter.slot(first=first):
            order.append(name)
            await asyncio.sleep(1)

    await asyncio.gather(call("holds", False), call("new", False), call("again", True))
    assert order == ["holds", "again", "new"]


async def asked_over_http(endpoint: JudgeEndpoint, calls: int) -> JudgeClient:
    """Ask a real endpoint, and return the client that did."""
    config = JudgeConfig(model="openai/judge", api_base=endpoint.url, max_in_flight=64)
    client = JudgeClient(config, transport=remote_transport(config), ledger=MemoryLedger())
    replies = await asyncio.gather(*(client.ask(question(str(n))) for n in range(calls)))
    assert {reply.text for reply in replies} == {"yes"}
    await close_connections()
    return client


@pytest.mark.slow
def test_over_http_faults_at_random_leave_the_limit_as_high_as_it_may_be() -> None:
    faults = at_random([(0.05, throttled(0.5)), (0.03, broken(500)), (0.03, GIBBERISH)])
    with serving(JudgeEndpoint(fault=faults, latency=0.1)) as endpoint:
        client = asyncio.run(asked_over_http(endpoint, 1_000))
    assert client.limiter.limit >= 50
    assert endpoint.most_in_flight >= 50
    assert client.limiter.refusals == sum(line.fault is not None and line.fault.status == 429 for line in endpoint.log)


@pytest.mark.slow
def test_over_http_the_calls_that_a_server_takes_at_once_are_found() -> None:
    with serving(JudgeEndpoint(latency=0.1, allowed=20)) as endpoint:
        client = asyncio.run(asked_over_http(endpoint, 1_000))
    assert 10 <= client.limiter.limit <= 30
    assert client.limiter.refusals < 100


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


async def test_a_try_that_is_given_up_leaves_it_to_the_next() -> None:
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
