"""``leadline service deploy`` and ``worker``: what is served on a Prefect server, and by whom."""

from __future__ import annotations

import os
import signal
import socket
import sys
from dataclasses import asdict
from pathlib import Path

import click

from leadline.evaluators.ground import ErrorCode, LeadlineError, UsageError, in_project, project_scope
from leadline.flows.command.output import print_json
from leadline.flows.command.session import Session, say, session_options
from leadline.flows.deploy.file import of_project, own_file, read_deployment_file
from leadline.flows.prefect.server import lasting_api
from leadline.flows.shared.logs import prefect_environment
from leadline.tasks.store.store import Store


@click.command()
@click.option("--file", "file", type=click.Path(dir_okay=False, path_type=Path), help="A file of your own.")
@click.option(
    "--keep",
    is_flag=True,
    help="Make what is missing and what is new in Leadline, and keep what people have deployed or changed, all "
    "schedules included.",
)
@click.option("--print", "show", is_flag=True, help="Print Leadline's file, to begin your own with; deploys nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@session_options
def deploy(file: Path | None, keep: bool, show: bool, as_json: bool) -> None:
    """Make work pools, deployments and automations on the server.

    The deployments may have schedules. The server is the one that PREFECT_API_URL names, or the one that
    `leadline service server start` keeps. Doing it again changes only what differs.
    """
    if show:
        click.echo(own_file(), nl=False)
        return
    if keep and file:
        raise UsageError("--keep is for Leadline's own file.", hint="Leave out --file.", code=ErrorCode.DEPLOY_FILE)
    wanted = read_deployment_file(file)
    scope = project_scope()
    if scope is not None:
        wanted = of_project(wanted, scope.project)
    from leadline.flows.deploy.apply import deploy as make  # with all of Prefect's client

    with lasting_api() as api:
        done = []
        for item in make(wanted, keep=keep):
            done.append(item)
            if not as_json:
                say(
                    f"{item.change:<10} {item.kind} {item.name}"
                    + (f": {', '.join(item.fields)}" if item.fields else "")
                )
    if as_json:
        print_json([asdict(item) for item in done])
    else:
        changed = sum(item.change in ("created", "updated") for item in done)
        click.echo(f"{len(done)} things deployed at {api.url.removesuffix('/api')}, {changed} of them new or changed.")


@click.command()
@click.option("--pool", required=True, metavar="NAME", help="Work pool: flows, cpu, gpu or judge.")
@click.option(
    "--limit", type=click.IntRange(1), metavar="N", help="Runs in work at once.  [default: 4 for flows, else 1]"
)
@click.option("--name", metavar="NAME", help="Name of the worker.  [default: pool, host and process]")
@click.option(
    "--home",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(),
    help="Folder in which runs start: relative paths in parameters begin there.  [default: this one]",
)
@click.option("--health-port", type=click.IntRange(1, 65535), metavar="PORT", help="Tell at /health whether it works.")
@session_options
@click.pass_obj
def worker(
    session: Session, pool: str, limit: int | None, name: str | None, home: Path, health_port: int | None
) -> None:
    """Serve a work pool: cpu, gpu, judge or flows.

    SIGTERM or Ctrl-C ends it: it takes no more runs and waits for those in work; a second signal ends it at once.
    """
    pool = in_project(pool)
    with lasting_api() as api:
        _check_pool(pool)
        environment = dict(os.environ)
    store = Store.open(session.store).location
    environment |= {
        "LEADLINE_HOME": str(home.absolute()),
        "LEADLINE_STORE": store,
        "PREFECT_API_URL": api.url,
        # Deployments start their runs with the command python.
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), environment.get("PATH", os.defpath)]),
        "PYTHONSAFEPATH": "1",  # files such as secrets.py where a run starts shadow no library
    }
    environment.setdefault("PREFECT_WORKER_QUERY_SECONDS", "2")
    environment |= prefect_environment()
    name = name or f"{pool}-{socket.gethostname()}-{os.getpid()}"
    say(f"Worker {name} serves {pool} of {api.url.removesuffix('/api')}, store {store}.")
    arguments = ["-m", "prefect", "worker", "start", "--pool", pool, "--type", "process", "--name", name]
    if health_port:
        environment["PREFECT_WORKER_WEBSERVER_PORT"] = str(health_port)
        arguments.append("--with-healthcheck")
    arguments += ["--limit", str(limit or (4 if pool == in_project("flows") else 1))]
    sys.stdout.flush()
    sys.stderr.flush()
    # A shell starts background jobs with SIGINT ignored, and a worker that ignores it cannot be ended by SIGTERM.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.execve(sys.executable, [sys.executable, "-P", *arguments], environment)  # noqa: S606 - the worker is this process


def _check_pool(pool: str) -> None:
    from prefect.client.orchestration import get_client
    from prefect.exceptions import ObjectNotFound

    with get_client(sync_client=True) as client:
        try:
            found = client.read_work_pool(pool)
        except ObjectNotFound:
            known = ", ".join(sorted(entry.name for entry in client.read_work_pools())) or "none"
            raise UsageError(
                f"There is no work pool {pool!r} (there are: {known}).",
                hint="Make Leadline's: leadline service deploy",
                code=ErrorCode.DEPLOY_POOL,
            ) from None
    if found.type != "process":
        raise LeadlineError(
            f"The work pool {pool!r} is of type {found.type!r}.",
            hint="Use: prefect worker start",
            code=ErrorCode.DEPLOY_POOL,
        )
