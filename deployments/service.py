"""The service as plain processes on the loopback interface, where no container engine is at hand.

The same topology as ``compose.yaml``: PostgreSQL, Redis, Prefect's server, and a worker for each pool::

    python -m leadline.deployments.service start     # until Ctrl-C, or `stop`
    python -m leadline.deployments.service status
    python -m leadline.deployments.service stop

Everything that it keeps is in one folder: data, logs, secrets, and ``env`` for a shell to source.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Final

import httpx

from leadline.deployments.log_rotation import Rotation
from leadline.deployments.postgres import Postgres, initialise
from leadline.deployments.processes import Processes, ServicePart
from leadline.evaluators.ground import ErrorCode, LeadlineError, UsageError, from_home
from leadline.flows.prefect.report_links import UI_VARIABLE
from leadline.flows.prefect.server import BATCHED_WRITES, NO_TELEMETRY, RETENTION, answers
from leadline.flows.shared.logs import json_line, prefect_environment, tail, wants_json
from leadline.plugins.ops.notify.recipients import find_recipients
from leadline.tasks.ground.files import is_held, locked
from leadline.tasks.store.store import DEFAULT_STORE, STORE_VARIABLE, Store

WORKERS: Final = {"flows": 1, "cpu": 2, "gpu": 1, "judge": 1}
LIMITS: Final = {"flows": 4, "cpu": 1, "gpu": 1, "judge": 1}
"""Flow runs that one worker has in work; whoever orchestrates mostly waits."""

TELEMETRY_PORT: Final = 8485
"""Port of the telemetry, where it is free."""

GPU_DEVICES: Final = ("nvidia[0-9]*", "kfd", "dxg")
"""What drivers of NVIDIA and AMD, and Windows below Linux, make in ``/dev`` for a GPU."""

TOKEN_VARIABLE: Final = "LEADLINE_UI_TOKEN"  # noqa: S105 - the variable's name
PORT_VARIABLE: Final = "LEADLINE_SERVICE_PORT"
FOLDER: Final = Path(".leadline/service")


@dataclass
class Service:
    """The service to run.

    Attributes:
        folder: Where it keeps everything.
        port: Of the server and its UI; 0 for a free one.
        workers: How many workers serve each pool.
        file: What is deployed; empty for Leadline's own ``prefect.yaml``.
        environment: Added to the environment of server and workers.
    """

    folder: Path = FOLDER
    port: int = 4200
    workers: Mapping[str, int] = field(default_factory=lambda: default_workers())
    file: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder = self.folder.absolute()
        _make_store_above(self.folder)
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.folder / "prefect").mkdir(exist_ok=True, mode=0o700)
        self._processes = Processes(self.folder / "logs", _say, Rotation.from_environment())
        self._lock = locked(self.folder / "lock", wait=False)
        self._started = False

    def start(self) -> None:
        """Start everything, wait until it works, and write ``env``.

        Raises:
            UsageError: It runs already, or the port is taken.
            LeadlineError: A part did not get ready.
        """
        try:
            self._lock.acquire()
        except TimeoutError:
            raise UsageError(
                f"The service in {self.folder} is already running.",
                hint="Stop it: make service-stop",
                code=ErrorCode.SERVER_RUNNING,
            ) from None
        self._started = True
        notified = find_recipients()  # refused before anything is started
        port = free_port(self.port)
        postgres = self._start_postgres()
        redis = self._start_redis()
        environment = self._environment(port, postgres)
        if not self.workers.get("gpu"):
            _say("No worker for the pool gpu: local models run where their flow runs. --gpu-workers 1 starts one.")
        _say(f"Starting Prefect's server on port {port} (10 to 40 s; the first time it makes its database)…")
        api = environment["PREFECT_API_URL"]
        server = ["-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
        self._processes.start(
            ServicePart(
                "server",
                [sys.executable, "-P", *server],
                environment | server_environment(postgres.url("prefect", "postgresql+asyncpg"), redis),
                partial(answers, api, 1.0),
                deadline=180,
            )
        )
        self._write_env(environment)
        self._deploy(environment)
        exporter, telemetry = self._exporter(environment)
        self._processes.start(*self._workers(environment), self._pages(environment), exporter)
        if notified:
            self._processes.start(self._notifier(environment))
        record = {
            "pid": os.getpid(),
            "ui": api.removesuffix("/api"),
            "reports": environment[UI_VARIABLE],
            "telemetry": telemetry,
            "api": api,
            "parts": self._processes.pids(),
        }
        _write(self.folder / "service.json", record)

    def watch(self, until: Sequence[bool]) -> None:
        """Keep everything running until the sequence is no longer empty."""
        while not until:
            self._processes.restart_dead()
            self._processes.rotate_logs()
            time.sleep(0.5)

    def stop(self) -> None:
        """End everything that this object has started: nothing of a service that runs in the folder already."""
        if not self._started:
            return
        self._started = False
        self._processes.stop()
        (self.folder / "service.json").unlink(missing_ok=True)
        self._lock.release()

    def _start_postgres(self) -> Postgres:
        postgres = initialise(self.folder / "postgres", self._lasting_port("postgres"))
        path = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8", "TZ": "UTC"}
        self._processes.start(ServicePart("postgres", postgres.command(), path, postgres.answers, ending=signal.SIGINT))
        for database in ("prefect", "leadline"):
            postgres.ensure(database)
        return postgres

    def _start_redis(self) -> str:
        folder, port, password = self.folder / "redis", self._lasting_port("redis"), secrets.token_hex(16)
        folder.mkdir(exist_ok=True, mode=0o700)
        config = folder / "redis.conf"
        config.touch(mode=0o600)
        config.write_text(
            f'bind 127.0.0.1\nport {port}\nrequirepass {password}\ndir "{folder}"\nappendonly yes\nsave ""\n',
            encoding="utf-8",
        )
        ready = partial(redis_answers, port, password)
        self._processes.start(ServicePart("redis", ["redis-server", str(config)], dict(os.environ), ready))
        return f"redis://:{password}@127.0.0.1:{port}/0"

    def _lasting_port(self, part: str, first: int = 0) -> int:
        """Return the port that a part had last time, where shells and workers look for it; another if it is taken.

        Args:
            first: The port to try when there was no last time; 0 for a free one.
        """
        file = self.folder / "ports.json"
        ports: dict[str, object] = {}
        with suppress(OSError, ValueError):
            ports = dict(json.loads(file.read_text(encoding="utf-8")))
        known = ports.get(part)
        try:
            port = free_port(known if isinstance(known, int) else first)
        except UsageError:
            port = free_port(0)
            if known is not None:
                _say(
                    f"Port {known} of {part} is taken; it is {port} now. "
                    f"Other shells: source {self.folder / 'env'} again."
                )
        _write(file, ports | {part: port})
        return port

    def _environment(self, port: int, postgres: Postgres) -> dict[str, str]:
        """Return what server, workers and a person's shell share."""
        api = f"http://127.0.0.1:{port}/api"
        store = os.environ.get(STORE_VARIABLE) or str(Path(DEFAULT_STORE).absolute())
        ledger = os.environ.get("LEADLINE_LEDGER") or postgres.url("leadline")
        own = {
            "PREFECT_API_URL": api,
            "PREFECT_HOME": str(self.folder / "prefect"),
            "LEADLINE_STORE": store,
            "LEADLINE_LEDGER": ledger,
            "PREFECT_UI_URL": api.removesuffix("/api"),
            UI_VARIABLE: f"http://127.0.0.1:{self._lasting_port('reports', min(port + 1, 65535))}",
            "NO_PROXY": ",".join(filter(None, [os.environ.get("NO_PROXY", ""), "127.0.0.1", "localhost"])),
        }
        return {**NO_TELEMETRY, **RETENTION, **os.environ, **own, **prefect_environment(), **self.environment}

    def _write_env(self, environment: Mapping[str, str]) -> None:
        names = ("PREFECT_API_URL", "PREFECT_HOME", "LEADLINE_STORE", "LEADLINE_LEDGER", UI_VARIABLE)
        file = self.folder / "env"
        file.touch(mode=0o600)
        lines = [f"export {name}='{environment[name]}'\n" for name in names]
        lines.append(f"export PATH='{Path(sys.executable).parent}':\"$PATH\"\n")  # leadline and prefect
        file.write_text("".join(lines), encoding="utf-8")

    def _deploy(self, environment: Mapping[str, str]) -> None:
        command = [sys.executable, "-P", "-m", "leadline.cli.main", "service", "deploy"]
        command += ["--file", str(self.file)] if self.file else ["--keep"]
        done = subprocess.run(  # noqa: S603 - our own command
            command, env=dict(environment), capture_output=True, text=True, timeout=180, check=False
        )
        log = self._processes.log("deploy")
        with self._processes.open_log("deploy") as file:
            file.write((done.stdout + done.stderr).encode())
        if done.returncode:
            raise LeadlineError(f"leadline service deploy failed: {tail(log)}", code=ErrorCode.DEPLOY_SERVICE)
        kept = [line.split(maxsplit=1)[1] for line in done.stderr.splitlines() if line.startswith("kept ")]
        if kept:
            _say(f"Kept as a file of your own has it: {', '.join(kept)}. Leadline's again: leadline service deploy")

    def token(self) -> str:
        """Return what the reading page asks for: drawn once, in a file that only its owner can read."""
        given = os.environ.get(TOKEN_VARIABLE)
        if given:
            return given
        file = self.folder / "reports-token"
        if not file.exists():
            draft = file.with_suffix(".tmp")
            draft.touch(mode=0o600)
            draft.write_text(secrets.token_urlsafe(24), encoding="ascii")
            os.replace(draft, file)
        return file.read_text(encoding="ascii").strip()

    def _pages(self, environment: Mapping[str, str]) -> ServicePart:
        """Return the reading page, on which reports are linked."""
        address = environment[UI_VARIABLE]
        port = address.rpartition(":")[2]
        return ServicePart(
            "reports",
            [sys.executable, "-P", "-m", "leadline.cli.main", "ui", "--port", port],
            {**environment, TOKEN_VARIABLE: self.token()},
            partial(_is_healthy, address),
            deadline=60,
        )

    def _workers(self, environment: Mapping[str, str]) -> list[ServicePart]:
        command = [sys.executable, "-P", "-m", "leadline.cli.main", "service", "worker"]
        return [
            ServicePart(
                f"{pool}-{number}",
                [*command, "--pool", pool, "--name", f"{pool}-{number}", "--limit", str(LIMITS.get(pool, 1))],
                environment,
                partial(_worker_is_online, environment["PREFECT_API_URL"], pool, f"{pool}-{number}"),
                deadline=120,
            )
            for pool, count in self.workers.items()
            for number in range(1, count + 1)
        ]

    def _notifier(self, environment: Mapping[str, str]) -> ServicePart:
        """Return what tells the recipients of ``leadline.toml`` what goes wrong."""
        command = [sys.executable, "-P", "-m", "leadline.cli.main", "service", "notify", "watch"]
        return ServicePart("notify", [*command, "--folder", str(self.folder / "notify")], environment)

    def _exporter(self, environment: Mapping[str, str]) -> tuple[ServicePart, str]:
        """Return the part that serves telemetry to Prometheus, and its address."""
        port = self._lasting_port("telemetry", TELEMETRY_PORT)
        address = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-P", "-m", "leadline.cli.main", "service", "telemetry", "--port", str(port)]
        part = ServicePart("telemetry", command, environment, partial(_is_healthy, address), deadline=60)
        return part, f"{address}/metrics"


def server_environment(database: str, redis: str) -> dict[str, str]:
    """Return the settings of a Prefect server that keeps its state in PostgreSQL and its messages in Redis.

    Args:
        database: Address of the database.
        redis: Address of Redis.
    """
    return BATCHED_WRITES | {
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": database,
        "PREFECT_MESSAGING_BROKER": "prefect_redis.messaging",
        "PREFECT_MESSAGING_CACHE": "prefect_redis.messaging",
        "PREFECT_SERVER_EVENTS_CAUSAL_ORDERING": "leadline.deployments.event_ordering",
        "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect_redis.lease_storage",
        "PREFECT_SERVER_DOCKET_URL": redis,
        "PREFECT_REDIS_MESSAGING_URL": redis,
        "PREFECT_REDIS_MESSAGING_PUBLISHER_PUBLISH_EVERY": "1",
    }


def default_workers(devices: Path = Path("/dev")) -> dict[str, int]:
    """Return how many workers serve each pool: none that of GPUs where this machine shows none.

    Args:
        devices: Where devices are. They are looked at without torch, which may be missing and takes seconds.
    """
    shown = any(next(devices.glob(name), None) for name in GPU_DEVICES)
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    apple = sys.platform == "darwin" and os.uname().machine == "arm64"
    return WORKERS | {"gpu": WORKERS["gpu"] if apple or (shown and not hidden) else 0}


def _make_store_above(folder: Path) -> None:
    """Make the store in which a folder is to lie, as any command makes it: private, and of today's format.

    Args:
        folder: The service's folder.
    """
    for store in {os.environ.get(STORE_VARIABLE) or DEFAULT_STORE, DEFAULT_STORE}:
        if "://" not in store and from_home(store).absolute() in folder.parents:
            Store.open(store)


def free_port(wanted: int) -> int:
    """Return a port of the loopback interface on which nobody listens.

    Raises:
        UsageError: The wanted one is taken.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError as error:
            raise UsageError(
                f"Port {wanted} is taken or not allowed.",
                hint=f"Choose another: {PORT_VARIABLE}=N or --port N",
                code=ErrorCode.SERVER_PORT,
            ) from error
        return int(probe.getsockname()[1])


def running(folder: Path = FOLDER) -> dict[str, object] | None:
    """Return the record of the service that runs in a folder, or ``None`` where none does."""
    lock = folder / "lock"
    if not lock.exists() or not is_held(lock):
        return None
    with suppress(OSError, ValueError):
        return dict(json.loads((folder / "service.json").read_text(encoding="utf-8")))
    return {"pid": None}  # just starting or ending


def redis_answers(port: int, password: str) -> bool:
    """Return whether Redis accepts a password.

    Args:
        port: A port of the loopback interface.
    """
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(f"AUTH {password}\r\nPING\r\n".encode())
            with connection.makefile("rb") as answers:
                return [answers.readline(100) for _ in range(2)] == [b"+OK\r\n", b"+PONG\r\n"]
    except OSError:
        return False


def _worker_is_online(api: str, pool: str, name: str) -> bool:
    with suppress(httpx.HTTPError, ValueError):
        reply = httpx.post(f"{api}/work_pools/{pool}/workers/filter", json={}, timeout=5, trust_env=False)
        return any(line["name"] == name and line["status"] == "ONLINE" for line in reply.json())
    return False


def _is_healthy(address: str) -> bool:
    with suppress(httpx.HTTPError):
        return httpx.get(f"{address}/health", timeout=5, trust_env=False).is_success
    return False


def _write(file: Path, record: Mapping[str, object]) -> None:
    draft = file.with_suffix(".tmp")
    draft.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    os.replace(draft, file)


def _say(message: str) -> None:
    line = json_line(message, "info", "leadline.service") if wants_json() else message
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - messages are for people


def main(arguments: Sequence[str] | None = None) -> int:
    """Start, stop or show the service; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m leadline.deployments.service", description="The service as processes."
    )
    parser.add_argument("action", choices=("start", "stop", "status"))
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where it keeps everything")
    parser.add_argument("--port", type=int, default=int(os.environ.get(PORT_VARIABLE, "4200")))
    parser.add_argument("--file", type=Path, help="what is deployed, instead of Leadline's own prefect.yaml")
    for pool, count in default_workers().items():
        parser.add_argument(f"--{pool}-workers", type=int, default=count, metavar="N", help=f"default: {count}")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.action == "start":
            counts = {pool: int(getattr(chosen, f"{pool}_workers")) for pool in WORKERS}
            return _serve(Service(chosen.folder, chosen.port, counts, chosen.file))
        return _stop(chosen.folder) if chosen.action == "stop" else _status(chosen.folder)
    except LeadlineError as error:
        _say(f"Error [{error.code}]: {error}")
        return error.exit_code


def _serve(service: Service) -> int:
    asked: list[bool] = []

    def end(number: int, frame: FrameType | None) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(True)
        raise SystemExit(0)

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        service.start()
        record = running(service.folder) or {}
        _say(f"The service runs: {record.get('ui')}. In another shell: source {service.folder / 'env'}")
        shown = f"${TOKEN_VARIABLE}" if os.environ.get(TOKEN_VARIABLE) else service.token()
        _say(f"Reports: {record.get('reports')}/?token={shown}")
        _say("Ctrl-C ends it.")
        service.watch(asked)
    except SystemExit:
        _say("Ending the service…")
    finally:
        service.stop()
        for number, handler in before.items():
            signal.signal(number, handler)
    return 0


def _stop(folder: Path) -> int:
    record = running(folder)
    pid = record.get("pid") if record else None
    if not isinstance(pid, int):
        _say("The service does not run." if record is None else "The service is just starting or ending.")
        return 0 if record is None else 3
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + 120
    while running(folder) is not None:
        if time.monotonic() > deadline:
            raise LeadlineError(f"The service (process {pid}) does not end.", code=ErrorCode.SERVER_RUNNING)
        time.sleep(0.2)
    _say("The service has ended.")
    return 0


def _status(folder: Path) -> int:
    record = running(folder)
    print(json.dumps(record or {"running": False}, indent=2))  # noqa: T201 - the answer
    return 0


if __name__ == "__main__":
    sys.exit(main())
