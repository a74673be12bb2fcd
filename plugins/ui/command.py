"""``leadline ui``: the runs of a store and their reports, in a browser."""

from __future__ import annotations

import os
import secrets
from typing import Final
from urllib.parse import urlsplit

import click

from leadline.flows.command.session import Session, say, session_options
from leadline.flows.prefect.report_links import ui_address
from leadline.flows.shared.logs import log_to_stderr
from leadline.plugins.http_server import listener, serve, token_in

PORT: Final = 8585


@click.command()
@click.option("--port", type=click.IntRange(1, 65535), help="Port to listen on.  [default: 8585, or a free one]")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--token-env",
    default="LEADLINE_UI_TOKEN",
    show_default=True,
    metavar="NAME",
    help="Environment variable with the token; without one it is drawn.",
)
@session_options
@click.pass_obj
def ui(session: Session, port: int | None, host: str, token_env: str) -> None:
    """Show the store's runs and their reports in a browser.

    The address that it prints holds a token, which the browser keeps as a cookie. Nothing can be changed there.
    """
    from leadline.plugins.ui.app import protected, workbench

    log_to_stderr("leadline.ui")
    given = token_in(token_env)
    store = session.open_store()
    public = ui_address()
    base = urlsplit(public).path
    pages = workbench(store, os.environ.get("PREFECT_UI_URL", "").rstrip("/"), base)
    with listener(host, *((PORT, 0) if port is None else (port,))) as listening:
        number = listening.getsockname()[1]
        token = given or secrets.token_urlsafe(24)
        app = protected(pages, token, cookie=f"leadline-ui-{number}", secure=public.startswith("https://"), base=base)
        shown = f"[{host}]" if ":" in host else host
        click.echo(f"http://{shown}:{number}/?token={f'${token_env}' if given else token}")
        say(f"Runs of {store.location}. Ctrl-C ends it.")
        try:
            serve(app, listening)
        except KeyboardInterrupt:  # uvicorn has ended its connections, and passes the signal on
            say("Ended.")
