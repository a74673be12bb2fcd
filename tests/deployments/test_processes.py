"""Processes that belong together: they wait for each other, come back, and leave nobody behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from leadline.deployments import processes as supervision
from leadline.deployments.processes import Processes, ServicePart
from leadline.deployments.tether import tethered
from leadline.evaluators.ground import LeadlineError
from tests.support.processes.waiting import eventually

SLEEP = [sys.executable, "-c", "import time; time.sleep(300)"]
WITH_CHILD = [
    sys.executable,
    "-c",
    "import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)']);"
    "open(sys.argv[1], 'w').write(str(child.pid)); child.wait()",
]


@contextmanager
def group(folder: Path, said: list[str] | None = None) -> Iterator[Processes]:
    processes = Processes(folder, (said if said is not None else []).append)
    try:
        yield processes
    finally:
        processes.stop()


def part(name: str, command: list[str] = SLEEP, **more: object) -> ServicePart:
    return ServicePart(name, command, dict(os.environ), **more)  # type: ignore[arg-type]


def alive(pid: int) -> bool:
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(state.strip()) and not state.startswith("Z")


@pytest.fixture(params=["by /proc and prctl", "by ps and a tether"])
def portable(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the ways of macOS are gone, which work on Linux too."""
    asked = str(request.param) == "by ps and a tether"
    if not asked and sys.platform != "linux":
        pytest.skip("needs Linux")
    monkeypatch.setattr(supervision, "on_linux", lambda: not asked)
    return asked


def test_all_parts_run_until_they_are_stopped(tmp_path: Path, portable: bool) -> None:
    with group(tmp_path) as processes:
        processes.start(part("a"), part("b"))
        pids = processes.pids()
        assert sorted(pids) == ["a", "b"]
        assert all(alive(pid) for pid in pids.values())
        processes.stop()
        assert not any(alive(pid) for pid in pids.values())


def test_a_part_that_ends_at_once_is_an_error_with_what_it_said(tmp_path: Path) -> None:
    with (
        group(tmp_path) as processes,
        pytest.raises(LeadlineError, match=r"bad ended as it started: no such port.*log"),
    ):
        processes.start(part("bad", [sys.executable, "-c", "print('no such port')"], ready=lambda: False))


def test_a_part_that_does_not_get_ready_is_an_error(tmp_path: Path) -> None:
    with group(tmp_path) as processes, pytest.raises(LeadlineError, match="slow is not ready after 0 s"):
        processes.start(part("slow", ready=lambda: False, deadline=0.2))


def test_a_part_that_dies_is_started_again_but_not_for_ever(tmp_path: Path, portable: bool) -> None:
    said: list[str] = []
    with group(tmp_path, said) as processes:
        processes.start(part("a"))
        first = processes.pids()["a"]
        os.kill(first, signal.SIGKILL)
        eventually(lambda: not alive(first), 20, "its end")
        processes.restart_dead()
        assert processes.pids()["a"] != first
        assert said == ["a ended with code -9 and is started again."]

        def kill_and_restart() -> None:
            for _ in range(10):
                pid = processes.pids()["a"]
                os.kill(pid, signal.SIGKILL)
                eventually(lambda pid=pid: not alive(pid), 20, "its end")
                processes.restart_dead()

        with pytest.raises(LeadlineError, match="a keeps ending"):
            kill_and_restart()


def test_stopping_ends_what_the_parts_have_started_too(tmp_path: Path, portable: bool) -> None:
    with group(tmp_path) as processes:
        note = tmp_path / "child"
        processes.start(
            part("parent", [*WITH_CHILD, str(note)], ready=lambda: note.exists() and bool(note.read_text()))
        )
        child = int(note.read_text())
        assert alive(child)
        processes.stop()
        assert not alive(child)


def test_nothing_outlives_a_supervisor_that_is_killed(tmp_path: Path, portable: bool) -> None:
    script = (
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from leadline.deployments import processes as supervision\n"
        "from leadline.deployments.processes import ServicePart, Processes\n"
        f"supervision.on_linux = lambda: {not portable}\n"
        "processes = Processes(Path(sys.argv[1]), print)\n"
        "sleep = [sys.executable, '-c', 'import time; time.sleep(300)']\n"
        "processes.start(*(ServicePart(name, sleep, dict(os.environ)) for name in ('a', 'b')))\n"
        "print(*processes.pids().values(), flush=True)\n"
        "time.sleep(300)\n"
    )
    supervisor = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert supervisor.stdout is not None
    pids = [int(text) for text in supervisor.stdout.readline().split()]
    assert len(pids) == 2
    supervisor.kill()
    supervisor.wait()
    supervisor.stdout.close()
    eventually(lambda: not any(alive(pid) for pid in pids), 20, "their end")


def test_what_a_tethered_program_gets_and_returns_is_passed_on(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    script = (
        "import pathlib, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
        "pathlib.Path(sys.argv[1]).touch()\n"
        "time.sleep(300)\n"
    )
    command = tethered([sys.executable, "-c", script, str(ready)], signal.SIGTERM)
    with subprocess.Popen(command, stdin=subprocess.PIPE) as asked:
        eventually(ready.exists, 20, "it is ready")
        asked.send_signal(signal.SIGTERM)
        assert asked.wait(60) == 7
    ready.unlink()
    with subprocess.Popen(command, stdin=subprocess.PIPE) as left:
        eventually(ready.exists, 20, "it is ready")
        assert left.stdin is not None
        left.stdin.close()
        assert left.wait(60) == 7
