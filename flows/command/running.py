"""Running a job from a command: on a Prefect API, and ending cleanly when it is interrupted."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

from leadline.flows.command.output import clean, print_json
from leadline.flows.command.progress_bars import shown
from leadline.flows.command.session import Session, check_ledger, relay_warnings, say
from leadline.flows.prefect.resolve import chosen_server, ensure_api
from leadline.flows.shared.job import C, Job, K, R, S
from leadline.flows.shared.json_lines import prefect_environment
from leadline.tasks.ground.timeline import in_step

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
    """Check a job, and do it: as a flow on the Prefect API that there is, else in this process. Show how it goes.

    Args:
        session: The command's options.
        config: The form of the job.
    """
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
            result = _recorded(job, config, checked) if api else job.carry_out(config, job.plain_steps(), checked)
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
    return job.carry_out(config, job.plain_steps(), _checked(job, config))


def _recorded(job: Job[C, K, S, R], config: C, checked: K) -> R:
    with in_step("imports"):
        from leadline.flows.prefect.prefect_steps import recorded  # Prefect takes more than a second
    return recorded(job, config, checked)


def print_outcome(job: Job[C, K, S, R], result: R, *, as_json: bool) -> None:
    """Print what came of a job.

    Args:
        as_json: Print JSON instead of lines.
    """
    if as_json:
        print_json(job.record(result))
        return
    for label, text in job.lines(result):
        click.echo(f"{label:<{job.label_width}} {clean(text)}")
    for note in job.notes(result):
        say(clean(note))


def store_of(arguments: Sequence[str]) -> Path:
    """Return the folder of the store that a command line names, or the environment; none of a bucket is there.

    Args:
        arguments: The command line.
    """
    named = _option(arguments, "--store") or os.environ.get("LEADLINE_STORE") or ".leadline"
    return Path(os.path.expanduser(named))  # noqa: PTH111 - leaves a user who is not there to the command


def _option(words: Sequence[str], name: str) -> str | None:
    """Return the value of an option of a command line."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == name:
            return following
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
    return None
