"""The service for tests: PostgreSQL, Redis, Prefect's server and workers, started once for all tests that ask for it.

Tests that use it carry the mark ``service``; `make test` runs them in one process, so that they share one.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from leadline.deployments.processes import dying_with_us
from leadline.deployments.service import running
from tests.support.processes.waiting import eventually

START_S: Final = 240.0


@dataclass(frozen=True)
class LiveService:
    """A running service.

    Attributes:
        folder: Where it keeps everything; runs start in it.
        api: Prefect's API.
        environment: Of a shell that talks to it.
    """

    folder: Path
    api: str
    environment: Mapping[str, str]

    @property
    def ui(self) -> str:
        return self.api.removesuffix("/api")

    def leadline(self, *arguments: str, code: int = 0, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command, and see to it that it leaves with this code."""
        done = subprocess.run(
            [sys.executable, "-P", "-m", "leadline.cli.main", *arguments],
            env=dict(self.environment), cwd=self.folder, input=stdin, capture_output=True, text=True, timeout=100,
        )  # fmt: skip
        assert done.returncode == code, (
            f"leadline {shlex.join(arguments)}: {done.returncode}\n{done.stdout}{done.stderr}"
        )
        return done

    def post(self, path: str, body: Any) -> Any:
        reply = httpx.post(f"{self.api}{path}", json=body, trust_env=False, timeout=30)
        reply.raise_for_status()
        return reply.json() if reply.content else None

    def get(self, path: str) -> Any:
        reply = httpx.get(f"{self.api}{path}", trust_env=False, timeout=30)
        reply.raise_for_status()
        return reply.json()

    def patch(self, path: str, body: Any) -> None:
        httpx.patch(f"{self.api}{path}", json=body, trust_env=False, timeout=30).raise_for_status()

    def deployment(self, name: str) -> dict[str, Any]:
        """Return a deployment by its full name."""
        return dict(self.get(f"/deployments/name/{name}"))

    def runs_of(self, name: str, **more: Any) -> list[dict[str, Any]]:
        """Return the flow runs of a deployment, newest first."""
        ids = {"deployments": {"id": {"any_": [self.deployment(name)["id"]]}}}
        return list(self.post("/flow_runs/filter", ids | {"sort": "EXPECTED_START_TIME_DESC"} | more))

    def ended(self, run: str, seconds: float = 90) -> dict[str, Any]:
        """Wait until a flow run has ended, and return it."""

        def done() -> dict[str, Any] | None:
            found = self.get(f"/flow_runs/{run}")
            return found if found["state_type"] in ("COMPLETED", "FAILED", "CRASHED", "CANCELLED") else None

        return eventually(done, seconds, f"flow run {run} ended")


def serving(workers: Mapping[str, int], environment: Mapping[str, str] | None = None) -> Iterator[LiveService]:
    """Start the service with these workers, in a folder of its own, and end it."""
    with tempfile.TemporaryDirectory(prefix="leadline-service-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("LEADLINE_", "PREFECT_"))}
        own = {
            "LEADLINE_STORE": str(folder / "store"),
            "XDG_STATE_HOME": str(folder / "state"),
            "PYTHONPATH": str(Path.cwd()),
            "PREFECT_WORKER_QUERY_SECONDS": "1",
        }
        counts = [f"--{pool}-workers={workers.get(pool, 0)}" for pool in ("flows", "cpu", "gpu", "judge")]
        command = [
            sys.executable,
            "-m",
            "leadline.deployments.service",
            "start",
            "--folder",
            str(folder),
            "--port",
            "0",
        ]
        log = folder / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*command, *counts], env=kept | own | dict(environment or {}), cwd=folder, stdout=output, stderr=output,
                stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=dying_with_us(signal.SIGTERM),
            )  # fmt: skip
        try:
            try:
                api = eventually(lambda: (running(folder) or {}).get("api"), START_S, "the service answers", process)
            except AssertionError as error:  # its folder is gone when somebody reads this
                raise AssertionError(f"{error}\n{log.read_text(errors='replace')}") from None
            written = (folder / "env").read_text().splitlines()
            values = dict(line.removeprefix("export ").split("=", 1) for line in written)
            shell = {key: value.strip("'") for key, value in values.items()}
            yield LiveService(folder, str(api), kept | own | shell)
        finally:
            process.terminate()
            try:
                process.wait(90)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
