"""Processes are told apart where there is no ``/proc``, and nothing is asked by a signal where that would end one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from leadline.tasks.store import processes
from leadline.tasks.store.processes import has_ended, is_alive, same_host


@pytest.fixture
def macos(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask ``ps``, as on macOS; Linux has it too."""
    monkeypatch.setattr(processes, "_started", processes._started_by_ps)
    processes._identity.cache_clear()


def identity(pid: int) -> str:
    return f"{processes.socket.gethostname()}:{pid}:{processes._started(pid)}"


@pytest.mark.usefixtures("macos")
def test_ps_tells_when_a_process_began_and_that_it_has_ended() -> None:
    own = identity(os.getpid())
    assert same_host(own)
    assert own == identity(os.getpid())
    assert is_alive(own)
    assert not has_ended(own)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        known = identity(child.pid)
        assert is_alive(known)
        child.communicate()
    assert has_ended(known)
    assert not is_alive(known)


@pytest.mark.usefixtures("macos")
def test_a_number_that_another_process_has_by_now_is_told_apart() -> None:
    host, pid, _ = identity(os.getpid()).rsplit(":", 2)
    assert has_ended(f"{host}:{pid}:Sun-Nov-22-10.00.00-2020")


def test_where_ps_does_not_answer_a_process_is_asked_for_by_a_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise FileNotFoundError("/bin/ps")

    monkeypatch.setattr(processes.subprocess, "run", broken)
    assert processes._started_by_ps(os.getpid()) == processes._UNKNOWN


def test_windows_is_asked_nothing_by_a_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    def kill(*_: object) -> None:
        raise AssertionError("that would be Ctrl-C")

    monkeypatch.setattr(processes.os, "kill", kill)
    monkeypatch.setattr(processes.os, "name", "nt")
    assert processes._signalled(os.getpid()) == processes._UNKNOWN
