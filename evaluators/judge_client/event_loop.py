"""The one event loop in which a process's judge calls are made, and deadlines that do not count its stalls.

A loop stands still while another thread holds the interpreter, while the machine is busy, or while a debugger holds it.
A reply that lies in the socket meanwhile is no silence of the one who sent it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

GRACE_S: Final = 6.0
"""Seconds for which replies to calls that were sent are waited for when all is given up: they are paid for."""


NOTED_S: Final = 2.0
"""Seconds for which calls that are given up may put on record that they are."""

_log = logging.getLogger(__name__)
_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_running: set[Future[Any]] = set()
_shared: set[asyncio.Task[Any]] = set()
_sent: set[asyncio.Task[Any]] = set()
_given_up: set[asyncio.Task[Any]] = set()
_TICK_S: Final = 0.05
"""Seconds between two looks at the loop's clock; of a longer time between them, only twice as much counts."""


class Cancelled(BaseException):
    """Work in the judges' loop was given up because the run is being stopped; no evaluator's failure."""


def judges_loop() -> asyncio.AbstractEventLoop:
    """Return the judges' loop, started if need be."""
    global _loop
    with _lock:  # two loops would mean two limiters for one judge
        if _loop is None:
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="leadline-judges", daemon=True).start()
        return _loop


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in the judges' loop and wait for it; callable from any number of threads at once.

    Raises:
        Cancelled: :func:`cancel_all` was called.
    """
    future = asyncio.run_coroutine_threadsafe(work, judges_loop())
    _running.add(future)
    try:
        return future.result()
    except CancelledError:
        raise Cancelled from None
    except BaseException:
        future.cancel()
        raise
    finally:
        _running.discard(future)


def share(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Start work in the running loop that several may wait for; it outlives each of them, not :func:`cancel_all`."""
    task = asyncio.get_running_loop().create_task(work)
    _shared.add(task)
    task.add_done_callback(_shared.discard)
    return task


def sent() -> None:
    """Note that the running task has sent what will be paid for, so that it is not given up before the reply."""
    task = asyncio.current_task()
    if task in _shared:
        _sent.add(task)
        task.add_done_callback(_sent.discard)


def not_answered() -> None:
    """Note that what the running task has sent came to nothing; if all is given up, it ends here."""
    task = asyncio.current_task()
    _sent.discard(task)
    if task in _given_up:
        raise asyncio.CancelledError


def cancel_all(grace: float = GRACE_S) -> None:
    """Give up all work in the loop, so that the threads that wait for it end, and wait for calls that were sent.

    Args:
        grace: Seconds after which the replies are waited for no longer.
    """
    for future in list(_running):
        future.cancel()
    if _loop is not None and not _loop.is_closed():
        with suppress(TimeoutError):  # the loop is busy; its thread ends with the process
            asyncio.run_coroutine_threadsafe(_give_up(grace), _loop).result(grace + 2 * NOTED_S)


async def _give_up(grace: float) -> None:
    ended = _shared - _sent
    for task in ended:
        task.cancel()
    waited = set(_sent)
    if waited:
        _log.warning("Stopping: the replies to %d calls in flight are waited for, %g s at most.", len(waited), grace)
        for task in waited:
            _given_up.add(task)
            task.add_done_callback(_given_up.discard)
        _, late = await asyncio.wait(waited, timeout=grace)
        for task in late:
            task.cancel()
        ended |= late
    if ended:
        await asyncio.wait(ended, timeout=NOTED_S)


def _forget() -> None:
    """Start afresh in a forked process, in which the loop's thread does not exist."""
    global _loop, _lock
    _loop, _lock = None, threading.Lock()
    _running.clear()
    for tasks in (_shared, _sent, _given_up):
        tasks.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


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
                self._loop.call_later(_TICK_S, self._tick)

    def leave(self) -> None:
        self._deadlines -= 1

    def now(self) -> float:
        return self._counted + min(self._loop.time() - self._seen, 2 * _TICK_S)

    def _tick(self) -> None:
        self._counted, self._seen = self.now(), self._loop.time()
        self._ticking = self._deadlines > 0
        if self._ticking:
            self._loop.call_later(_TICK_S, self._tick)


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
