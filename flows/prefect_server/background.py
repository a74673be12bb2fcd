"""The Prefect server that ``leadline server start`` runs in the background on the loopback interface, with its UI.

The server inherits a file lock from the process that starts it and keeps it until it ends. The lock, not the record,
says whether the server runs, so a stale record or a reused process number does no harm.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Final

from filelock import lock_descriptor

from leadline.evaluators.core.error_codes import ErrorCode
from leadline.evaluators.core.errors import LeadlineError, UsageError
from leadline.flows.prefect_server.logs import new_log, tail
from leadline.flows.prefect_server.server_settings import BATCHED_WRITES, NO_TELEMETRY, START_LOCK, START_TIMEOUT_S
from leadline.tasks.store.locks import locked
from leadline.tasks.store.user_folder import state_folder

DEFAULT_PORT: Final = 4200
STOP_TIMEOUT_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class BackgroundServer:
    """A server that runs in the background.

    Attributes:
        pid: Its process, leader of a session of its own.
        url: Its UI.
        api: Its API, as ``PREFECT_API_URL`` takes it.
        prefect_home: The ``PREFECT_HOME`` that it serves.
        started: When it was started, as ISO 8601 in UTC.
        log: Its log file.
    """

    pid: int
    url: str
    api: str
    prefect_home: str
    started: str
    log: str


def answers(api: str, timeout: float = 3.0) -> bool:
    """Return whether a Prefect API responds at this URL; 401 and 403 count as a response.

    Args:
        api: URL of the API.
        timeout: Longest wait in seconds.
    """
    proxies: dict[str, str] | None = {} if is_loopback(api) else None
    opener = urllib.request.build_opener(urllib.request.ProxyHandler(proxies))
    try:
        with opener.open(f"{api.rstrip('/')}/health", timeout=timeout) as reply:
            return int(reply.status) < 500
    except urllib.error.HTTPError as error:
        return error.code in (401, 403)
    except (OSError, ValueError):
        return False


def is_loopback(url: str) -> bool:
    """Return whether a URL names this machine."""
    try:
        return urllib.parse.urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1")
    except ValueError:
        return False


def running() -> BackgroundServer | None:
    """Return the server in the background, ``None`` when there is none or it is still starting."""
    with _lock_file() as file:
        if lock_descriptor(file.fileno(), blocking=False):
            _record_path().unlink(missing_ok=True)  # left by a server that died
            return None
    try:
        return BackgroundServer(**json.loads(_record_path().read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None  # just starting


def start(port: int | None = None) -> BackgroundServer:
    """Start a server and wait until it answers.

    Args:
        port: The port; by default 4200, or any free one where that is taken.

    Raises:
        UsageError: One is running already, or the port is taken.
        LeadlineError: It did not start.
    """
    with _lock_file() as lock:
        if not lock_descriptor(lock.fileno(), blocking=False):
            kept = running()
            where = f": {kept.url}" if kept else ", and is just starting."
            raise UsageError(
                f"A server is running already{where}",
                hint="Stop it: leadline server stop",
                code=ErrorCode.SERVER_RUNNING,
            )
        _record_path().unlink(missing_ok=True)
        chosen = _choose_port(port)
        home = _prefect_home()
        with locked(home / START_LOCK):
            return _launch(chosen, home, lock)


def stop() -> BackgroundServer | None:
    """End the server in the background, by force if it does not listen; return it, ``None`` when there was none."""
    kept = running()
    if kept is None:
        return None
    for number, patience in ((signal.SIGTERM, STOP_TIMEOUT_S), (signal.SIGKILL, 5.0)):
        with suppress(ProcessLookupError):
            os.killpg(kept.pid, number)
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            if running() is None:
                return kept
            time.sleep(0.1)
    raise LeadlineError(
        f"The server with process number {kept.pid} does not end.",
        hint=f"Its log: {kept.log}",
        code=ErrorCode.SERVER_RUNNING,
    )


def _launch(port: int, home: Path, lock: IO[bytes]) -> BackgroundServer:
    log = new_log("server")
    url = f"http://127.0.0.1:{port}"
    environment = (
        BATCHED_WRITES | NO_TELEMETRY | os.environ | {"PREFECT_API_URL": f"{url}/api", "PREFECT_HOME": str(home)}
    )
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - Prefect's own command
            [sys.executable, "-P", "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            pass_fds=(lock.fileno(),),
            start_new_session=True,
        )
    kept = BackgroundServer(
        pid=process.pid,
        url=url,
        api=f"{url}/api",
        prefect_home=str(home),
        started=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        log=str(log),
    )
    try:
        _wait_until_up(process, kept)
        record = _record_path()
        draft = record.with_suffix(f".{os.getpid()}.tmp")
        draft.write_text(json.dumps(asdict(kept)) + "\n", encoding="utf-8")
        os.replace(draft, record)
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    return kept


def _wait_until_up(process: subprocess.Popen[bytes], kept: BackgroundServer) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not answers(kept.api, timeout=1.0):
        if process.poll() is not None:
            raise LeadlineError(
                f"Prefect's server ended as it started: {tail(Path(kept.log))}",
                hint=f"Its log: {kept.log}",
                code=ErrorCode.SERVER_START,
            )
        if time.monotonic() > deadline:
            raise LeadlineError(
                f"Prefect's server does not answer after {START_TIMEOUT_S:.0f} s.",
                hint=f"Its log: {kept.log}",
                code=ErrorCode.SERVER_START,
            )
        time.sleep(0.1)


def _choose_port(wanted: int | None) -> int:
    for port in (DEFAULT_PORT, 0) if wanted is None else (wanted,):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return int(probe.getsockname()[1])
    raise UsageError(
        f"Port {wanted} is taken or not allowed.",
        hint="Leave --port away to have a free one chosen.",
        code=ErrorCode.SERVER_PORT,
    )


def _prefect_home() -> Path:
    from prefect.settings import PREFECT_HOME

    return Path(PREFECT_HOME.value())


def _record_path() -> Path:
    return state_folder() / "server.json"


@contextmanager
def _lock_file() -> Iterator[IO[bytes]]:
    """Open the server's lock file; a lock on it is released when its last descriptor, here or there, is closed."""
    with (state_folder() / "server.lock").open("ab") as file:
        yield file
