"""Programs in a sandbox, from this side: started in a folder of their own, killed with all they started."""

from __future__ import annotations

import json
import math
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final

from leadline.evaluators.ground import listing

PROGRAM: Final = Path(__file__).with_name("_sandboxed_program.py")
STARTUP: Final = 5.0
"""Seconds beyond a program's own that its process may take to start."""

RIGHTS: Final = ("processes", "network", "files", "signals")
"""What is taken away from programs, as far as the machine can."""

MOST_BYTES: Final = 16 * 2**20
MOST_FILES: Final = 1_000
DEEPEST: Final = 64
"""Bytes, files and levels of folders that a program may have at a time."""
MOST_THREADS: Final = 256
MOST_HIDDEN: Final = 16
"""Threads, and files that it removed and keeps in its memory, which may have a megabyte each."""
MOST_UNSEEN: Final = 25
"""Times in a row that a program may move its folders away while they are looked at."""

_LONGEST: Final = 64_000
_PAUSE: Final = 0.02


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a program.

    Attributes:
        status: ``passed``, ``failed``, ``no_tests`` (they are no Python), ``refused``, ``timeout`` or ``killed``.
        where: ``answer`` or ``tests``, where something failed.
        message: What happened.
        isolation: Which of :data:`RIGHTS` the process gave up.
    """

    status: str
    where: str = ""
    message: str = ""
    isolation: dict[str, bool] = field(default_factory=dict)


def run_sandboxed(
    program: str, tests: str, entry_point: str, *, seconds: float, memory_mb: int, leave: Collection[str] = ()
) -> Ending:
    """Run a program and its tests, and return how it ended.

    Args:
        program: Python.
        tests: Python that is run behind it, and fails where the program is wrong.
        entry_point: The name that the tests' function ``check`` is called with, ``""`` where there is none.
        seconds: How long it may take.
        memory_mb: Memory that it may take.
        leave: Which of :data:`RIGHTS` it may keep where this machine cannot take them.
    """
    token = secrets.token_hex(16)
    asked = {
        "program": program,
        "tests": tests,
        "entry_point": entry_point,
        "cpu_s": math.ceil(seconds) + 1,
        "memory_mb": memory_mb,
        "leave": list(leave),
        "token": token,
    }
    with _folder() as folder, TemporaryFile() as given, TemporaryFile() as output, _pipe() as (said_first, first):
        given.write(json.dumps(asked).encode())
        given.seek(0)
        process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-I", "-S", "-B", str(PROGRAM), str(first)],
            stdin=given,
            stdout=output,
            stderr=subprocess.DEVNULL,
            env={},
            cwd=folder,
            pass_fds=(first,),
            start_new_session=True,
        )
        os.close(first)
        try:
            stopped = _wait(process, folder, seconds + STARTUP)
        finally:
            _kill(process)
        output.seek(0)
        return _ending(os.read(said_first, _LONGEST), output.read(_LONGEST), token, stopped, process.returncode)


def _wait(process: subprocess.Popen[bytes], folder: str, seconds: float) -> Ending | None:
    """Wait for a process; return how it must be ended, ``None`` if it ended by itself."""
    deadline = time.monotonic() + seconds
    unseen = 0
    while time.monotonic() < deadline:
        try:
            process.wait(timeout=_PAUSE)
        except subprocess.TimeoutExpired:
            held = _holds_too_much(folder)
            unseen = unseen + 1 if held is None else 0
            if held or unseen > MOST_UNSEEN or _hides_too_much(process):
                message = f"it took more than {MOST_BYTES >> 20} MB, {MOST_FILES:,} files or {MOST_THREADS} threads"
                return Ending("killed", message=message)
        else:
            return None
    return Ending("timeout", message=f"it took more than {seconds - STARTUP:g} s")


def _ending(before: bytes, after: bytes, token: str, stopped: Ending | None, code: int | None) -> Ending:
    try:
        first: Any = json.loads(before)
    except ValueError:
        return stopped or Ending("killed", message=f"its process ended before it began (code {code})")
    isolation = first["isolation"]
    if first["left"]:
        return Ending("refused", message=f"{listing(first['left'])} cannot be taken away on this machine")
    if first["fault"]:
        return Ending("no_tests", message=first["fault"])
    if stopped is not None:
        return replace(stopped, isolation=isolation)
    try:
        last: Any = json.loads(after)
        status, where, message, known = last["status"], last["where"], last["message"], last["token"] == token
        if known and status in ("passed", "failed") and where in ("", "answer", "tests") and isinstance(message, str):
            return Ending(status, where, message, isolation)
    except (ValueError, TypeError, KeyError, RecursionError):
        code = code or 0
    if code == -signal.SIGXCPU:
        return Ending("timeout", message="it took too much processor time", isolation=isolation)
    return Ending("killed", message=f"its process ended without a result (code {code})", isolation=isolation)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a process and all of its group, which its children are in unless they left it."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:  # it has ended, and all of its group
        process.poll()
    process.wait()


@contextmanager
def _pipe() -> Iterator[tuple[int, int]]:
    """Make a pipe; its end to write is closed by whoever hands it on."""
    out, into = os.pipe()
    os.set_blocking(out, False)
    try:
        yield out, into
    finally:
        os.close(out)


@contextmanager
def _folder() -> Iterator[str]:
    """Make a folder, and remove it with all that a program may have left in there."""
    folder = tempfile.mkdtemp(prefix="leadline-code-")
    try:
        yield folder
    finally:
        _remove(Path(folder))


def _holds_too_much(folder: str) -> bool | None:
    """Return whether a folder holds too many bytes, files or levels; ``None`` if some of it went away meanwhile."""
    left, size, files, seen = [(folder, 0)], 0, 0, True
    while left:
        path, depth = left.pop()
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    files += 1
                    if entry.is_dir(follow_symlinks=False):
                        left.append((entry.path, depth + 1))
                    else:
                        size += _size(entry)
                    if size > MOST_BYTES or files > MOST_FILES or depth > DEEPEST:
                        return True
        except FileNotFoundError:
            seen = False
        except OSError:
            return True
    return False if seen else None


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except FileNotFoundError:
        return 0


def _hides_too_much(process: subprocess.Popen[bytes]) -> bool:
    """Return whether a process has too many threads or removed files in its memory, or does not show them."""
    threads = Path(f"/proc/{process.pid}/task")
    try:
        for thread in sorted(threads.iterdir()):
            if maps := thread.joinpath("maps").read_bytes():  # a first thread that ended has none
                return threads.stat().st_nlink - 2 > MOST_THREADS or maps.count(b"(deleted)\n") > MOST_HIDDEN
    except (FileNotFoundError, ProcessLookupError):  # it has ended, or this is no Linux
        return False
    except OSError:
        return True
    return False


def _remove(folder: Path) -> None:
    """Remove a folder however deep it is: folders of folders are moved up to it, and none is entered twice."""
    number = 0
    while entries := list(folder.iterdir()):
        for entry in entries:
            if entry.is_symlink() or not entry.is_dir():
                entry.unlink()
                continue
            entry.chmod(0o700)
            for inner in list(entry.iterdir()):
                if inner.is_dir() and not inner.is_symlink():
                    inner.chmod(0o700)
                    inner.rename(folder / f"{number}-{secrets.token_hex(8)}")
                    number += 1
                else:
                    inner.unlink()
            entry.rmdir()
    folder.rmdir()
