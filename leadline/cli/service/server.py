"""``leadline service server``: a Prefect server with its UI, kept on the loopback interface."""

from __future__ import annotations

import os
from dataclasses import asdict

import click

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.flows.command.output import print_json
from leadline.flows.command.session import say, session_options
from leadline.flows.prefect import server as prefect_server


@click.group()
@session_options
def server() -> None:
    """Keep a Prefect server with its UI.

    It keeps the history of the runs of all commands, and serves deployments.
    """


@server.command()
@click.option("--port", type=click.IntRange(1, 65535), help="The port.  [default: 4200, or a free one]")
@click.option(
    "--idle",
    metavar="MINUTES",
    default="never",
    show_default=True,
    help="End the server after so many minutes without use.",
)
@session_options
def start(port: int | None, idle: str) -> None:
    """Start the server in the background, unless it runs.

    Waits until it answers.
    """
    limit = _minutes(idle)
    if prefect_server.running() is None:
        say("Starting Prefect's server (3 to 10 s)…")
    kept = prefect_server.start(port, idle_minutes=limit)
    click.echo(kept.url)
    say(f"Runs are recorded there from now on. The server {_end_of(kept)}.")
    configured = os.environ.get("PREFECT_API_URL")
    if configured and configured.rstrip("/") != kept.api:
        say(f"PREFECT_API_URL names another server, which is asked first: {configured}")


def _minutes(text: str) -> float | None:
    """Read a number of minutes, or ``never``."""
    try:
        number = None if text == "never" else float(text)
    except ValueError:
        number = 0.0
    if number is not None and not 0 < number < float("inf"):
        raise UsageError(
            f"--idle: {text[:40]!r} is neither a number of minutes nor 'never'.", code=ErrorCode.CONFIG_OPTION
        )
    return number


def _end_of(kept: prefect_server.BackgroundServer) -> str:
    minutes = kept.idle_minutes
    return "stays until: leadline service server stop" if minutes is None else f"ends after {minutes:g} min without use"


@server.command()
@session_options
def stop() -> None:
    """End the server."""
    kept = prefect_server.stop()
    say("No server is running." if kept is None else f"Stopped the server at {kept.url}.")


@server.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@session_options
def status(as_json: bool) -> None:
    """Say whether the server runs, and where."""
    kept = prefect_server.running()
    if as_json:
        print_json(
            {"running": kept is not None}
            | (asdict(kept) | {"answers": prefect_server.answers(kept.api)} if kept else {})
        )
    elif kept is None:
        click.echo("No server is running.")
    else:
        click.echo(kept.url)
        state = "running" if prefect_server.answers(kept.api) else "not answering"
        say(
            f"{state} since {kept.started}, {_end_of(kept)}, process {kept.pid}, PREFECT_HOME {kept.prefect_home}, "
            f"log {kept.log}"
        )
