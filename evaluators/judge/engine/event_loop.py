"""The one event loop of a worker process in which all judge calls are made."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

T = TypeVar("T")


class Cancelled(BaseException):
    """Work in the judges' loop was given up because the run is being stopped; no evaluator's failure."""


_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_running: set[Future[Any]] = set()
_shared: set[asyncio.Task[Any]] = set()


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


def cancel_all() -> None:
    """Give up all work in the loop, so that the threads that wait for it end; calls in flight are not waited for."""
    for future in list(_running):
        future.cancel()
    if _loop is not None:
        _loop.call_soon_threadsafe(_cancel_shared)


def _cancel_shared() -> None:
    for task in list(_shared):
        task.cancel()


def _forget() -> None:
    """Start afresh in a forked process, in which the loop's thread does not exist."""
    global _loop, _lock
    _loop, _lock = None, threading.Lock()
    _running.clear()
    _shared.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
