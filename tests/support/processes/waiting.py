"""Waiting for what processes and threads bring about in their own time."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def eventually(
    question: Callable[[], T | None], seconds: float, what: str, process: subprocess.Popen[Any] | None = None
) -> T:
    """Ask until the answer is something; fails when the time is up, or when the process that gives it has ended."""
    began = asked = time.monotonic()
    while not (answer := question()):
        assert process is None or process.poll() is None, f"it ended before: {what}: {process.communicate(timeout=30)}"
        assert time.monotonic() < began + seconds, f"not within {seconds:.0f} s: {what}"
        took = time.monotonic() - asked
        time.sleep(max(0.02, 3 * took, min(9 * took, 0.5)))  # asking a server must not keep it from its work
        asked = time.monotonic()
    return answer


def kill_once(condition: Callable[[], object], process: subprocess.Popen[Any], seconds: float = 120) -> None:
    """``kill -9`` a process with all of its session as soon as something has come about."""
    eventually(condition, seconds, "the moment of the kill", process)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)
