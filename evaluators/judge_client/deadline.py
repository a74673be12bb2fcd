"""A deadline that counts what others take, and not the time in which this process's own event loop stood still.

A loop stands still while another thread holds the interpreter, while the machine is busy, or while a debugger holds it.
A reply that lies in the socket meanwhile is no silence of the one who sent it.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Final
from weakref import WeakKeyDictionary

TICK_S: Final = 0.05
"""Seconds between two looks at the loop's clock; of a longer time between them, only twice as much counts."""


class _LoopTime:
    """Seconds in which a loop was turning; it is looked at only while there are deadlines."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._counted = 0.0
        self._seen = 0.0
        self._deadlines = 0
        self._ticking = False

    def enter(self) -> None:
        self._deadlines += 1
        if self._deadlines == 1:
            self._seen = self._loop.time()
            if not self._ticking:
                self._ticking = True
                self._loop.call_later(TICK_S, self._tick)

    def leave(self) -> None:
        self._deadlines -= 1

    def now(self) -> float:
        return self._counted + min(self._loop.time() - self._seen, 2 * TICK_S)

    def _tick(self) -> None:
        self._counted, self._seen = self.now(), self._loop.time()
        self._ticking = self._deadlines > 0
        if self._ticking:
            self._loop.call_later(TICK_S, self._tick)


_times: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopTime]] = WeakKeyDictionary()


class Deadline:
    """Cancels the block that it is held for when its time is over, as :func:`asyncio.timeout` does.

    Args:
        seconds: What the block may take.

    Raises:
        TimeoutError: It took longer.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._expired = False

    async def __aenter__(self) -> None:
        loop = self._loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - coroutines run in tasks
        self._task, self._cancelling = task, task.cancelling()
        self._time = _times.get(loop) or _times.setdefault(loop, _LoopTime(loop))
        self._time.enter()
        self._end = self._time.now() + self._seconds
        self._timer = loop.call_later(self._seconds, self._due)

    def _due(self) -> None:
        left = self._end - self._time.now()
        if left > 0:
            self._timer = self._loop.call_later(max(left, 0.001), self._due)
        else:
            self._expired = True
            self._task.cancel()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        self._time.leave()
        if self._expired and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error
