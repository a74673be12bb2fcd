"""The global options of all commands, and messages for people."""

from __future__ import annotations

import functools
import logging
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

from leadline.evaluators.ground import masked
from leadline.flows.command.grouped_help import GroupedOption
from leadline.flows.prefect.server import ServerUse
from leadline.flows.shared.logs import VARIABLE, JsonLines, json_line, wants_json
from leadline.flows.shared.option_group import OptionGroup

if TYPE_CHECKING:
    from leadline.tasks.store.store import Store

RELAYED: Final = 10
"""Warnings shown at most; one per row of a large dataset would bury everything else."""

F = TypeVar("F", bound=Callable[..., Any])
LABELS_HELP: Final = "Only this set of labels. Default: all together, with those that came with datasets."


@dataclass
class Session:
    """The global options, which may stand before or after the command.

    Attributes:
        store: Where the store is, or ``None`` for ``$LEADLINE_STORE`` or ``./.leadline``.
        project: The project that the process is to belong to, or ``None`` for ``$LEADLINE_PROJECT_NAME`` or none.
        began: When the command began, on the clock of :func:`time.monotonic`.
        server: Whether a run uses a Prefect server, or ``None`` for what the environment and ``leadline.toml`` say.
    """

    store: str | None = None
    project: str | None = None
    debug: bool = False
    quiet: bool = False
    began: float = field(default_factory=time.monotonic)
    server: str | None = None

    def elapsed(self) -> float:
        """Return the seconds since the command began."""
        return round(time.monotonic() - self.began, 2)

    def open_store(self, *, existing: bool = False) -> Store:
        """Open the store.

        Args:
            existing: Refuse one that is not there: a mistyped name must not become a new one, and its copy a backup.
        """
        from leadline.tasks.store.store import Store

        return Store.open(self.store, existing=existing)


def _remember(ctx: click.Context, parameter: click.Parameter, value: object) -> None:
    if value and parameter.name is not None:
        setattr(ctx.ensure_object(Session), parameter.name, value)


def _in_its_project(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let the process belong to the project that is named on the command line or in the environment, then run."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        session = click.get_current_context().find_object(Session)
        named = (session.project if session else None) or os.environ.get("LEADLINE_PROJECT_NAME")
        if named:
            from leadline.flows.shared.projects import enter

            enter(named, os.environ)
        return command(*args, **kwargs)

    return run


def session_options(command: F) -> F:
    """Give a command the global options; they end in the :class:`Session`, not in the command's arguments."""
    options = (
        click.option(
            "--store",
            metavar="DIR",
            expose_value=False,
            callback=_remember,
            help="The store, a folder or {s3,gs,az}://BUCKET/PREFIX.  [default: $LEADLINE_STORE or ./.leadline]",
        ),
        click.option(
            "--project",
            metavar="NAME",
            expose_value=False,
            callback=_remember,
            help="Project of leadline.toml, with its own store, team, judges and keys.  "
            "[default: $LEADLINE_PROJECT_NAME, or none]",
        ),
        click.option(
            "--quiet",
            "-q",
            is_flag=True,
            expose_value=False,
            callback=_remember,
            help="No progress and no messages but errors.",
        ),
        click.option(
            "--debug", is_flag=True, expose_value=False, callback=_remember, help="Show tracebacks and Prefect's log."
        ),
    )
    run = _in_its_project(command)
    for option in reversed(options):
        run = option(run)
    return cast("F", run)


def server_option(command: F) -> F:
    """Give a command that runs on a Prefect API the choice of the server; it ends in the :class:`Session`."""
    option = click.option(
        "--server",
        cls=GroupedOption,
        group=OptionGroup.MACHINE,
        advanced=True,
        type=click.Choice([use.value for use in ServerUse]),
        expose_value=False,
        callback=_remember,
        help="Keep the history on the Prefect server of PREFECT_API_URL or of leadline service server start, if there "
        "is one, or keep none.  [default: $LEADLINE_SERVER, leadline.toml, or auto]",
    )
    return option(command)


def say(message: str, *, always: bool = False) -> None:
    """Write a message for people to standard error, unless the user wants it quiet."""
    context = click.get_current_context(silent=True)
    session = context.find_object(Session) if context else None
    if always or session is None or not session.quiet:
        _write(masked(message))


def _write(message: str) -> None:
    if os.environ.get(VARIABLE) != "json":
        click.echo(message, err=True)
        return
    kind = message.partition(":")[0].partition(" ")[0].lower()
    click.echo(json_line(message, kind if kind in ("error", "warning") else "info", "leadline.cli"), err=True)


def check_ledger(store: str | None) -> None:
    """Warn, before calls are asked for, where a store is shared by hosts and the ledger of its calls is not.

    Args:
        store: Where the store is; ``None`` for ``$LEADLINE_STORE`` or ``./.leadline``.

    Raises:
        LeadlineError: The ledger is in a database that cannot be used. Later on that is waited for.
    """
    if "://" in os.environ.get("LEADLINE_LEDGER", ""):
        from leadline.tasks.ledger.ledger import require_ledger

        require_ledger()
    place = store or os.environ.get("LEADLINE_STORE", "")
    if "://" in place and not os.environ.get("LEADLINE_LEDGER"):
        say(
            "Warning: the store is in a bucket, and the ledger of its calls on this host alone: another host pays for "
            "the same calls again. Set LEADLINE_LEDGER=postgresql://USER:PASSWORD@HOST/DATABASE to share it."
        )


def on_terminal(stream: object = None) -> bool:
    """Return whether somebody looks at a stream, by default standard output, through a terminal that can draw."""
    looked_at = sys.stdout if stream is None else stream
    return bool(getattr(looked_at, "isatty", lambda: False)()) and os.environ.get("TERM") != "dumb"


class _Relay(logging.Handler):
    """Says warnings in one line each, without a traceback, and not without end."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._relayed = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Say a warning."""
        self._relayed += 1
        try:
            if wants_json():
                click.echo(JsonLines().format(record), err=True)
            elif self._relayed <= RELAYED:
                say(f"{record.levelname.capitalize()}: {' '.join(record.getMessage().split())[:500]}")
            elif self._relayed == RELAYED + 1:
                say("Further warnings are not shown (--debug shows them).")
        except OSError:  # nobody reads any more; what warns has to go on
            self.handleError(record)


def relay_warnings() -> None:
    """Show what Leadline's own modules warn of as messages for people, and no warnings meant for programmers."""
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    logger = logging.getLogger("leadline")
    if not any(isinstance(handler, _Relay) for handler in logger.handlers):
        logger.addHandler(_Relay())
    logger.propagate = False


def store_of(arguments: Sequence[str]) -> Path:
    """Return the folder of the store that a command line names, or the environment; none of a bucket is there."""
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
