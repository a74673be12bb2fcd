"""Progress: lines that do not flood a log, bars on a terminal."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys

import pytest
from rich.console import Console
from rich.progress import Progress

from leadline.flows.command.running import Bars, Lines
from leadline.flows.shared.job import ProgressEvent


def event(done: int, total: int = 100, lane: str = "cpu") -> ProgressEvent:
    return ProgressEvent("score", lane, done, total)


def test_lines_come_now_and_then_and_once_when_a_lane_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines(every=3600)
    for done in (*range(101), 100):
        lines(event(done))
    assert capsys.readouterr().err.splitlines() == ["scoring: cpu 100/100 (100 %)"]


def test_lines_name_every_lane(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines(every=0)
    lines(event(0))
    lines(event(50, 2000, "gpu"))
    assert capsys.readouterr().err.splitlines()[-1] == "scoring: cpu 0/100 (0 %), gpu 50/2,000 (2 %)"


def test_steps_and_empty_lanes_say_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines(every=0)
    lines(ProgressEvent("load", "", 0, 1))
    lines(event(0, 0))
    assert capsys.readouterr().err == ""


def test_bars_are_one_per_lane_and_the_step_that_runs() -> None:
    screen = io.StringIO()
    with Progress(console=Console(file=screen, force_terminal=True, width=100)) as progress:
        bars = Bars(progress)
        bars(ProgressEvent("load", "", 0, 1))
        assert [task.description for task in progress.tasks] == ["load"]
        bars(ProgressEvent("load", "", 1, 1))
        bars(event(0))
        bars(event(10, 50, "gpu"))
        bars(event(40))
        assert {task.description: (task.completed, task.total) for task in progress.tasks} == {
            "score: cpu": (40, 100),
            "score: gpu": (10, 50),
        }


SCRIPT = """
from leadline.flows.command.running import shown
from leadline.flows.command.session import Session
from leadline.flows.shared.job import report
with shown(Session()):
    report("score", "cpu", 0, 10)
    report("score", "cpu", 10, 10)
"""


def test_on_a_terminal_bars_are_drawn_on_standard_error() -> None:
    screen, terminal = pty.openpty()
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "100"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, stderr=terminal, check=True, env=environment
    )
    os.close(terminal)
    drawn = os.read(screen, 100_000).decode()
    os.close(screen)
    assert "score: cpu" in drawn
    assert "\x1b[" in drawn
    assert done.stdout == b""


def test_elsewhere_lines_are_plain() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, check=True, text=True)
    assert done.stderr == "scoring: cpu 10/10 (100 %)\n"
