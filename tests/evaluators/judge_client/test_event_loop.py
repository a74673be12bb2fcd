"""The judges' loop: one for all threads, and no thread is left waiting when a run is stopped."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from leadline.evaluators.judge_client import event_loop
from leadline.evaluators.judge_client.event_loop import Cancelled, cancel_all, not_answered, run, sent, share


def test_all_threads_share_one_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_loop, "_loop", None)
    barrier = threading.Barrier(16)

    async def which() -> int:
        return id(asyncio.get_running_loop())

    def ask() -> int:
        barrier.wait()
        return run(which())

    with ThreadPoolExecutor(16) as threads:
        assert len({future.result() for future in [threads.submit(ask) for _ in range(16)]}) == 1


def test_an_exception_comes_back_to_the_thread_that_waits() -> None:
    async def fail() -> None:
        raise KeyError("here")

    with pytest.raises(KeyError):
        run(fail())


def test_stopping_a_run_frees_the_threads_that_wait() -> None:
    with ThreadPoolExecutor(2) as threads:
        waiting = [threads.submit(run, asyncio.sleep(60)) for _ in range(2)]
        time.sleep(0.2)
        began = time.monotonic()
        cancel_all()
        for future in waiting:
            assert isinstance(future.exception(5), Cancelled)
        assert time.monotonic() - began < 5

    async def fine() -> str:
        return "fine"

    assert run(fine()) == "fine"


def test_what_was_sent_is_waited_for_and_the_rest_is_given_up() -> None:
    came: list[str] = []

    async def answered() -> None:
        sent()
        await asyncio.sleep(0.3)
        came.append("reply")

    async def refused() -> None:
        sent()
        await asyncio.sleep(0.1)
        not_answered()
        came.append("another attempt")

    async def silent() -> None:
        sent()
        await asyncio.sleep(60)
        came.append("late")

    async def waiting() -> None:
        await asyncio.sleep(0.2)
        came.append("sent after all was given up")

    async def ask() -> None:
        await asyncio.gather(*(asyncio.shield(share(work())) for work in (answered, refused, silent, waiting)))

    with ThreadPoolExecutor(1) as threads:
        asking = threads.submit(run, ask())
        time.sleep(0.05)
        began = time.monotonic()
        cancel_all(grace=1)
        assert 0.9 < time.monotonic() - began < 5
        assert isinstance(asking.exception(5), Cancelled)
    assert came == ["reply"]
