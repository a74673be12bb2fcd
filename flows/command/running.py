"""Running a job from a command: on a Prefect API, its progress shown, and ending cleanly when it is interrupted.

Progress goes to standard error: a bar per lane on a terminal, a plain line now and then elsewhere.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Final

import click

from leadline.flows.command.output import clean, print_json
from leadline.flows.command.session import Session, check_ledger, on_terminal, relay_warnings, say
from leadline.flows.prefect.kept_history import recorded
from leadline.flows.prefect.server import chosen_server, ensure_api
from leadline.flows.shared.job import C, Job, K, ProgressEvent, R, S, reporting
from leadline.flows.shared.logs import prefect_environment, wants_json
from leadline.tasks.ground.timeline import in_step

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


INTERRUPTED: Final = 130
STOPPED: Final = 143


class _Stopped(BaseException):
    """Somebody asked this process to end."""


@contextmanager
def stoppable(kept: str) -> Iterator[None]:
    """Let SIGTERM end the block as Ctrl-C does, so that the run is recorded as interrupted.

    Args:
        kept: Printed when the block is interrupted: what is not lost. The command then leaves with 130 or 143.
    """
    try:
        with _sigterm_raises():
            yield
    except BaseException as error:
        interruption = _interruption(error)
        if interruption is None:
            raise
        say(kept, always=True)
        code = INTERRUPTED if isinstance(interruption, KeyboardInterrupt) else STOPPED
        raise click.exceptions.Exit(code) from None


def _interruption(error: BaseException | None) -> BaseException | None:
    """Return the interruption that an error is, or that led to it: Pydantic makes errors of its own of all others."""
    while error is not None and not _is_interruption(error):
        error = error.__cause__ or error.__context__
    return error


def _is_interruption(error: BaseException) -> bool:
    """Return whether an error is Ctrl-C or SIGTERM, which Prefect makes an exception of its own while a flow runs."""
    return isinstance(error, KeyboardInterrupt | _Stopped) or type(error).__name__ == "TerminationSignal"


@contextmanager
def _sigterm_raises() -> Iterator[None]:
    def stop(number: int, frame: object) -> None:
        raise _Stopped

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may have handlers
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def run_job(session: Session, job: Job[C, K, S, R], config: C) -> R:
    """Check a job, and do it: as a flow on the Prefect API that there is, else in this process. Show how it goes."""
    os.environ.update(prefect_environment())
    if not session.debug:
        os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
        os.environ.setdefault("PREFECT_LOGGING_INTERNAL_LEVEL", "CRITICAL")
        logging.raiseExceptions = False  # what a log's receiver does not take is no concern of the user
        relay_warnings()

    def tell(message: str) -> None:
        if not session.quiet:
            say(message)

    use = chosen_server(session.server)
    with stoppable(job.kept), shown(session):
        checked = _checked(job, config)
        with ensure_api(tell, use) as api:
            result = (
                recorded(api, job, config, checked) if api else job.carry_out(config, job.plain_steps(config), checked)
            )
    return job.timed(result, session.elapsed())


def _checked(job: Job[C, K, S, R], config: C) -> K:
    """Check a job, and say what is to be known before it begins."""
    with in_step("checks"):
        checked = job.check(config)
    if job.asks(checked):
        check_ledger(config.store)
    for notice in job.notices(checked):
        say(clean(notice))
    return checked


def run_here(job: Job[C, K, S, R], config: C) -> R:
    """Check a job that takes no long time, and do it in this process."""
    return job.carry_out(config, job.plain_steps(config), _checked(job, config))


def print_outcome(job: Job[C, K, S, R], result: R, *, as_json: bool) -> None:
    """Print what came of a job."""
    if as_json:
        print_json(job.record(result))
        return
    for label, text in job.lines(result):
        click.echo(f"{label:<{job.label_width}} {clean(text)}")
    for note in job.notes(result):
        say(clean(note))


LINE_EVERY_S: Final = 5.0
_DOING: Final = {"collect": "asking", "generate": "asking", "judge": "judging"}


class Lines:
    """Says how far a run is, at most every few seconds, and when a lane is done.

    Args:
        every: Least number of seconds between two lines, those about a finished lane aside.
    """

    def __init__(self, every: float = LINE_EVERY_S) -> None:
        self._every = every
        self._last = time.monotonic()
        self._lanes: dict[tuple[str, str], tuple[int, int]] = {}
        self._lock = Lock()

    def __call__(self, event: ProgressEvent) -> None:
        """Take note of an event, and say something if it is time."""
        if not event.lane or not event.total:
            return
        with self._lock:
            place = (event.step, event.lane)
            before = self._lanes.get(place)
            self._lanes[place] = (event.done, event.total)
            finished = event.done >= event.total and before is not None and before[0] < before[1]
            now = time.monotonic()
            if finished or now - self._last >= self._every:
                self._last = now
                parts = (
                    self._lane_progress(lane, at) for (step, lane), at in self._lanes.items() if step == event.step
                )
                say(f"{_DOING.get(event.step, 'scoring')}: {', '.join(parts)}")

    def _lane_progress(self, lane: str, at: tuple[int, int]) -> str:
        done, total = at
        return f"{clean(lane)} {done:,}/{total:,} ({100 * done // total} %)"


class Bars:
    """Draws a bar for each lane, and names the step that runs."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._lanes: dict[str, TaskID] = {}
        self._step: TaskID | None = None
        self._lock = Lock()

    def __call__(self, event: ProgressEvent) -> None:
        """Draw what an event says."""
        with self._lock:
            if event.lane:
                self._draw_lane(event)
            else:
                self._draw_step(event)

    def _draw_lane(self, event: ProgressEvent) -> None:
        from rich.markup import escape

        if event.lane not in self._lanes:
            name = escape(clean(event.lane))
            self._lanes[event.lane] = self._progress.add_task(f"{event.step}: {name}", total=event.total)
        self._progress.update(self._lanes[event.lane], completed=event.done, total=event.total)

    def _draw_step(self, event: ProgressEvent) -> None:
        if self._step is not None:
            self._progress.remove_task(self._step)
            self._step = None
        if not event.done:
            self._step = self._progress.add_task(event.step, total=None)


@contextmanager
def shown(session: Session) -> Iterator[None]:
    """Show the progress of the flows that run within the block."""
    if session.quiet:
        yield
    elif on_terminal(sys.stderr) and not wants_json():
        with terminal_bars() as progress, reporting(Bars(progress)):
            yield
    else:
        with reporting(Lines()):
            yield


def terminal_bars() -> Progress:
    """Return bars on standard error that are gone when they end."""
    from rich import console, progress

    return progress.Progress(
        progress.SpinnerColumn(),
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
        console=console.Console(stderr=True),
        transient=True,
    )
