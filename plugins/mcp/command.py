"""``leadline service mcp``: the store for assistants that speak the Model Context Protocol."""

from __future__ import annotations

import secrets
from typing import Final

import click

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.flows.command.session import Session, say, session_options
from leadline.flows.shared.logs import log_to_stderr
from leadline.plugins.http_server import listener, serve, token_in

PORT: Final = 8586
HOST: Final = "127.0.0.1"


@click.command()
@click.option("--http", "over_http", is_flag=True, help="Serve HTTP on this machine, not standard input and output.")
@click.option("--port", type=click.IntRange(1, 65535), help="With --http: port.  [default: 8586, or a free one]")
@click.option(
    "--token-env",
    default="LEADLINE_MCP_TOKEN",
    show_default=True,
    metavar="NAME",
    help="With --http: environment variable with the token; without one it is drawn.",
)
@session_options
@click.pass_obj
def mcp(session: Session, over_http: bool, port: int | None, token_env: str) -> None:
    """Let assistants read the store, as an MCP server.

    Its tools list runs, problems and cases, compare runs and answer SQL; none can change anything. Clients start it as
    a process and speak over standard input and output, or reach it over HTTP with a token.
    """
    from leadline.plugins.mcp.mcp_app import (  # refuses to be imported without the package mcp
        PATH,
        http_app,
        mcp_server,
    )

    log_to_stderr("leadline.mcp")
    store = session.open_store()
    if not over_http:
        if port is not None:
            raise UsageError("--port goes with --http.", code=ErrorCode.CONFIG_OPTION)
        mcp_server(store).run()
        return
    given = token_in(token_env)
    token = given or secrets.token_urlsafe(24)
    with listener(HOST, *((PORT, 0) if port is None else (port,))) as listening:
        app = http_app(store, token, HOST)
        click.echo(f"http://{HOST}:{listening.getsockname()[1]}{PATH}")
        click.echo(f"Authorization: Bearer {f'${token_env}' if given else token}")
        say(f"Runs of {store.location}. Ctrl-C ends it.")
        try:
            serve(app, listening)
        except KeyboardInterrupt:  # uvicorn has ended its connections, and passes the signal on
            say("Ended.")
