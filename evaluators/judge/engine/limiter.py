"""A limiter of the calls in flight to one model: the limit is learned, not configured.

Slow start: the limit grows by one for each success, which doubles it every round trip, until the provider says 429, is
overloaded or falls silent. Then additive increase (one more per full round of successes) and multiplicative decrease
(such a call takes a third off, once per cool-down). ``Retry-After`` pauses everybody. The policy is that of TCP
congestion control.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

DECREASE: Final = 0.67
"""What a throttled call leaves of the limit."""

COOL_DOWN_S: Final = 2.0
"""Calls that were sent before the limit fell say nothing about the new limit: ignore them this long."""

REST_S: Final = 1.0
"""How long a place stays empty after a throttled call: a provider that refuses at once would else be asked by every
waiting call in turn."""

SATURATED: Final = 0.8
"""Successes count only while this share of the limit is used; an idle limit proves nothing."""


class AdaptiveLimiter:
    """Admits calls to one model; belongs to one event loop.

    Args:
        start: Calls in flight at first.
        most: Calls in flight at most.
        clock: Monotonic seconds.
    """

    def __init__(self, start: int, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = float(min(start, most))
        self._most = most
        self._clock = clock
        self._slow_start = True
        self._calm_after = 0.0
        self._paused_until = 0.0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._resting = 0
        self.in_flight = 0
        self.throttled = 0

    @property
    def limit(self) -> int:
        """Calls that may be in flight now."""
        return max(1, int(self._limit))

    @asynccontextmanager
    async def slot(self, *, first: bool = False) -> AsyncIterator[None]:
        """Hold one place while a call is in flight; waiting and pausing callers hold none.

        Args:
            first: Go before all that wait, as a call does that has waited for its turn before.
        """
        await self._acquire(first)
        try:
            yield
        finally:
            self.in_flight -= 1
            self._admit()

    def succeeded(self) -> None:
        """Learn from a call that the provider answered."""
        if self.in_flight < SATURATED * self.limit or self._clock() < self._calm_after:
            return
        self._limit = min(self._most, self._limit + (1.0 if self._slow_start else 1.0 / self._limit))
        self._admit()

    def was_throttled(self, retry_after: float | None) -> None:
        """Learn from a 429, an overloaded server or silence; ``retry_after`` are the seconds it asked everybody for."""
        self.throttled += 1
        self._resting += 1
        asyncio.get_running_loop().call_later(REST_S, self._rested)
        now = self._clock()
        if retry_after:
            self._paused_until = max(self._paused_until, now + retry_after)
        if now >= self._calm_after:
            self._slow_start = False
            self._limit = max(1.0, self._limit * DECREASE)
            self._calm_after = max(now + COOL_DOWN_S, self._paused_until)

    async def _acquire(self, first: bool) -> None:
        if not self._waiting and self._open():
            self.in_flight += 1
            return
        place = asyncio.get_running_loop().create_future()
        (self._waiting.appendleft if first else self._waiting.append)(place)
        self._admit()
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.in_flight -= 1
                self._admit()
            raise

    def _open(self) -> bool:
        return self.in_flight + self._resting < self.limit and self._clock() >= self._paused_until

    def _admit(self) -> None:
        while self._waiting and self._open():
            place = self._waiting.popleft()
            if not place.done():
                self.in_flight += 1
                place.set_result(None)
        pause = self._paused_until - self._clock()
        if self._waiting and pause > 0 and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(pause, self._resume)

    def _rested(self) -> None:
        self._resting -= 1
        self._admit()

    def _resume(self) -> None:
        self._timer = None
        self._admit()
