"""A real PostgreSQL server for tests: its own data folder and a free port, gone when the tests end.

Tests ask for the fixture ``postgres_url``, an empty database, or for ``postgres_server``.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from leadline.deployments.postgres import as_postgres, binaries
from tests.support.processes.ports import free_port

ROLE: Final = "leadline"
START_S: Final = 60.0


@dataclass(frozen=True)
class PostgresServer:
    """A running server.

    Attributes:
        port: Its port on 127.0.0.1.
        password: Of the role :data:`ROLE`, a superuser.
        log: Its log file.
        crash: Kills the server, waits for some seconds, and starts it again.
    """

    port: int
    password: str
    log: Path
    crash: Callable[[float], None] = lambda seconds: None

    def url(self, database: str = "postgres") -> str:
        """Return the address of a database, with the password."""
        return f"postgresql://{ROLE}:{self.password}@127.0.0.1:{self.port}/{database}"

    def create(self) -> str:
        """Make an empty database of a name of its own; returns its address."""
        import psycopg

        name = f"test_{secrets.token_hex(6)}"
        with psycopg.connect(self.url(), autocommit=True, connect_timeout=10) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self.url(name)

    def drop(self, url: str) -> None:
        """Remove a database that :meth:`create` made, whoever is still connected."""
        import psycopg

        with psycopg.connect(self.url(), autocommit=True, connect_timeout=10) as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {url.rpartition('/')[2]} WITH (FORCE)".encode())


@contextmanager
def serving_postgres() -> Iterator[PostgresServer]:
    """Run a server until the block ends.

    Without fsync, since nothing of it outlives the tests; ``kill -9`` of its *clients* loses nothing by that.
    """
    folder = Path(tempfile.mkdtemp(prefix="leadline-postgres-"))
    password, bin_ = secrets.token_hex(12), binaries()
    environment = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8", "HOME": str(folder), "TZ": "UTC"}
    try:
        secret = folder / "password"
        secret.write_text(password)
        if as_postgres():
            for path in (folder, secret):
                shutil.chown(path, "postgres", "postgres")
        options = ["--auth=scram-sha-256", f"--username={ROLE}", f"--pwfile={secret}", "--encoding=UTF8", "--no-sync"]
        _run([str(bin_ / "initdb"), "-D", str(folder / "data"), *options], environment, folder)
        with _started(bin_, folder, environment, password) as server:
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(command: list[str], environment: Mapping[str, str], folder: Path) -> None:
    done = subprocess.run([*as_postgres(), *command], env=environment, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{Path(command[0]).name} failed: {done.stderr.strip()}")


@dataclass
class _Postmaster:
    """The server's process, which can be killed and started again."""

    command: list[str]
    environment: Mapping[str, str]
    folder: Path
    log: Path

    def start(self, server: PostgresServer) -> bool:
        """Start it, and return whether it answers."""
        self.server = server
        with self.log.open("ab") as file:
            self.process = subprocess.Popen(
                self.command, env=self.environment, cwd=self.folder, stdout=file, stderr=subprocess.STDOUT
            )
        return _ready(self.process, server)

    def crash(self, seconds: float) -> None:
        """Kill it with all that is connected to it, and start it again after a while."""
        _stop(self.process)
        time.sleep(seconds)
        if not self.start(self.server):
            raise RuntimeError(f"PostgreSQL did not start again: {self.log.read_text(errors='replace')[-2000:]}")


@contextmanager
def _started(bin_: Path, folder: Path, environment: Mapping[str, str], password: str) -> Iterator[PostgresServer]:
    """Start the server on a free port; another one if somebody took it in the meantime."""
    for attempt in range(5):
        port = free_port()
        log = folder / f"log{attempt}"
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(port),
            "unix_socket_directories": str(folder),
            "fsync": "off",
            "full_page_writes": "off",
            "max_connections": "200",
            "shared_buffers": "32MB",
        }
        command = [str(bin_ / "postgres"), "-D", str(folder / "data")]
        command += [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]

        postmaster = _Postmaster([*as_postgres(), *command], environment, folder, log)
        server = PostgresServer(port, password, log, postmaster.crash)
        try:
            if postmaster.start(server):
                yield server
                return
        finally:
            _stop(postmaster.process)
        if "in use" not in log.read_text(errors="replace"):
            break
    raise RuntimeError(f"PostgreSQL did not start: {log.read_text(errors='replace')[-2000:]}")


def _ready(process: subprocess.Popen[bytes], server: PostgresServer) -> bool:
    import psycopg

    deadline = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            psycopg.connect(server.url(), connect_timeout=2).close()
        except psycopg.OperationalError:
            time.sleep(0.1)
        else:
            return True
    return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the server at once, with all that is connected to it; SIGQUIT is what makes it leave its children too."""
    import signal

    if process.poll() is None:
        process.send_signal(signal.SIGQUIT)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One server for all tests of this process."""
    with serving_postgres() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """Address of an empty database, with its password; gone after the test."""
    url = postgres_server.create()
    yield url
    postgres_server.drop(url)
