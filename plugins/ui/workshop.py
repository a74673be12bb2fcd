"""Work that people start on the pages: commands in child processes, with what they say, and a way to end them."""

from __future__ import annotations

import atexit
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

from leadline.evaluators.ground import ErrorCode, UsageError

AT_ONCE: Final = 2
"""Commands that run at the same time: each may take all processors."""

KEPT: Final = 50
"""Commands that the page remembers, those that run among them."""

SHOWN: Final = 16 * 1024
"""Bytes of what a command says that are shown, the last ones."""


@dataclass
class StartedCommand:
    """A command that somebody started.

    Attributes:
        title: What it is, for people.
        job: Name of the job that it does.
        settings: The job's settings that were given, by their paths.
        arguments: Of ``leadline``.
        person: Name of who started it, or "".
        started: When, in seconds since 1970.
        log: File with what it says.
        ended: When it ended, ``None`` as long as it runs.
        stopped: Whether somebody asked it to end.
        address: None: only Prefect has a page of its own for what runs.
        note: None: what it says tells more.
    """

    id: str
    title: str
    job: str
    settings: Mapping[str, Any]
    arguments: tuple[str, ...]
    person: str
    started: float
    log: Path
    process: subprocess.Popen[bytes] = field(repr=False)
    ended: float | None = None
    stopped: bool = False
    address: ClassVar[str] = ""
    note: ClassVar[str] = ""

    @property
    def running(self) -> bool:
        """True as long as it works."""
        if self.process.poll() is not None and self.ended is None:
            self.ended = time.time()
        return self.ended is None

    @property
    def outcome(self) -> str:
        """The end of it in a word: 1 is the exit code of a gate that does not pass."""
        if self.running:
            return "ending" if self.stopped else "running"
        return "stopped" if self.stopped else {0: "done", 1: "done"}.get(self.process.returncode, "failed")

    @property
    def seconds(self) -> float:
        """Time that it took or takes."""
        return (self.ended or time.time()) - self.started

    def said(self) -> str:
        """Return what it said last."""
        try:
            with self.log.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - SHOWN))
                return file.read().decode("utf-8", "replace")
        except OSError:
            return ""


@dataclass
class Workshop:
    """The commands of this server; they end with it, and what they computed stays.

    Attributes:
        folder: Where what they say is kept.
    """

    folder: Path
    _works: dict[str, StartedCommand] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        atexit.register(self.stop_all)

    def works(self) -> list[StartedCommand]:
        """Return all that it remembers, the newest first."""
        return sorted(self._works.values(), key=lambda work: work.started, reverse=True)

    def get(self, name: str) -> StartedCommand | None:
        """Return a command by its id."""
        return self._works.get(name)

    def start(
        self, title: str, job: str, settings: Mapping[str, Any], arguments: Sequence[str], person: str = ""
    ) -> StartedCommand:
        """Start a command of ``leadline``, which does a job with these settings.

        Raises:
            UsageError: Too many run already.
        """
        with self._lock:
            if sum(work.running for work in self._works.values()) >= AT_ONCE:
                raise UsageError(
                    f"{AT_ONCE} commands run already.",
                    hint="Wait for one to end, or stop it.",
                    code=ErrorCode.RUN_FAILED,
                )
            self.folder.mkdir(parents=True, exist_ok=True)
            name = secrets.token_hex(6)
            log = self.folder / f"{name}.log"
            with log.open("wb") as file:
                process = subprocess.Popen(  # noqa: S603 - our own command; the arguments were checked
                    [sys.executable, "-m", "leadline.cli.main", *arguments],
                    stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
                )  # fmt: skip
            work = StartedCommand(name, title, job, settings, tuple(arguments), person, time.time(), log, process)
            self._works[name] = work
            self._forget()
            return work

    def stop(self, work: StartedCommand) -> None:
        """Ask a command to end, as Ctrl-C does: its run is recorded as interrupted, and what it scored is kept."""
        if work.running:
            work.stopped = True
            os.killpg(work.process.pid, signal.SIGTERM)

    def stop_all(self) -> None:
        """Ask all commands to end."""
        for work in self._works.values():
            self.stop(work)

    def _forget(self) -> None:
        for work in [work for work in self.works() if not work.running][KEPT:]:
            work.log.unlink(missing_ok=True)
            del self._works[work.id]
