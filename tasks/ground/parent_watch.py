"""Processes that end when the process that started them is gone, by ``kill -9`` too.

Each holds one end of a pipe whose other end only its parent has: the kernel closes that when the parent dies, however
it does. Unlike a signal on the parent's death (``PR_SET_PDEATHSIG``), that works on every Unix, below a forkserver, and
where the parent's *thread* that started the process has ended.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from multiprocessing import parent_process
from threading import Thread
from typing import Final, NoReturn

ORPHANED: Final = 1
"""Exit code of a process whose parent is gone; nobody is left to look at it."""


def end_with_parent() -> None:
    """End this process, which :mod:`multiprocessing` started, as soon as the one that wanted it is gone.

    Its work is not waited for: what it writes appears complete or not at all.
    """
    parent = parent_process()
    if parent is not None:
        Thread(target=_end_after, args=(parent.join,), name="leadline-parent", daemon=True).start()


def end_with_input() -> None:
    """End this process when its standard input ends, which is a pipe that only its parent writes to."""
    Thread(target=_end_after, args=(_read_input,), name="leadline-parent", daemon=True).start()


def _read_input() -> None:
    while os.read(0, 4096):
        pass


def _end_after(wait: Callable[[], object]) -> NoReturn:
    wait()
    os._exit(ORPHANED)
