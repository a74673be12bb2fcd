"""Runs a command, and makes the host fail in one of its phases."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from leadline.flows.evaluate.steps import EvaluationSteps

DAY_S = 86_400.0


def full_disk(store: Path) -> None:
    """Fill the small file system of the store; where there is none, no file may grow."""
    if not os.path.ismount(store.parent):
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        return
    try:
        with (store.parent / "ballast").open("wb", buffering=0) as ballast:
            size = 1 << 20
            while size:
                try:
                    ballast.write(bytes(size))
                except OSError:
                    size >>= 1
    except OSError:
        pass


def read_only(store: Path) -> None:
    """Refuse what would change the file system, as one does that was mounted anew for reading."""

    def refusing(function: Callable[..., Any]) -> Callable[..., Any]:
        def refuse(path: Any, *args: Any, **options: Any) -> Any:
            if isinstance(path, str | Path) and str(path).startswith(str(store)):
                raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
            return function(path, *args, **options)

        return refuse

    for name in ("mkdir", "replace", "rename", "unlink", "rmdir"):
        setattr(os, name, refusing(getattr(os, name)))


def no_locks(store: Path) -> None:
    """Refuse locks, as network file systems may."""

    def refuse(file: object, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    fcntl.flock = refuse


def few_files(store: Path) -> None:
    """Allow some 20 open files more than there are."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def clock_jumps(by: float) -> Callable[[Path], None]:
    """Set the clock that the program looks at."""

    def jump(store: Path) -> None:
        now = time.time
        time.time = lambda: now() + by

    return jump


def no_home(store: Path) -> None:
    """Take the home folder away."""
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        os.environ.pop(name, None)
    os.environ["HOME"] = "/nonexistent"


FAULTS: dict[str, Callable[[Path], None]] = {
    "full disk": full_disk,
    "read-only store": read_only,
    "no file locks": no_locks,
    "few open files": few_files,
    "clock a day ahead": clock_jumps(DAY_S),
    "clock a day back": clock_jumps(-DAY_S),
    "no home": no_home,
}


def fail_in(phase: str, fault: Callable[[Path], None], store: Path) -> None:
    """Let a fault begin with a phase."""
    step, score = EvaluationSteps.step, EvaluationSteps.score

    def stepping(self: EvaluationSteps, name: str, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        if name == phase:
            fault(store)
        return step(self, name, function, *args, **options)

    def scoring(self: EvaluationSteps, *args: Any) -> None:
        if phase == "score":
            fault(store)
        score(self, *args)

    if phase == "load":
        fault(store)
    EvaluationSteps.step = stepping  # type: ignore[method-assign, assignment]
    EvaluationSteps.score = scoring  # type: ignore[method-assign, assignment]


def run(asked: dict[str, Any]) -> int:
    """Run a command in this process, which is its own, and return its exit code.

    Args:
        asked: Its ``arguments``, the ``fault``, the ``phase`` in which that begins, and the ``store``.
    """
    from leadline.cli import main

    if asked["fault"]:
        fail_in(asked["phase"], FAULTS[asked["fault"]], Path(asked["store"]))
    return main.run(asked["arguments"])


if __name__ == "__main__":
    sys.exit(run(json.loads(sys.argv[1])))
