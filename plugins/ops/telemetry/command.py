"""``leadline service telemetry``: figures of store, ledger and Prefect's API for a Prometheus server."""

from __future__ import annotations

from pathlib import Path

import click

from leadline.flows.command.session import Session, say, session_options
from leadline.flows.prefect.server import configured_api
from leadline.flows.shared.logs import log_to_stderr
from leadline.plugins.http_server import listener, serve


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(1, 65535), default=8485, show_default=True, help="Port to listen on.")
@click.option("--every", type=click.FloatRange(1), default=15, show_default=True, help="Seconds between two readings.")
@click.option("--config", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="File with budgets.")
@click.option("--once", is_flag=True, help="Print the figures and end.")
@session_options
@click.pass_obj
def telemetry(session: Session, host: str, port: int, every: float, config: Path | None, once: bool) -> None:
    """Serve figures of the store and its calls for Prometheus.

    One exporter serves a store with all its runs and workers: what these do is in the store, the ledger and Prefect's
    API, whose address comes from PREFECT_API_URL.
    """
    from leadline.plugins.ops.telemetry.exporter import MetricsExporter, app_of, require_client

    require_client()
    log_to_stderr("leadline.telemetry")
    store = session.open_store()
    exporter = MetricsExporter(store, configured_api(), config, every)
    if once:
        click.echo(exporter.text().decode(), nl=False)
        return
    exporter.figures()  # what has ended by now is not counted
    say(f"Figures of {store.location} at http://{host}:{port}/metrics")
    with listener(host, port) as listening:
        serve(app_of(exporter), listening)
