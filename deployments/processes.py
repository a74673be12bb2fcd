"""Processes that belong together: started in order, restarted when they die, ended in reverse, never left behind."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from leadline.deployments.log_rotation import Rotation
from leadline.deployments.tether import tethered
from leadline.evaluators.ground import ErrorCode, LeadlineError
from leadline.flows.shared.logs import tail

PR_SET_PDEATHSIG: Final = 1
STOP_S: Final = 20.0
RESTARTS: Final = 5
"""Starts of one part within a minute, after which it is given up."""

PS_S: Final = 10.0
"""Longest wait for ``ps``."""


@dataclass(frozen=True)
class ServicePart:
    """One process of the service.

    Attributes:
        name: Unique; also the name of its log.
        command: What is run.
        environment: Its complete environment.
        ready: Whether it does its work.
        deadline: Seconds that it may take to get ready.
        ending: The signal that ends it cleanly.
    """

    name: str
    command: list[str]
    environment: Mapping[str, str]
    ready: Callable[[], bool] = lambda: True
    deadline: float = 60.0
    ending: signal.Signals = signal.SIGTERM


@dataclass
class _Running:
    part: ServicePart
    process: subprocess.Popen[bytes]
    starts: list[float] = field(default_factory=list)


class Processes:
    """A group of processes. Use it in the main thread: when that dies, even by ``kill -9``, so do they.

    Args:
        folder: Where logs go.
        say: Called with a line about each event.
        rotation: The room that each log may take.
    """

    def __init__(self, folder: Path, say: Callable[[str], None], rotation: Rotation | None = None) -> None:
        self._folder, self._say, self._rotation = folder, say, rotation or Rotation()
        self._running: list[_Running] = []
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)  # questions and answers of people stand in logs

    def start(self, *parts: ServicePart) -> None:
        """Start parts side by side and wait until all of them are ready.

        Raises:
            LeadlineError: One ended, or was not ready in time.
        """
        for part in parts:
            self._running.append(_Running(part, self._spawn(part), [time.monotonic()]))
        started = time.monotonic()
        for entry in self._running[len(self._running) - len(parts) :]:
            part = entry.part
            while not part.ready():
                self._check(entry)
                if time.monotonic() - started > part.deadline:
                    raise LeadlineError(
                        f"{part.name} is not ready after {part.deadline:.0f} s.",
                        hint=self._hint(part),
                        code=ErrorCode.DEPLOY_SERVICE,
                    )
                time.sleep(0.1)
            self._check(entry)

    def _check(self, entry: _Running) -> None:
        if entry.process.poll() is not None:
            message = tail(self.log(entry.part.name), 3)
            raise LeadlineError(
                f"{entry.part.name} ended as it started: {message}",
                hint=self._hint(entry.part),
                code=ErrorCode.DEPLOY_SERVICE,
            )

    def log(self, name: str) -> Path:
        """Return the log of a part."""
        return self._folder / f"{name}.log"

    def open_log(self, name: str) -> BinaryIO:
        """Open the log of a part for what is added to it; it is for its owner alone."""
        descriptor = os.open(self.log(name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.fchmod(descriptor, 0o600)
        return os.fdopen(descriptor, "ab")

    def _hint(self, part: ServicePart) -> str:
        return f"Its log: {self.log(part.name)}"

    def _spawn(self, part: ServicePart) -> subprocess.Popen[bytes]:
        by_kernel = on_linux()
        with self.open_log(part.name) as log:
            return subprocess.Popen(  # noqa: S603 - our own commands
                part.command if by_kernel else tethered(part.command, part.ending),
                stdin=subprocess.DEVNULL if by_kernel else subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=dict(part.environment),
                start_new_session=True,  # Ctrl-C is for us, who end them in order
                preexec_fn=dying_with_us(part.ending) if by_kernel else None,
            )

    def pids(self) -> dict[str, int]:
        """Return the process number of every part."""
        return {entry.part.name: entry.process.pid for entry in self._running}

    def restart_dead(self) -> None:
        """Start again what has ended.

        Raises:
            LeadlineError: A part keeps ending.
        """
        for entry in self._running:
            code = entry.process.poll()
            if code is None:
                continue
            now = time.monotonic()
            entry.starts = [*(moment for moment in entry.starts if now - moment < 60), now]
            if len(entry.starts) > RESTARTS:
                raise LeadlineError(
                    f"{entry.part.name} keeps ending.", hint=self._hint(entry.part), code=ErrorCode.DEPLOY_SERVICE
                )
            self._say(f"{entry.part.name} ended with code {code} and is started again.")
            if code < 0 and not on_linux():  # the tether was killed, which its program has not noticed
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(entry.process.pid, signal.SIGKILL)
            entry.process = self._spawn(entry.part)

    def rotate_logs(self) -> None:
        """Rotate the logs that have become too large; where that cannot be done, they go on growing."""
        for entry in self._running:
            with suppress(OSError):
                self._rotation.rotate(self.log(entry.part.name))

    def stop(self) -> None:
        """End everything: each part in the reverse order of its start, with what it has started itself."""
        for entry in reversed(self._running):
            offspring = _descendants(entry.process.pid)
            with suppress(ProcessLookupError):
                entry.process.send_signal(entry.part.ending)
            deadline = time.monotonic() + STOP_S
            _wait(entry.process, 1.0 if offspring else STOP_S)
            _signal(offspring, signal.SIGTERM)  # flow runs: Prefect then records them as crashed
            _wait(entry.process, deadline - time.monotonic())
            while any(_alive(pid) for pid in offspring) and time.monotonic() < deadline:
                time.sleep(0.05)
            _signal([entry.process.pid, *offspring], signal.SIGKILL)
            entry.process.wait()
        self._running.clear()


def on_linux() -> bool:
    """Return whether the kernel signals a parent's death, and ``/proc`` tells of processes."""
    return sys.platform == "linux"


def dying_with_us(ending: signal.Signals) -> Callable[[], None]:
    """Return what a child does before its program starts, so that it gets a signal when this thread ends; for Linux."""
    parent, libc = os.getpid(), ctypes.CDLL(None)

    def prepare() -> None:
        libc.prctl(PR_SET_PDEATHSIG, int(ending))
        if os.getppid() != parent:  # it died before the line above
            os._exit(1)

    return prepare


def _wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    with suppress(subprocess.TimeoutExpired):
        process.wait(max(0.0, seconds))


def _signal(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _alive(pid: int) -> bool:
    state, _ = _statuses(pid).get(pid, ("Z", 0))
    return not state.startswith("Z")


def _descendants(root: int) -> list[int]:
    """Return the processes that a process has started, directly or not."""
    statuses = _statuses()
    found: list[int] = []
    fresh = {root}
    while fresh:
        fresh = {pid for pid, (_, parent) in statuses.items() if parent in fresh}
        found += fresh
    return found


def _statuses(pid: int | None = None) -> dict[int, tuple[str, int]]:
    """Return the state and the parent of one process or of all, as ``/proc`` or ``ps`` tells them."""
    if not on_linux():
        return _statuses_by_ps(pid)
    found = {}
    for place in [Path(f"/proc/{pid}")] if pid else Path("/proc").iterdir():
        if place.name.isdigit():
            with suppress(OSError):
                stat = (place / "stat").read_text(encoding="utf-8", errors="replace")
                state, parent = stat.rpartition(")")[2].split()[:2]
                found[int(place.name)] = state, int(parent)
    return found


def _statuses_by_ps(pid: int | None) -> dict[int, tuple[str, int]]:
    which = ["-p", str(pid)] if pid else ["-A"]
    done = subprocess.run(  # noqa: S603 - a number is all that varies
        ["/bin/ps", "-o", "pid=,ppid=,stat=", *which], capture_output=True, text=True, timeout=PS_S, check=False
    )
    lines = (line.split() for line in done.stdout.splitlines())
    return {int(own): (state, int(parent)) for own, parent, state, *_ in lines}
