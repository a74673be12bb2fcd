"""``leadline service dask-worker``: scores chunks of a lane for runs that a Dask scheduler gives them to."""

from __future__ import annotations

import os

import click

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.flows.command.session import say, session_options


@click.command()
@click.argument("address", metavar="ADDRESS")
@click.option("--lane", type=click.Choice(("cpu", "gpu", "judge")), required=True, help="The lane to serve.")
@click.option(
    "--processes",
    type=click.IntRange(1, 256),
    metavar="N",
    help="Worker processes.  [default: cpu one per core, else 1]",
)
@session_options
def dask_worker(address: str, lane: str, processes: int | None) -> None:
    """Score chunks of a lane for runs with --dispatch ADDRESS.

    ADDRESS is dask://HOST:PORT or tls://HOST:PORT, of Dask's own scheduler (dask scheduler). Everybody who reaches it
    can run code here: it belongs into a network that you trust. A scheduler that is away is waited for. SIGTERM or
    Ctrl-C ends the worker; others take its chunks.
    """
    from leadline.flows.shared.settings import Dispatch, is_dask

    if not is_dask(address) or address == Dispatch.DASK:
        raise UsageError(
            f"{address[:80]!r} is no address of a Dask scheduler.",
            hint="Give dask://HOST:PORT or tls://HOST:PORT.",
            code=ErrorCode.CONFIG_OPTION,
        )
    os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "warning")  # which Dask reads when it is imported
    from leadline.plugins.dask.dask_cluster import scheduler_address, serve_until_signal

    serve_until_signal(scheduler_address(address), lane, processes, say)  # type: ignore[arg-type]
