"""The command ``leadline``: turns every ending into one line and an exit code.

Exit codes: 0 fine, 1 the gate failed, 2 bad input or usage, 3 the run itself failed, 130 interrupted. Standard output
carries results only, messages go to standard error. Nothing heavy is imported before a command needs it.
"""

from __future__ import annotations

import atexit
import gc
import os
import platform
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, NoReturn

import click

from leadline.cli.command_tree import CommandTree
from leadline.evaluators.ground import ErrorCode, LeadlineError
from leadline.evaluators.ground.secret_values import mask_logs, masked_traceback
from leadline.flows.command.host_faults import host_fault
from leadline.flows.command.output import print_table
from leadline.flows.command.session import Session, say, session_options, store_of
from leadline.flows.shared.logs import new_log
from leadline.tasks.ground.files import keep_private
from leadline.tasks.ground.timeline import process_began

_FIRST: Final = time.monotonic()

INTERRUPTED: Final = 130
GATE_FAILED: Final = 1
MISUSED: Final = 2
FAILED: Final = 3
BROKEN_PIPE: Final = 141

END_S: Final = 5.0
"""Longest wait of an interrupted command for its threads; who stops a container kills it after some 10 s."""

_YOUNG: Final = 50_000
"""Objects after which the cyclic collector looks at the young ones, 700 by default: a tenth of a short command's time
went into looking at what is imported, again and again."""

_PACKAGES: Final = (
    *("prefect", "duckdb", "pyarrow", "numpy", "scipy", "nltk", "rapidfuzz", "regex", "sentencex"),
    *("torch", "transformers", "sentence-transformers"),
)
"""Packages whose versions ``--version`` prints."""


def _print_versions(context: click.Context, _: click.Parameter, value: bool) -> None:
    """Print the versions of Leadline, Python and the main packages."""
    if not value:
        return

    def known(package: str) -> str:
        try:
            return version(package)
        except PackageNotFoundError:
            return "not installed"

    versions = {"leadline": known("leadline"), "python": platform.python_version()}
    versions |= {package: known(package) for package in _PACKAGES}
    print_table(("package", "version"), list(versions.items()))
    context.exit()


@click.group(
    cls=CommandTree,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 fine, 1 the gate failed, 2 bad input or usage, 3 the run itself failed.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_versions,
    help="Show the versions of Leadline and its main packages.",
)
@session_options
def cli() -> None:
    """Leadline sounds language models: it scores the answers of LLM and RAG systems, and says what is wrong."""


def main() -> None:
    """Run the command line and leave with its exit code."""
    gc.set_threshold(_YOUNG)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # else it reads the metadata of every package
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # Arrow's own keeps what it frees, and is no faster
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
        # A full disk is no fault of the section or format that met it.
        refused = _refused(error, session) if error.code is ErrorCode.RUN_PUBLISHING else ""
        say(refused or f"Error [{error.code}]: {error}", always=True)
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


def _refused(error: Exception, session: Session) -> str:
    """Return the line about what the machine refused, ``""`` where an error is about something else."""
    store = session.store or os.environ.get("LEADLINE_STORE") or ".leadline"
    refused = host_fault(error, store if "://" in store else str(Path(store).absolute()))
    return f"Error [{ErrorCode.RUN_HOST}]: {refused} {ErrorCode.RUN_HOST.advice}" if refused else ""


def _own_error(error: Exception, session: Session) -> int:
    """Report a failure that nobody foresaw: one line, and the traceback in a log, unless it is the machine's."""
    if session.debug:
        _print_traceback(error)
    refused = _refused(error, session)
    if refused:
        say(refused, always=True)
        return FAILED
    text = " ".join(f"{type(error).__name__}: {error}".split())[:500]
    where = ""
    try:
        log = new_log("error")
        log.write_text(masked_traceback(error), encoding="utf-8", errors="backslashreplace")
        where = f", see {log}"
    except OSError as failure:
        where = f" (no log could be written: {failure.strerror})"
    say(f"Error [{ErrorCode.RUN_UNEXPECTED}]: leadline hit an error of its own: {text}{where}", always=True)
    return FAILED


if __name__ == "__main__":
    main()
