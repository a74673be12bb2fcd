"""The command ``leadline``: which subcommands there are, and how every ending becomes one line and an exit code.

Exit codes: 0 fine, 1 the gate failed, 2 bad input or usage, 3 the run itself failed, 130 interrupted. Standard output
carries results only, messages go to standard error. Nothing heavy is imported before a command needs it.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Final

import click

from leadline.evaluators.core.error_codes import ErrorCode
from leadline.evaluators.core.errors import LeadlineError
from leadline.flows.cli.session import Session, say, session_options

INTERRUPTED: Final = 130
MISUSED: Final = 2
FAILED: Final = 3
BROKEN_PIPE: Final = 141

COMMANDS: Final = {
    "evaluate": ("evaluate", "Score the answers in a dataset and write a report."),
    "collect": ("collect", "Ask models for their answers to the cases of a suite."),
    "plan": ("evaluate", "Show what an evaluation would reuse and compute."),
    "evaluators": ("catalogue", "List the evaluators, or show one."),
    "suites": ("catalogue", "List the named sets of evaluators."),
    "models": ("models", "List local model weights, or fetch them."),
    "runs": ("runs", "List the runs in the store."),
    "show": ("show", "Show what a run found."),
    "calls": ("calls", "List calls to judges and models, or show one with its reply."),
    "reparse": ("calls", "Score a run anew from the judge's stored replies."),
    "sql": ("sql", "Query all runs together."),
    "compare": ("compare", "Compare two runs, models or versions case by case."),
    "tag": ("compare", "Name a run, for example as the baseline."),
    "export": ("export", "Write a run's results to a file."),
    "generate": ("generate", "Make questions and answers from documents."),
    "perturb": ("perturb", "Write a suite with perturbed copies of its cases."),
    "rgb": ("rgb", "Make RGB's test cases, and print the paper's tables."),
    "server": ("server", "Keep a Prefect server with its UI."),
    "deploy": ("deploy", "Make work pools, deployments and automations on the server."),
    "worker": ("deploy", "Serve a work pool: cpu, gpu, judge or flows."),
    "emit": ("events", "Send the event that a model has a new version."),
    "events": ("events", "List events and what they started."),
    "webhook": ("webhook", "Turn a model registry's webhooks into that event."),
    "check-version": ("check_version", "Evaluate a new version of a model, and decide."),
    "versions": ("check_version", "List the model versions that were evaluated."),
    "version": ("version", "Show versions."),
}
"""Each command with the module of :mod:`leadline.flows.cli` that has it, and its line in the help."""


class LazyGroup(click.Group):
    """A group that imports a command's module when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order in which a newcomer needs them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(
            importlib.import_module(f"leadline.flows.cli.{COMMANDS[cmd_name][0]}"), cmd_name.replace("-", "_")
        )
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command, and suggest the nearest where there is none of that name."""
        import difflib

        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise click.UsageError(f"There is no command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


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
            stream.reconfigure(errors="backslashreplace")  # an answer may hold what the terminal cannot show
    if "_LEADLINE_COMPLETE" in os.environ:
        cli.main(prog_name="leadline")  # a shell asks how to complete a command line
    code = run(sys.argv[1:])
    if code in (MISUSED, FAILED):
        # A traceback still holds what failed; DuckDB's binding would list all of that as leaked on the way out.
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    session = Session()
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
            traceback.print_exc()
        wrong_usage = error.ctx if isinstance(error, click.UsageError) else None
        hint = f" See: {wrong_usage.command_path} --help" if wrong_usage else ""
        say(f"Error [{ErrorCode.CONFIG_OPTION}]: {' '.join(error.format_message().split())}{hint}", always=True)
        return error.exit_code
    except LeadlineError as error:
        if session.debug:
            traceback.print_exc()
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


def _own_error(error: Exception, session: Session) -> int:
    """Report a failure that nobody foresaw: one line, and the traceback in a log."""
    if session.debug:
        traceback.print_exc()
    text = " ".join(f"{type(error).__name__}: {error}".split())[:500]
    where = ""
    try:
        from leadline.flows.prefect_server.logs import new_log

        log = new_log("error")
        log.write_text(traceback.format_exc(), encoding="utf-8", errors="backslashreplace")
        where = f", see {log}"
    except OSError as failure:
        where = f" (no log could be written: {failure.strerror})"
    say(f"Error [{ErrorCode.RUN_UNEXPECTED}]: leadline hit an error of its own: {text}{where}", always=True)
    return FAILED


if __name__ == "__main__":
    main()
