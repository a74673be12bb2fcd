"""Running a flow from a command: on a Prefect API, and ending cleanly when it is interrupted."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

import click

from leadline.flows.cli.session import Session, relay_warnings, say

INTERRUPTED: Final = 130
STOPPED: Final = 143

T = TypeVar("T")


class _Stopped(BaseException):
    """Somebody asked this process to end."""


@contextmanager
def stoppable(kept: str) -> Iterator[None]:
    """Let SIGTERM end the block as Ctrl-C does, so that the run is recorded as interrupted and its server ends.

    Args:
        kept: Printed when the block is interrupted: what is not lost. The command then leaves with 130 or 143.
    """
    try:
        with _sigterm_raises():
            yield
    except (KeyboardInterrupt, _Stopped) as interruption:
        say(kept, always=True)
        code = INTERRUPTED if isinstance(interruption, KeyboardInterrupt) else STOPPED
        raise click.exceptions.Exit(code) from None


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


def on_an_api(
    session: Session,
    work: Callable[[], T],
    *,
    first: Callable[[], None],
    meanwhile: Callable[[], None] = lambda: None,
) -> T:
    """Run a flow on whichever Prefect API there is, and show its progress.

    Args:
        session: The command's options.
        work: Imports and runs the flow.
        first: Refuses what the flow would refuse, before a server is started; the cheapest to find comes first.
        meanwhile: What else can be done while a server starts.
    """
    if not session.debug:
        os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
        relay_warnings()
    from leadline.flows.cli.progress_bars import shown
    from leadline.flows.prefect_server.resolve import ensure_api

    def tell(message: str) -> None:  # from a thread too, where click knows no command
        if not session.quiet:
            click.echo(message, err=True)

    with shown(session), ensure_api(tell, first=first, meanwhile=meanwhile):
        return work()
