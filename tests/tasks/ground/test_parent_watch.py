"""``kill -9`` of a process leaves none of its processes behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.processes.descendants import descendants, ended

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes in /proc")

IDLE_POOL = """
import os, time
from leadline.tasks.score.executor import LocalLanes
lanes = LocalLanes(2, [])
lanes.widths = {"cpu": 2}
pool = lanes._running_pool()
print(pool.submit(os.getpid).result(), flush=True)
time.sleep(600)
"""


@contextmanager
def started(*command: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        yield process
    finally:
        with process:
            process.kill()


@pytest.mark.slow
def test_processes_of_an_idle_pool_end_with_their_killed_parent() -> None:
    with started(sys.executable, "-c", IDLE_POOL) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip()
        children = descendants(process.pid)
        assert children
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert ended(children) == []
