"""A Prefect server with the scoring deployments, and workers as processes that tests can kill.

``with Farm(folder, home) as farm: farm.start_worker("cpu")``. Everything is on loopback and gone when the block ends.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx

from tests.support.processes.descendants import kill_below
from tests.support.processes.prefect_api import prefect_api
from tests.support.processes.waiting import eventually

LANES: Final = ("cpu", "gpu", "judge")
_DEPLOY: Final = """
import sys
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.deployments.runner import EntrypointType
from leadline.flows.dispatch.score_chunk import score_chunk
with get_client(sync_client=True) as client:
    for lane in sys.argv[1:]:
        client.create_work_pool(WorkPoolCreate(name=lane, type="process"))
        deployment = score_chunk.to_deployment(name=lane, entrypoint_type=EntrypointType.MODULE_PATH)
        deployment.apply(work_pool_name=lane)
"""


class Farm:
    """A server, its deployments, and the workers that a test starts.

    Args:
        folder: For logs and the workers' working directories.
        home: The ``PREFECT_HOME``.
        environment: Added to everybody's environment.
    """

    def __init__(self, folder: Path, home: Path, environment: Mapping[str, str] | None = None) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LEADLINE_")}
        self.folder = folder
        self.environment = kept | {
            "PREFECT_HOME": str(home),
            "XDG_STATE_HOME": str(folder / "state"),
            "PYTHONPATH": str(Path.cwd()),
            "DO_NOT_TRACK": "1",
            "PREFECT_WORKER_QUERY_SECONDS": "1",
            "PREFECT_WORKER_HEARTBEAT_SECONDS": "5",
            **(environment or {}),
        }
        self.api = ""
        self._workers: dict[str, subprocess.Popen[bytes]] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.api = stack.enter_context(prefect_api(Path(self.environment["PREFECT_HOME"]), self.environment))
            stack.callback(self.stop_workers)
            self.environment |= {"PREFECT_API_URL": self.api, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
            subprocess.run([sys.executable, "-c", _DEPLOY, *LANES], env=self.environment, check=True, timeout=90)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, value, traceback)

    def start_workers(self, *pools: str, limit: int = 1) -> list[str]:
        """Start workers side by side, wait until they are online, and return their names."""
        names = [self._spawn(pool, limit) for pool in pools]
        for pool, name in zip(pools, names, strict=True):
            eventually(lambda pool=pool, name=name: name in self.online(pool), 60, f"{name} online")
        return names

    def _spawn(self, pool: str, limit: int) -> str:
        name = f"{pool}-{len(self._workers)}"
        command = [sys.executable, "-m", "prefect", "worker", "start", "--pool", pool, "--type", "process",
                   "--name", name, "--limit", str(limit)]  # fmt: skip
        with (self.folder / f"{name}.log").open("wb") as log:
            self._workers[name] = subprocess.Popen(
                command, env=self.environment, cwd=self.folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip
        return name

    def online(self, pool: str) -> list[str]:
        found = self.post(f"/work_pools/{pool}/workers/filter", {})
        return [line["name"] for line in found if line["status"] == "ONLINE"]

    def kill_worker(self, name: str) -> None:
        """``kill -9`` a worker alone; its flow runs live on."""
        self._workers[name].kill()
        self._workers.pop(name).wait()

    def kill_shards(self, name: str) -> None:
        """``kill -9`` the flow runs of a worker, which lives on."""
        kill_below(self._workers[name])

    def stop_workers(self) -> None:
        for process in self._workers.values():
            kill_below(process, itself=True)
        for name in self._workers:
            pool = name.rpartition("-")[0]
            self._ask("DELETE", f"/work_pools/{pool}/workers/{name}")
        self._workers.clear()

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        return self._ask("POST", path, dict(body)).json()

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> httpx.Response:
        # Beside runs and other tests, a server on SQLite may not answer for half a minute.
        url = f"{self.api}{path}"
        transport = httpx.HTTPTransport(retries=3)
        with httpx.Client(transport=transport, trust_env=False, timeout=120) as client:
            until = time.monotonic() + 60
            while True:
                reply = client.request(method, url, json=body)
                if reply.status_code != httpx.codes.SERVICE_UNAVAILABLE or time.monotonic() > until:
                    return reply.raise_for_status()
                time.sleep(0.5)  # its database is locked, after which Prefect's own client asks again as well

    def shards(self, run: str) -> list[dict[str, Any]]:
        """Return the flow runs that score chunks of a run, oldest first."""
        found = self.post("/flow_runs/filter", {"flow_runs": {"tags": {"all_": [f"run:{run}"]}}})
        return sorted(found, key=lambda one: one["created"])

    def artifacts(self, key: str) -> list[str]:
        """Return the contents of the artifacts of a key, oldest first."""
        found = self.post("/artifacts/filter", {"artifacts": {"key": {"any_": [key]}}})
        return [one["data"] for one in sorted(found, key=lambda one: one["created"])]

    def shards_in(self, state: str, run: str) -> list[dict[str, Any]]:
        """Return those in a state."""
        return [one for one in self.shards(run) if one["state_type"] == state]
