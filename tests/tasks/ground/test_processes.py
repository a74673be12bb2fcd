"""Processes are told apart by their host, its place and their start, and none is ended by asking for it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from leadline.tasks.ground import processes
from leadline.tasks.ground.processes import has_ended, is_alive, same_host


@pytest.fixture
def macos(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask ``ps``, as on macOS; Linux has it too."""
    monkeypatch.setattr(processes, "_started", processes._started_by_ps)
    processes._identity.cache_clear()


def identity(pid: int) -> str:
    return f"{processes.this_host()}:{pid}:{processes._started(pid)}"


def at(monkeypatch: pytest.MonkeyPatch, place: str) -> str:
    """Return this process as it would be known at a place."""
    monkeypatch.setattr(processes, "this_place", lambda: place)
    return identity(os.getpid())


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


@pytest.mark.skipif(sys.platform == "darwin", reason="a process of /proc")
def test_a_killed_process_has_ended_although_nobody_has_asked_after_it() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        known = identity(child.pid)
        assert is_alive(known)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
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


@pytest.mark.skipif(sys.platform != "linux", reason="macOS has no containers")
def test_a_container_of_the_same_name_is_another_host(monkeypatch: pytest.MonkeyPatch) -> None:
    neighbour = at(monkeypatch, "c09a98a9e.4026532201").replace(f":{os.getpid()}:", ":4194304:")  # is not here
    own = at(monkeypatch, "c09a98a9e.4026532377")
    assert not same_host(neighbour)
    assert not has_ended(neighbour), "it cannot be seen from here"
    assert not is_alive(own.replace("4026532377", "4026532201"))
    assert is_alive(own)
    assert has_ended(own.replace(f":{os.getpid()}:", ":4194304:"))
    assert not same_host(f"{processes.socket.gethostname()}:1:2"), "a record without a place may be anybody's"


@pytest.mark.parametrize(("before", "ended"), [("m3f9a12c0.11111111", True), ("m77777777.11111111", False)])
def test_what_ran_before_a_machine_was_started_anew_has_ended(
    before: str, ended: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = at(monkeypatch, before)
    at(monkeypatch, "m3f9a12c0.22222222")
    assert (same_host(earlier), has_ended(earlier), is_alive(earlier)) == (ended, ended, False)


def test_the_parts_of_a_process_in_a_record_are_put_together_again() -> None:
    assert processes.process_of(processes.process_record()) == processes.this_process()
    assert processes.process_of({"host": "h", "pid": 3, "started": "s"}) == "h:3:s"
    assert processes.process_of(None) == ""
