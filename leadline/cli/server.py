"""``leadline server``: a Prefect server with its UI, kept on the loopback interface."""

from __future__ import annotations

import os
from dataclasses import asdict

import click

from leadline.flows.command.output import print_json
from leadline.flows.command.session import say, session_options


@click.group()
@session_options
def server() -> None:
    """Keep a Prefect server with its UI.

    Runs start one themselves, which ends when it is not used; one that is started here stays, and serves deployments.
    """


@server.command()
@click.option("--port", type=click.IntRange(1, 65535), help="The port.  [default: 4200, or a free one]")
@click.option(
    "--idle",
    metavar="MINUTES",
    default="never",
    show_default=True,
    help="End the server when it was not used for so many minutes.",
)
@session_options
def start(port: int | None, idle: str) -> None:
    """Start the server in the background and wait until it answers.

    It serves deployments, too. A server that a run started gives way to it.
    """
    from leadline.flows.prefect.background import start as launch
    from leadline.flows.prefect.choice import minutes

    limit = minutes(idle, "--idle")
    say("Starting Prefect's server (3 to 10 s)…")
    kept = launch(port, idle_minutes=limit)
    click.echo(kept.url)
    configured = os.environ.get("PREFECT_API_URL")
    if configured and configured.rstrip("/") != kept.api:
        say(f"PREFECT_API_URL names another server, which is asked first: {configured}")


@server.command()
@session_options
def stop() -> None:
    """End the server."""
    from leadline.flows.prefect.background import stop as end

    kept = end()
    say("No server is running." if kept is None else f"Stopped the server at {kept.url}.")


@server.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@session_options
def status(as_json: bool) -> None:
    """Say whether the server runs, and where."""
    from leadline.flows.prefect.background import answers, running

    kept = running()
    if as_json:
        print_json({"running": kept is not None} | (asdict(kept) | {"answers": answers(kept.api)} if kept else {}))
    elif kept is None:
        click.echo("No server is running.")
    else:
        click.echo(kept.url)
        state = "running" if answers(kept.api) else "not answering"
        end = "until it is stopped" if kept.idle_minutes is None else f"until {kept.idle_minutes:g} min without use"
        purpose = "deployments and runs" if kept.services == "all" else "runs only"
        say(
            f"{state} since {kept.started} {end}, for {purpose}, process {kept.pid}, PREFECT_HOME {kept.prefect_home}, "
            f"log {kept.log}"
        )
