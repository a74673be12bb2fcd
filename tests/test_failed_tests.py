"""Tests that fail leave no process of theirs to the next ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

STARTING = """
import subprocess, sys, time, pytest
PARENT = "import subprocess; subprocess.run(['sleep', '300'])"

@pytest.fixture(scope="module")
def shared():
    with subprocess.Popen(["sleep", "300"]) as process:
        yield process
        assert process.poll() is None, "a fixture of several tests is left alone"
        process.kill()

def test_fails(shared):
    time.sleep(0.05)  # a process's start is known to a hundredth of a second
    process = subprocess.Popen([sys.executable, "-c", PARENT], start_new_session=True)
    while not (below := open(f"/proc/{process.pid}/task/{process.pid}/children").read()):
        pass
    print("started", process.pid, below)
    raise AssertionError
"""


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found by /proc")
def test_what_a_failing_test_started_ends_with_it_and_what_its_module_shares_does_not(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(STARTING, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", "test_it.py"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert "1 failed in" in done.stdout, "and no error of the fixture"
    (started,) = (line for line in done.stdout.splitlines() if line.startswith("started "))
    numbers = started.split()[1:]
    assert len(numbers) == 2
    assert [number for number in numbers if running(number)] == []


def running(number: str) -> bool:
    """Return whether a process runs: one whose end nobody has asked for has no command any more."""
    try:
        return bool(Path("/proc", number, "cmdline").read_bytes())
    except OSError:
        return False
