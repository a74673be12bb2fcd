"""The Prefect server of a run: the one that is configured, else the one that this machine keeps in the background.

``leadline service server start`` keeps one for each ``PREFECT_HOME``, on the loopback interface. A record says where it
is; it counts only while the process that wrote it lives, so one that a killed server left behind, or a reused process
number, does no harm.

No run starts a server. One that has none takes the same steps in its own process: it lacks nothing but a history, and
one line says how to keep one. A command decides before Prefect is imported, which takes most of a second, so what the
user says of a server is read here. The sources and their order are Prefect's own: the environment, ``.env``,
``prefect.toml`` and ``pyproject.toml`` in the working directory, and the active profile.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit

from leadline.evaluators.ground import (
    FILE,
    ErrorCode,
    LeadlineError,
    UsageError,
    settings_table,
    without_secret_variables,
)
from leadline.flows.shared.logs import log_folder, tail
from leadline.tasks.ground.files import locked, state_folder
from leadline.tasks.ground.outages import server_wait_s
from leadline.tasks.ground.processes import is_alive, process_of
from leadline.tasks.ground.timeline import in_step

if TYPE_CHECKING:
    from prefect.settings.legacy import Setting


BATCHED_WRITES: Final = {
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "200",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "200",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_READ_BATCH_SIZE": "200",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_BATCH_SIZE": "200",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_FLUSH_INTERVAL": "1",
}
"""Settings with which the server writes task runs and events in batches: hundreds a second instead of some 30."""

RETENTION: Final = {
    "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs",
    "PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD": str(90 * 86_400),
    "PREFECT_SERVER_EVENTS_RETENTION_PERIOD": "P30D",
}
"""Settings with which the server deletes, every hour, flow runs (with their task runs, logs and artifacts) that ended
more than so many seconds ago, and events older than 30 days. The environment may say otherwise."""

NO_TELEMETRY: Final = {"PREFECT_SERVER_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "1"}
"""Settings that turn off Prefect's telemetry."""


def prefect_home() -> Path:
    """Return the folder with Prefect's database and profiles."""
    return Path(_setting("PREFECT_HOME", "home") or Path.home() / ".prefect").expanduser().absolute()


def configured_api() -> str | None:
    """Return the API that the user configured, ``None`` without one."""
    return _setting("PREFECT_API_URL", "api", "url") or None


def guarded() -> bool:
    """Return whether requests to an API need more than its address."""
    return any(
        (
            _setting("PREFECT_API_AUTH_STRING", "api", "auth_string"),
            _setting("PREFECT_API_KEY", "api", "key"),
            _setting("PREFECT_SERVER_API_AUTH_STRING", "server", "api", "auth_string"),
            _setting("PREFECT_SERVER_API_CSRF_PROTECTION_ENABLED", "server", "api", "csrf_protection_enabled"),
        )
    )


def _setting(name: str, *path: str) -> str | None:
    if os.environ.get(name):
        return os.environ[name]
    sources: tuple[Callable[[], Any], ...] = (
        lambda: _dotenv().get(name),
        lambda: _at(_table(Path("prefect.toml")), *path),
        lambda: _at(_table(Path("pyproject.toml")), "tool", "prefect", *path),
        lambda: _at(_profile(), name),
    )
    return next((str(value) for source in sources if (value := source())), None)


def _profile() -> Mapping[str, Any]:
    """Return the settings of the active profile."""
    place = _dotenv().get("PREFECT_PROFILES_PATH") or _at(_table(Path("prefect.toml")), "profiles_path")
    home = os.environ.get("PREFECT_HOME") or Path.home() / ".prefect"
    file = Path(os.environ.get("PREFECT_PROFILES_PATH") or place or Path(home, "profiles.toml"))
    profiles = _table(file)
    active = os.environ.get("PREFECT_PROFILE") or profiles.get("active")
    found = _at(profiles, "profiles", str(active))
    return found if isinstance(found, dict) else {}


def _dotenv() -> Mapping[str, str | None]:
    if not Path(".env").is_file():
        return {}
    import dotenv

    return dotenv.dotenv_values(".env")


def _table(file: Path) -> Mapping[str, Any]:
    """Return what a TOML file contains; nothing where Prefect too will say what is wrong with it."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return {}


def _at(table: Mapping[str, Any], *path: str) -> Any:
    found: Any = table
    for part in path:
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


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
        api: Its API, as ``PREFECT_API_URL`` takes it.
        prefect_home: The ``PREFECT_HOME`` that it serves.
        idle_minutes: Minutes without a request after which it ends; ``None`` for never.
        started: When it was started, as ISO 8601 in UTC.
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
        timeout: Longest wait in seconds.
    """
    import ssl
    from urllib import error, request

    proxies: dict[str, str] | None = {} if is_loopback(api) else None
    opener = request.build_opener(request.ProxyHandler(proxies))
    try:
        with opener.open(f"{api.rstrip('/')}/health", timeout=timeout) as reply:
            return int(reply.status) < 500
    except error.HTTPError as refusal:
        return refusal.code in (401, 403)
    except error.URLError as failure:
        return isinstance(failure.reason, ssl.SSLCertVerificationError)
    except (OSError, ValueError):
        return False


def is_loopback(url: str) -> bool:
    """Return whether a URL names this machine."""
    try:
        return urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1")
    except ValueError:
        return False


def prefect_version() -> str:
    """Return the version of the installed Prefect."""
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


CLIENT_DRAIN_S: Final = 15.0
"""Seconds for which a run's last events and log lines are sent, at most."""

GONE_DRAIN_S: Final = 0.5
"""The same, to a server that does not answer: it was killed, and is not waited for."""

NO_SERVER: Final = "No Prefect server: this run is not in a UI. Start one with: leadline service server start"


class ServerUse(StrEnum):
    """Choice of a run: the Prefect server that there is, or none."""

    AUTO = "auto"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Api:
    """A Prefect API that answers.

    Attributes:
        url: Its URL, as ``PREFECT_API_URL`` takes it.
    """

    url: str
    kind: Literal["configured", "kept"]


def chosen_server(option: str | None = None) -> ServerUse:
    """Return whether a run uses a server: what was said, else the one that there is.

    Args:
        option: Value of ``--server``; comes before ``$LEADLINE_SERVER`` and ``[server]`` of ``leadline.toml``.

    Raises:
        UsageError: There is no such choice.
    """
    for source, value in (
        ("--server", option),
        ("LEADLINE_SERVER", os.environ.get("LEADLINE_SERVER")),
        (f"{FILE}, [server] use", settings_table("server", ("use",)).get("use")),
    ):
        if value:
            try:
                return ServerUse(str(value))
            except ValueError:
                raise UsageError(
                    f"{source}: {str(value)[:40]!r} is not {' or '.join(ServerUse)}.", code=ErrorCode.CONFIG_OPTION
                ) from None
    return ServerUse.AUTO


def _to_stderr(message: str) -> None:
    print(message, file=sys.stderr, flush=True)  # noqa: T201 - messages are for people


@contextmanager
def ensure_api(say: Callable[[str], None] = _to_stderr, use: ServerUse | None = None) -> Iterator[Api | None]:
    """Provide the Prefect API that there is for the block, or ``None``.

    Within the block ``PREFECT_API_URL`` names the API, for this process and for those that it starts.

    Args:
        say: Receives messages of one line.
        use: Whether to use one; by default what the environment and ``leadline.toml`` say.
    """
    server_wait_s()  # what is wrong with it is told before the work
    with in_step("server"):
        found = None if (use or chosen_server()) is ServerUse.NONE else find_api()
    if isinstance(found, Api):
        with _using(found):
            yield found
        return
    if found:
        say(f"{found}: this run is not recorded there.")
    elif found is not None and not _on_ci():
        say(NO_SERVER)
    yield None


@contextmanager
def lasting_api() -> Iterator[Api]:
    """Use the Prefect API that there is with Prefect's client within the block.

    Raises:
        UsageError: There is none.
        LeadlineError: It does not answer.
    """
    found = find_api()
    if isinstance(found, Api):
        with _using(found), prefect_client(found):
            yield found
    elif found:
        raise LeadlineError(f"{found}.", code=ErrorCode.SERVER_NONE)
    else:
        raise UsageError(
            "No Prefect server is running or configured.",
            hint="Set PREFECT_API_URL, or start one on this machine: leadline service server start",
            code=ErrorCode.SERVER_NONE,
        )


def find_api() -> Api | str:
    """Return the API that answers, or why it cannot be used; the empty text where there is none."""
    if configured := configured_api():
        if answers(configured):
            return Api(configured, "configured")
        return f"Prefect's API at {configured} (PREFECT_API_URL) does not answer"
    kept = running()
    if kept is None:
        return ""
    return kept.problem() or Api(kept.api, "kept")


def _on_ci() -> bool:
    """Return whether nobody looks at a UI of this machine."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false", "no", "off")


@contextmanager
def _using(api: Api) -> Iterator[None]:
    """Name an API, for this process and those that it starts, within the block."""
    quiet = {name: os.environ.get(name, value) for name, value in NO_TELEMETRY.items()}
    with _environment({"PREFECT_API_URL": api.url, **_direct(api.url), **quiet}):
        yield


@contextmanager
def prefect_client(api: Api) -> Iterator[None]:
    """Let Prefect's client use an API within the block, and send it all that is to be recorded at its end."""
    from prefect.settings import (
        PREFECT_API_URL,
        PREFECT_CLIENT_MAX_RETRIES,
        PREFECT_FLOWS_HEARTBEAT_FREQUENCY,
        temporary_settings,
    )

    from leadline.flows.prefect.server_outage import outlast_outages, waiting

    outlast_outages()
    # Nobody starts a kept server again: where it was killed, the run goes on without it.
    wait_s = server_wait_s() if api.kind == "configured" else 0
    changes: dict[Setting, Any] = {PREFECT_API_URL: api.url} | ({} if wait_s else {PREFECT_CLIENT_MAX_RETRIES: 1})
    if api.kind == "kept":  # nobody looks at heartbeats there, and ending them takes up to a second
        changes[PREFECT_FLOWS_HEARTBEAT_FREQUENCY] = None
    with temporary_settings(changes), waiting(wait_s):
        try:
            yield
        finally:
            with in_step("history"):
                _send_all(api.url)


def _direct(url: str) -> dict[str, str]:
    """Return the variables that keep requests to this machine from going through a proxy."""
    if not is_loopback(url):
        return {}
    exceptions = [os.environ.get("NO_PROXY") or os.environ.get("no_proxy") or "", "127.0.0.1", "localhost"]
    value = ",".join(filter(None, exceptions))
    return {"NO_PROXY": value, "no_proxy": value}


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in changes}
    os.environ |= changes
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _send_all(url: str) -> None:
    """Send the events and log lines that still wait in this process: task runs are recorded from events."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    longest = CLIENT_DRAIN_S if answers(url) else GONE_DRAIN_S

    def send() -> None:
        EventsWorker.drain_all(timeout=longest)
        APILogWorker.drain_all(timeout=longest)

    thread = threading.Thread(target=send)  # beside a running event loop Prefect would not wait, but return coroutines
    thread.start()
    thread.join()
