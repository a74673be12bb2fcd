"""The Prefect server that is kept in the background on the loopback interface: found, started, used, ended.

``leadline server start`` starts one that stays until it is stopped. A command that runs on a Prefect API starts one
where there is none; that one ends when nobody has used it for a while. There is one for each ``PREFECT_HOME``.

The server inherits a file lock from the process that starts it and keeps it until it ends. The lock, not the record,
says whether a server runs: a stale record or a reused process number does no harm, and of many commands at once one
starts a server. Whoever uses a kept server shares a second lock, so that it does not end for want of requests.
Nothing here imports Prefect.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from leadline.evaluators.ground.error_codes import ErrorCode
from leadline.evaluators.ground.errors import LeadlineError, UsageError
from leadline.evaluators.ground.secret_values import without_secret_variables
from leadline.flows.prefect import flock
from leadline.flows.prefect.logs import log_folder, tail
from leadline.flows.prefect.prefect_settings import prefect_home
from leadline.flows.prefect.server_settings import DRAIN_TIMEOUT_S, START_TIMEOUT_S, ServerOptions, Services
from leadline.tasks.ground.user_folder import state_folder

DEFAULT_PORT: Final = 4200
STOP_TIMEOUT_S: Final = DRAIN_TIMEOUT_S + 10.0
PAUSE_S: Final = 0.05

_started: Final[list[subprocess.Popen[bytes]]] = []
"""Servers that this process started; they are left running."""


@dataclass(frozen=True, slots=True)
class BackgroundServer:
    """A server that runs in the background.

    Attributes:
        pid: Its process, leader of a session of its own.
        url: Its UI.
        api: Its API, as ``PREFECT_API_URL`` takes it.
        services: What it does beside answering.
        prefect_home: The ``PREFECT_HOME`` that it serves.
        prefect: Its version of Prefect.
        idle_minutes: Minutes without a request after which it ends; ``None`` for never.
        started: When it was started, as ISO 8601 in UTC.
        log: Its log file.
    """

    pid: int
    url: str
    api: str
    services: Services
    prefect_home: str
    prefect: str
    idle_minutes: float | None
    started: str
    log: str


def answers(api: str, timeout: float = 3.0) -> bool:
    """Return whether a Prefect API responds at this URL; 401 and 403 count as a response.

    So does a certificate that is not trusted here: Prefect's client may know its authority, and says if it does not.

    Args:
        api: URL of the API.
        timeout: Longest wait in seconds.
    """
    import ssl
    import urllib.error
    import urllib.request

    proxies: dict[str, str] | None = {} if is_loopback(api) else None
    opener = urllib.request.build_opener(urllib.request.ProxyHandler(proxies))
    try:
        with opener.open(f"{api.rstrip('/')}/health", timeout=timeout) as reply:
            return int(reply.status) < 500
    except urllib.error.HTTPError as error:
        return error.code in (401, 403)
    except urllib.error.URLError as error:
        return isinstance(error.reason, ssl.SSLCertVerificationError)
    except (OSError, ValueError):
        return False


def is_loopback(url: str) -> bool:
    """Return whether a URL names this machine."""
    from urllib.parse import urlsplit

    try:
        return urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1")
    except ValueError:
        return False


def prefect_version() -> str:
    """Return the version of the installed Prefect."""
    from importlib.metadata import version

    return version("prefect")


def running() -> BackgroundServer | None:
    """Return the kept server of this ``PREFECT_HOME``, ``None`` when there is none or it is still starting."""
    if not _is_locked():
        return None
    try:
        record = json.loads(_place(".json").read_text(encoding="utf-8"))
        return BackgroundServer(**{field.name: record[field.name] for field in fields(BackgroundServer)})
    except (OSError, ValueError, TypeError, KeyError):
        return None  # just starting, or just ending


def launch(*, services: Services = "runs", idle_minutes: float | None, port: int | None = None) -> bool:
    """Start a server, unless one runs or is starting already, and do not wait for it.

    Args:
        services: What it does beside answering.
        idle_minutes: Minutes without a request after which it ends; ``None`` for never.
        port: The port; by default 4200, or any free one where that is taken.

    Returns:
        Whether this call started it.
    """
    with _place(".lock").open("ab") as lock:
        if not flock.taken(lock):
            return False
        record = _place(".json")
        record.unlink(missing_ok=True)  # left by a server that died
        home, log = prefect_home(), _log()
        options = ServerOptions(
            log=str(log),
            services=services,
            port=port or DEFAULT_PORT,
            or_any_port=port is None,
            record=str(record),
            users=str(_place(".users")),
            idle_s=None if idle_minutes is None else idle_minutes * 60,
            about={
                "prefect_home": str(home),
                "prefect": prefect_version(),
                "idle_minutes": idle_minutes,
                "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "log": str(log),
            },
        )
        with log.open("wb") as output:
            process = subprocess.Popen(  # noqa: S603 - our own module
                options.command(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=_environment(services) | {"PREFECT_HOME": str(home)},
                pass_fds=(lock.fileno(),),
                start_new_session=True,
            )
        _started.append(process)
        return True


def wait(timeout: float = START_TIMEOUT_S) -> BackgroundServer:
    """Wait until the kept server answers, and return it.

    Args:
        timeout: Longest wait in seconds.

    Raises:
        LeadlineError: It ended, or does not answer in time.
    """
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        kept = running()
        if kept is not None and answers(kept.api, timeout=max(0.5, min(3.0, deadline - time.monotonic()))):
            return kept
        if not _is_locked():
            raise LeadlineError(
                f"Prefect's server ended as it started: {tail(_log(), 1) or 'it said nothing'}",
                hint=f"Its log: {_log()}",
                code=ErrorCode.SERVER_START,
            )
        time.sleep(PAUSE_S)
    raise LeadlineError(
        f"Prefect's server does not answer after {timeout:.0f} s.",
        hint=f"Its log: {_log()}",
        code=ErrorCode.SERVER_START,
    )


@contextmanager
def use(timeout: float = STOP_TIMEOUT_S) -> Iterator[None]:
    """Keep the server from ending for want of requests while the block runs.

    Args:
        timeout: How long to wait, in seconds, for a server that is just ending.

    Raises:
        LeadlineError: It does not end.
    """
    deadline = time.monotonic() + timeout
    with _place(".users").open("ab") as users:
        while not flock.taken(users, shared=True):
            if time.monotonic() > deadline:
                raise LeadlineError("The kept Prefect server does not end.", code=ErrorCode.SERVER_RUNNING)
            time.sleep(PAUSE_S)
        yield


def started_here(kept: BackgroundServer) -> bool:
    """Return whether this process started a server."""
    return any(process.pid == kept.pid for process in _started)


def start(port: int | None = None, *, idle_minutes: float | None = None) -> BackgroundServer:
    """Start a server with all services and wait until it answers; one that a run started gives way to it.

    Args:
        port: The port; by default 4200, or any free one where that is taken.
        idle_minutes: Minutes without a request after which it ends; ``None`` for never.

    Raises:
        UsageError: One is running already, or the port is taken.
        LeadlineError: It did not start.
    """
    _make_way()
    if port is not None:
        _require_free(port)
    if not launch(services="all", idle_minutes=idle_minutes, port=port):
        raise _running_already(running())
    try:
        return wait()
    except LeadlineError:
        with suppress(LeadlineError):
            stop()
        raise


def stop() -> BackgroundServer | None:
    """End the kept server, by force if it does not listen; return it, ``None`` when there was none."""
    kept = running()
    if kept is None:
        return None
    for number, patience in ((signal.SIGTERM, STOP_TIMEOUT_S), (signal.SIGKILL, 5.0)):
        with suppress(ProcessLookupError):
            os.killpg(kept.pid, number)
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            if not _is_locked():
                return kept
            time.sleep(PAUSE_S)
    raise LeadlineError(
        f"The server with process number {kept.pid} does not end.",
        hint=f"Its log: {kept.log}",
        code=ErrorCode.SERVER_RUNNING,
    )


def _environment(services: Services) -> dict[str, str]:
    """Return the environment of a server; one that a run started keeps none of the run's API keys."""
    return dict(os.environ) if services == "all" else without_secret_variables(os.environ)


def _make_way() -> None:
    """End a server that a run started, if no run uses it; it lacks the services that deployments need."""
    kept = running()
    if kept is None or kept.services == "all":
        if _is_locked():
            raise _running_already(kept)
        return
    with _place(".users").open("ab") as users:
        if not flock.taken(users):
            raise UsageError(
                f"A run uses the server that it started: {kept.url}",
                hint="Try again when the run has ended, or stop the server: leadline server stop",
                code=ErrorCode.SERVER_RUNNING,
            )
        stop()


def _running_already(kept: BackgroundServer | None) -> UsageError:
    where = f": {kept.url}" if kept else ", and is just starting."
    return UsageError(
        f"A server is running already{where}", hint="Stop it: leadline server stop", code=ErrorCode.SERVER_RUNNING
    )


def _require_free(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            raise UsageError(
                f"Port {port} is taken or not allowed.",
                hint="Leave --port away to have a free one chosen.",
                code=ErrorCode.SERVER_PORT,
            ) from None


def _is_locked() -> bool:
    """Return whether a server runs, starts or ends."""
    if not flock.AVAILABLE:
        return False
    with _place(".lock").open("ab") as file:
        return not flock.taken(file, shared=True)


def _place(suffix: str) -> Path:
    """Return a file of the kept server of this ``PREFECT_HOME`` on this machine."""
    key = hashlib.sha256(f"{socket.gethostname()}\0{prefect_home()}".encode()).hexdigest()[:12]
    folder = state_folder() / "servers"
    folder.mkdir(exist_ok=True, mode=0o700)
    return folder / f"{key}{suffix}"


def _log() -> Path:
    return log_folder() / f"server-{_place('').name}.log"
