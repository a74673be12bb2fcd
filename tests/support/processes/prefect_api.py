"""A Prefect server as ``leadline service server start`` keeps it, for as long as a test needs it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from leadline.flows.prefect.server import BATCHED_WRITES, NO_TELEMETRY, answers, command
from tests.support.processes.ports import free_port
from tests.support.processes.waiting import eventually

START_S = 90


def start_server(home: Path, port: int, environment: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start a server on the database of a ``PREFECT_HOME``; its record and its log lie beside that."""
    home.mkdir(parents=True, exist_ok=True)
    log = home.with_suffix(".log")
    own = {"PREFECT_HOME": str(home), "PREFECT_API_URL": f"http://127.0.0.1:{port}/api"}
    with log.open("ab") as output:
        return subprocess.Popen(
            command(home.with_suffix(".json"), port, home, log), stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            env=BATCHED_WRITES | NO_TELEMETRY | dict(os.environ if environment is None else environment) | own,
            start_new_session=True,
        )  # fmt: skip


@contextmanager
def prefect_api(home: Path, environment: Mapping[str, str] | None = None) -> Iterator[str]:
    """Run a server for the block, and yield the address of its API; at the end it writes all that it has received."""
    port = free_port()
    api = f"http://127.0.0.1:{port}/api"
    process = start_server(home, port, environment)
    try:
        eventually(lambda: answers(api, 1), START_S, "the server answers", process)
        yield api
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
