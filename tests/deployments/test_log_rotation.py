"""Logs of processes that go on writing are rotated, and take no more room than they may."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from leadline.deployments.log_rotation import Rotation
from leadline.deployments.processes import Processes, ServicePart
from leadline.evaluators.ground import UsageError

TALKER = """
import itertools, time
for n in itertools.count():
    print(f"line {n:08}", flush=True)
    time.sleep(0.0005)
"""


def test_a_process_goes_on_in_an_empty_log_and_older_lines_are_kept(tmp_path: Path) -> None:
    processes = Processes(tmp_path, print, Rotation(max_bytes=4_000, keep=3))
    log = processes.log("talker")
    try:
        processes.start(ServicePart("talker", [sys.executable, "-c", TALKER], dict(os.environ)))
        deadline = time.monotonic() + 60
        while not (tmp_path / "talker.log.2").exists():
            processes.rotate_logs()
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        processes.stop()
    text = "".join(path.read_text() for path in (tmp_path / "talker.log.2", tmp_path / "talker.log.1", log))
    numbers = [int(line.split()[1]) for line in text.splitlines() if len(line) == len("line 00000000")]
    assert numbers == sorted(numbers)
    assert len(numbers) > 250
    assert "\0" not in text, "the process goes on at the beginning of the file"
    assert (tmp_path / "talker.log.1").stat().st_mode & 0o777 == 0o600


def test_no_more_older_logs_are_kept_than_wanted(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    for number in range(5):
        log.write_text(f"{number}" * 20)
        assert Rotation(max_bytes=10, keep=2).rotate(log)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.log", "a.log.1", "a.log.2"]
    assert (tmp_path / "a.log.1").read_text() == "4" * 20
    assert log.read_text() == ""


def test_a_small_log_stays_and_none_is_no_error(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    assert not Rotation().rotate(log)
    log.write_text("short")
    assert not Rotation().rotate(log)
    assert not Rotation(max_bytes=0).rotate(log)
    assert log.read_text() == "short"


def test_the_room_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Rotation.from_environment() == Rotation(20 << 20, 5)
    monkeypatch.setenv("LEADLINE_LOG_MAX_MB", "1")
    monkeypatch.setenv("LEADLINE_LOG_KEEP", "0")
    assert Rotation.from_environment() == Rotation(1 << 20, 0)
    monkeypatch.setenv("LEADLINE_LOG_KEEP", "many")
    with pytest.raises(UsageError, match="LEADLINE_LOG_KEEP"):
        Rotation.from_environment()
