"""The Prefect server that ``leadline service server start`` keeps in the background: started, found, ended.

There is one for each ``PREFECT_HOME``, on the loopback interface. A record says where it is; it counts only while the
process that wrote it lives, so one that a killed server left behind, or a reused process number, does no harm.
Nothing here imports Prefect.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from leadline.evaluators.ground import ErrorCode, LeadlineError, UsageError, without_secret_variables
from leadline.flows.prefect.prefect_settings import BATCHED_WRITES, NO_TELEMETRY, RETENTION, prefect_home
from leadline.flows.shared.log_files import log_folder, tail
from leadline.tasks.ground.files import locked, state_folder
from leadline.tasks.ground.processes import is_alive, process_of

DEFAULT_PORT: Final = 4200
START_TIMEOUT_S: Final = 90.0
"""Prefect's own limit is 20 s, which a first start with its migrations reaches on a slow machine."""

STOP_TIMEOUT_S: Final = 25.0
PAUSE_S: Final = 0.05

_started: Final[list[subprocess.Popen[bytes]]] = []
"""Servers that this process started and leaves running."""


@dataclass(frozen=True, slots=True)
class BackgroundServer:
    """A server that runs in the background.

    Attributes:
        pid: Its process, leader of a session of its own.
        url: Its UI.
        api: Its API, as ``PREFECT_API_URL`` takes it.
        prefect_home: The ``PREFECT_HOME`` that it serves.
        prefect: Its version of Prefect.
        idle_minutes: Minutes without a request after which it ends; ``None`` for never.
        started: When it was started, as ISO 8601 in UTC.
        log: Its log file.
    """

    pid: int
    url: str
    api: str
    prefect_home: str
    prefect: str
    idle_minutes: float | None
    started: str
    log: str

    def problem(self) -> str:
        """Return why no run can be recorded by it, ``""`` where one can."""
        if self.prefect != prefect_version():
            return f"The kept Prefect server is of version {self.prefect}, and this is {prefect_version()}"
        return "" if answers(self.api) else f"The kept Prefect server at {self.url} does not answer"


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
    try:
        record = json.loads(_place(".json").read_text(encoding="utf-8"))
        kept = BackgroundServer(**{field.name: record[field.name] for field in fields(BackgroundServer)})
        return kept if is_alive(process_of(record["process"])) else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def start(port: int | None = None, *, idle_minutes: float | None = None) -> BackgroundServer:
    """Start a server and wait until it answers; one that runs already is as good.

    Args:
        port: The port; by default 4200, or any free one where that is taken.
        idle_minutes: Minutes without a request after which it ends; ``None`` for never.

    Raises:
        UsageError: One runs on another port or cannot be used, or the port is taken.
        LeadlineError: It did not start.
    """
    try:
        lock = locked(_place(".lock")).acquire(timeout=START_TIMEOUT_S)
    except TimeoutError:
        raise LeadlineError("Another command is starting the server.", code=ErrorCode.SERVER_RUNNING) from None
    with lock:
        kept = running()
        if kept is None:
            return _start(_free_port(port), idle_minutes)
        problem = kept.problem() or (
            f"A server is running already: {kept.url}" if port and not kept.url.endswith(f":{port}") else ""
        )
        if problem:
            raise UsageError(f"{problem}.", hint="Stop it: leadline service server stop", code=ErrorCode.SERVER_RUNNING)
        return kept


def _start(port: int, idle_minutes: float | None) -> BackgroundServer:
    home, log = prefect_home(), log_folder() / f"server-{_place('').name}.log"
    own = {"PREFECT_HOME": str(home), "PREFECT_API_URL": f"http://127.0.0.1:{port}/api"}
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - our own module
            command(_place(".json"), port, home, log, idle_minutes),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=BATCHED_WRITES | NO_TELEMETRY | RETENTION | without_secret_variables(os.environ) | own,
            start_new_session=True,  # Ctrl-C is for the command, not for what stays
        )
    _started.append(process)
    deadline, why = time.monotonic() + START_TIMEOUT_S, f"does not answer after {START_TIMEOUT_S:.0f} s"
    while time.monotonic() < deadline:
        kept = running()
        if kept is not None and answers(kept.api):
            return kept
        if process.poll() is not None:
            why = f"ended as it started: {tail(log, 1) or 'it said nothing'}"
            break
        time.sleep(PAUSE_S)
    process.kill()
    raise LeadlineError(f"Prefect's server {why}.", hint=f"Its log: {log}", code=ErrorCode.SERVER_START)


def command(record: Path, port: int, home: Path, log: Path, idle_minutes: float | None = None) -> list[str]:
    """Return the command of the server's process; files such as secrets.py in the working directory shadow no library.

    Args:
        record: File that says where the server is once it answers.
        home: Its ``PREFECT_HOME``.
        log: Where its output goes.
        idle_minutes: Minutes without a request after which it ends; ``None`` for never.
    """
    url = f"http://127.0.0.1:{port}"
    about = {
        "url": url,
        "api": f"{url}/api",
        "prefect_home": str(home),
        "prefect": prefect_version(),
        "idle_minutes": idle_minutes,
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "log": str(log),
    }
    return [sys.executable, "-P", "-m", "leadline.flows.prefect.serving", str(record), json.dumps(about)]


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
            if running() != kept:
                return kept
            time.sleep(PAUSE_S)
    raise LeadlineError(
        f"The server with process number {kept.pid} does not end.",
        hint=f"Its log: {kept.log}",
        code=ErrorCode.SERVER_RUNNING,
    )


def _free_port(wanted: int | None) -> int:
    for port in (wanted,) if wanted else (DEFAULT_PORT, 0):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe, suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])
    raise UsageError(
        f"Port {wanted} is taken or not allowed.",
        hint="Remove --port to have a free one chosen.",
        code=ErrorCode.SERVER_PORT,
    )


def _place(suffix: str) -> Path:
    """Return a file of the kept server of this ``PREFECT_HOME`` on this machine."""
    key = hashlib.sha256(f"{socket.gethostname()}\0{prefect_home()}".encode()).hexdigest()[:12]
    folder = state_folder() / "servers"
    folder.mkdir(exist_ok=True, mode=0o700)
    return folder / f"{key}{suffix}"
