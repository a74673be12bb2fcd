"""An event loop whose clock jumps: coroutines that sleep for minutes are tested in microseconds."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

T = TypeVar("T")


class _JumpingSelector(selectors.DefaultSelector):
    now = 1000.0

    def select(self, timeout: float | None = None) -> list[Any]:
        events = super().select(0)
        if not events:
            if timeout is None:
                raise RuntimeError("everybody waits for something that will never happen")
            self.now += max(0.0, timeout)
        return events


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop that waits by moving its clock."""

    def __init__(self) -> None:
        self.selector = _JumpingSelector()
        super().__init__(self.selector)

    def time(self) -> float:
        return self.selector.now


@pytest.fixture
def virtual_time() -> tuple[str, dict[str, Any]]:
    """Return the loop for a file's tests that are coroutines, where the file calls this ``anyio_backend``."""
    return "asyncio", {"loop_factory": VirtualLoop}


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in virtual time; ``now()`` inside it is the clock."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(asyncio.wait_for(main, 1e6))
    finally:
        loop.close()


def now() -> float:
    """Return the running loop's time."""
    return asyncio.get_running_loop().time()
