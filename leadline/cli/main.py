"""The command ``leadline``: finds its subcommands, and turns every ending into one line and an exit code.

Exit codes: 0 fine, 1 the gate failed, 2 bad input or usage, 3 the run itself failed, 130 interrupted. Standard output
carries results only, messages go to standard error. Nothing heavy is imported before a command needs it.
"""

from __future__ import annotations

import atexit
import importlib
import os
import re
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import click

from leadline.evaluators.ground.error_codes import ErrorCode
from leadline.evaluators.ground.errors import LeadlineError, UsageError
from leadline.evaluators.ground.extensions import extensions, is_own, own_source
from leadline.evaluators.ground.log_masking import mask_logs, masked_traceback
from leadline.flows.command.running import store_of
from leadline.flows.command.session import Session, say, session_options
from leadline.tasks.ground.permissions import keep_private
from leadline.tasks.ground.timeline import process_began

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_FIRST: Final = time.monotonic()

INTERRUPTED: Final = 130
GATE_FAILED: Final = 1
MISUSED: Final = 2
FAILED: Final = 3
BROKEN_PIPE: Final = 141

FIRST: Final = ("init", "evaluate", "show", "compare", "collect", "generate")
"""Commands at the top of the help; the others follow by name."""

END_S: Final = 5.0
"""Longest wait of an interrupted command for its threads; who stops a container kills it after some 10 s."""

MEANT: Final = {"list": "evaluators or runs", "report": "show", "run": "evaluate", "score": "evaluate"}
"""Commands of other tools, and what does that here."""

ENTRY_POINTS: Final = "leadline.commands"
"""Group of entry points by which other packages bring commands: ``NAME = "module:command"``."""

# A command with a name of its own is part of a group.
_COMMAND: Final = re.compile(r'^@click\.(?:command|group)\((?!").*?^def (\w+)\(.*?"""(.*?\.)(?=\s|""")', re.M | re.S)


@cache
def own_commands() -> dict[str, tuple[str, str]]:
    """Return the module and the help line of each command of this package.

    They are read from the source, because importing the modules would take most of a second. The help line is the first
    sentence of the command's docstring.
    """
    return {
        name.replace("_", "-"): (file.stem, " ".join(text.split()))
        for file in Path(__file__).parent.glob("*.py")
        if file.name != "main.py"
        for name, text in _COMMAND.findall(file.read_text(encoding="utf-8"))
    }


class LazyGroup(click.Group):
    """A group that imports a command's module when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List what a newcomer needs first, then the others. See :class:`click.Group`."""
        names = own_commands().keys() | _others().keys()
        return [name for name in FIRST if name in names] + sorted(names - set(FIRST))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command; one of another package cannot replace Leadline's. See :class:`click.Group`."""
        if cmd_name in own_commands():
            module = importlib.import_module(f"leadline.cli.{own_commands()[cmd_name][0]}")
            command: click.Command = getattr(module, cmd_name.replace("-", "_"))
            return command
        return _load(_others()[cmd_name]) if cmd_name in _others() else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command, or suggest the nearest name. See :class:`click.Group`."""
        import difflib

        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            near = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1)
            meant = MEANT.get(args[0]) or (near[0] if near else None)
            hint = f" Did you mean {meant}?" if meant else ""
            raise click.UsageError(f"There is no command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands, importing only those of other packages. See :class:`click.Group`."""
        lines = []
        for name in self.list_commands(ctx):
            try:
                lines.append((name, help_line(name)))
            except UsageError as error:  # the help remains readable beside a broken package
                lines.append((name, str(error)))
        with formatter.section("Commands"):
            formatter.write_dl(lines)


@cache
def _others() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in extensions(ENTRY_POINTS)}


def help_line(name: str) -> str:
    """Return what the help says of a command, read from its source; only one of another package is imported."""
    if name in own_commands():
        return own_commands()[name][1]
    entry = _others()[name]
    found = dict(_COMMAND.findall(own_source(entry))) if is_own(entry) else {}
    return " ".join(found[entry.attr].split()) if entry.attr in found else _load(entry).get_short_help_str(limit=90)


def _load(entry: EntryPoint) -> click.Command:
    """Import a command of another package, whatever may fail in it."""
    try:
        command = entry.load()
        if not isinstance(command, click.Command):
            raise TypeError(f"{entry.value} is not a click command")
    except Exception as error:
        raise UsageError(
            f"The command {entry.name!r} cannot be imported: {type(error).__name__}: {error}.",
            hint=f"Repair or uninstall the package with {entry.value}.",
            code=ErrorCode.CONFIG_OPTION,
        ) from error
    return command


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 fine, 1 the gate failed, 2 bad input or usage, 3 the run itself failed.",
)
@click.version_option(None, "--version", package_name="leadline", message="%(prog)s %(version)s")
@session_options
def cli() -> None:
    """Leadline sounds language models: it scores the answers of LLM and RAG systems, and says what is wrong."""


def main() -> None:
    """Run the command line and leave with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # an answer may contain what the terminal cannot show
    if "_LEADLINE_COMPLETE" in os.environ:
        cli.main(prog_name="leadline")  # a shell asks how to complete a command line
    keep_private(store_of(sys.argv[1:]))
    code = run(sys.argv[1:], began=process_began(_FIRST))
    _leave(code)


def _leave(code: int) -> NoReturn:
    """End the process without taking the interpreter down.

    All is done by now. Taking the interpreter down would cost 0.3 s, and more than a second with torch; and where a
    traceback or a thread still contains what was in work, DuckDB's binding would list all of that as leaked.
    """
    with suppress(KeyboardInterrupt):  # who asks again does not want to wait
        if code not in (0, GATE_FAILED, MISUSED, FAILED):
            _end_threads()
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(code)


def _end_threads() -> None:
    """Let threads end, and with them the processes that they feed, unless that takes too long.

    A thread may wait for a server that is gone. Processes that are left end by themselves.
    """
    ending = threading.Thread(target=threading._shutdown, daemon=True)  # type: ignore[attr-defined]
    ending.start()
    ending.join(END_S)


def run(arguments: Sequence[str], *, began: float | None = None) -> int:
    """Run one command and return its exit code.

    Args:
        arguments: The command line.
        began: When the command began, on the clock of :func:`time.monotonic`; now if it is not given.
    """
    session = Session() if began is None else Session(began=began)
    mask_logs()
    try:
        # Not cli.main(): it leaves with 1, the gate's exit code, when whoever reads our output has enough of it.
        with cli.make_context("leadline", list(arguments), obj=session) as context:
            code = cli.invoke(context)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as ending:
        return ending.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        if session.debug:
            _print_traceback(error)
        wrong_usage = error.ctx if isinstance(error, click.UsageError) else None
        hint = f" See: {wrong_usage.command_path} --help" if wrong_usage else ""
        say(f"Error [{ErrorCode.CONFIG_OPTION}]: {' '.join(error.format_message().split())}{hint}", always=True)
        return error.exit_code
    except LeadlineError as error:
        if session.debug:
            _print_traceback(error)
        say(f"Error [{error.code}]: {error}", always=True)
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        say("Interrupted.", always=True)
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # so that the last flush does not fail again
        return BROKEN_PIPE
    except Exception as error:
        return _own_error(error, session)


def _print_traceback(error: BaseException) -> None:
    click.echo(masked_traceback(error), err=True)


def _own_error(error: Exception, session: Session) -> int:
    """Report a failure that nobody foresaw: one line, and the traceback in a log, unless it is the machine's."""
    from leadline.flows.command.host_faults import host_fault

    if session.debug:
        _print_traceback(error)
    store = session.store or os.environ.get("LEADLINE_STORE") or ".leadline"
    refused = host_fault(error, store if "://" in store else str(Path(store).absolute()))
    if refused:
        say(f"Error [{ErrorCode.RUN_HOST}]: {refused} {ErrorCode.RUN_HOST.advice}", always=True)
        return FAILED
    text = " ".join(f"{type(error).__name__}: {error}".split())[:500]
    where = ""
    try:
        from leadline.flows.shared.log_files import new_log

        log = new_log("error")
        log.write_text(masked_traceback(error), encoding="utf-8", errors="backslashreplace")
        where = f", see {log}"
    except OSError as failure:
        where = f" (no log could be written: {failure.strerror})"
    say(f"Error [{ErrorCode.RUN_UNEXPECTED}]: leadline hit an error of its own: {text}{where}", always=True)
    return FAILED


if __name__ == "__main__":
    main()
