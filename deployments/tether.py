"""A program that ends when the process that started it is gone, where the kernel sends no signal about that (macOS).

It is started by ``processes.py``::

    python -m leadline.deployments.tether SIGNAL PROGRAM [ARGUMENT]...

Standard input is a pipe whose other end only the starter holds: it ends however the starter does. What the program gets
then is the signal; every signal that asks for an end is passed on too.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from threading import Thread
from types import FrameType
from typing import Final

PASSED_ON: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)


def tethered(command: Sequence[str], ending: signal.Signals) -> list[str]:
    """Return the command that runs another one on a tether; its standard input must be a pipe.

    Args:
        ending: The signal that it gets when the pipe ends.
    """
    return [sys.executable, "-P", "-m", "leadline.deployments.tether", str(int(ending)), *command]


def main(arguments: Sequence[str]) -> int:
    """Run a program until it ends; returns its exit code."""
    ending, *command = arguments
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)  # noqa: S603 - our own commands

    def pass_on(number: int, frame: FrameType | None) -> None:
        child.send_signal(number)

    for number in PASSED_ON:
        signal.signal(number, pass_on)
    Thread(target=_follow_input, args=(child, int(ending)), daemon=True).start()
    code = child.wait()
    return code if code >= 0 else 128 - code


def _follow_input(child: subprocess.Popen[bytes], ending: int) -> None:
    with suppress(OSError):
        while os.read(0, 4096):
            pass
    child.send_signal(ending)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
