"""``leadline server``: a Prefect server with its UI, kept on the loopback interface."""

from __future__ import annotations

import os
from dataclasses import asdict

import click

from leadline.flows.cli.output import print_json
from leadline.flows.cli.session import say, session_options


@click.group()
@session_options
def server() -> None:
    """Keep a Prefect server with its UI.

    Runs then need not start one, and their history can be looked at.
    """


@server.command()
@click.option("--port", type=click.IntRange(1, 65535), help="The port.  [default: 4200, or a free one]")
@session_options
def start(port: int | None) -> None:
    """Start the server in the background and wait until it answers."""
    from leadline.flows.prefect_server.background import start as launch

    say("Starting Prefect's server (5 to 20 s)…")
    kept = launch(port)
    click.echo(kept.url)
    configured = os.environ.get("PREFECT_API_URL")
    if configured and configured.rstrip("/") != kept.api:
        say(f"PREFECT_API_URL names another server, which is asked first: {configured}")


@server.command()
@session_options
def stop() -> None:
    """End the server."""
    from leadline.flows.prefect_server.background import stop as end

    kept = end()
    say("No server is running." if kept is None else f"Stopped the server at {kept.url}.")


@server.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@session_options
def status(as_json: bool) -> None:
    """Say whether the server runs, and where."""
    from leadline.flows.prefect_server.background import answers, running

    kept = running()
    if as_json:
        print_json({"running": kept is not None} | (asdict(kept) | {"answers": answers(kept.api)} if kept else {}))
    elif kept is None:
        click.echo("No server is running.")
    else:
        click.echo(kept.url)
        state = "running" if answers(kept.api) else "not answering"
        say(f"{state} since {kept.started}, process {kept.pid}, PREFECT_HOME {kept.prefect_home}, log {kept.log}")
