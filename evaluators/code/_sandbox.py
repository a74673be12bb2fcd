"""Programs in a sandbox, from this side: started in a folder of their own, killed with all they started."""

from __future__ import annotations

import json
import math
import os
import secrets
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any, Final

PROGRAM: Final = Path(__file__).with_name("_sandboxed_program.py")
STARTUP: Final = 5.0
"""Seconds beyond a program's own that its process may take to start."""

_LONGEST: Final = 64_000


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a program.

    Attributes:
        status: ``passed``, ``failed``, ``syntax``, ``refused``, ``timeout`` or ``killed``.
        where: ``answer`` or ``tests``, where something failed.
        message: What happened.
        isolation: Which rights the process could give up: ``processes``, ``network``, ``files`` and ``signals``.
    """

    status: str
    where: str = ""
    message: str = ""
    isolation: dict[str, bool] = field(default_factory=dict)


def run_sandboxed(
    program: str, tests: str, entry_point: str, *, seconds: float, memory_mb: int, allow_network: bool
) -> Ending:
    """Run a program and its tests, and return how it ended.

    Args:
        program: Python.
        tests: Python that is run behind it, and fails where the program is wrong.
        entry_point: The name that the tests' function ``check`` is called with, ``""`` where there is none.
        seconds: How long it may take.
        memory_mb: Memory that it may take.
        allow_network: Whether to run it where the network cannot be taken away.
    """
    token = secrets.token_hex(16)
    asked = {
        "program": program,
        "tests": tests,
        "entry_point": entry_point,
        "cpu_s": math.ceil(seconds) + 1,
        "memory_mb": memory_mb,
        "allow_network": allow_network,
        "token": token,
    }
    with TemporaryDirectory(prefix="leadline-code-") as folder, TemporaryFile() as output:
        process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-I", "-S", "-B", str(PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.DEVNULL,
            env={},
            cwd=folder,
            start_new_session=True,
        )
        try:
            process.communicate(json.dumps(asked).encode(), timeout=seconds + STARTUP)
        except subprocess.TimeoutExpired:
            return Ending("timeout", message=f"it took more than {seconds:g} s")
        finally:
            _kill(process)
        output.seek(0)
        return _read(output.read(_LONGEST), token, process.returncode)


def _read(said: bytes, token: str, code: int | None) -> Ending:
    try:
        answer: Any = json.loads(said)
        if answer.pop("token") == token:
            return Ending(**answer)
    except (ValueError, TypeError, KeyError, AttributeError):
        pass
    if code == -signal.SIGXCPU:
        return Ending("timeout", message="it took too much processor time")
    return Ending("killed", message=f"its process ended without a result (code {code})")


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a process and all of its group, which its children are in unless they left it."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:  # it has ended, and all of its group
        process.poll()
    process.wait()
