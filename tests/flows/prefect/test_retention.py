"""Prefect's history does not grow without end: a real server deletes what is old, with its logs, and nothing else."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from leadline.flows.prefect.server import RETENTION
from tests.support.processes.prefect_api import prefect_api
from tests.support.processes.waiting import eventually

COMPOSE = Path(__file__).parents[3] / "deployments" / "compose.yaml"
PERIOD_S = int(RETENTION["PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD"])


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """A server with the settings of the service that looks for what is old every second."""
    often = {"PREFECT_SERVER_SERVICES_DB_VACUUM_LOOP_SECONDS": "1"}
    with prefect_api(tmp_path / "prefect", os.environ | RETENTION | often) as api:
        yield api


def post(api: str, path: str, body: Any) -> Any:
    def answered() -> httpx.Response | None:
        reply = httpx.post(f"{api}{path}", json=body, trust_env=False, timeout=60)
        return None if reply.status_code == httpx.codes.SERVICE_UNAVAILABLE else reply  # its SQLite is busy

    reply = eventually(answered, 60, f"an answer to {path}")
    reply.raise_for_status()
    return reply.json() if reply.content else None


def run_of(api: str, flow: str, state: str = "COMPLETED") -> str:
    """Make a flow run with a line in its log that is in a state."""
    run = str(post(api, "/flow_runs/", {"flow_id": flow})["id"])
    post(api, f"/flow_runs/{run}/set_state", {"state": {"type": state, "name": state.title()}, "force": True})
    now = datetime.now(UTC).isoformat()
    post(api, "/logs/", [{"name": "a", "level": 20, "message": "m", "timestamp": now, "flow_run_id": run}])
    return run


def age(folder: Path, run: str, by_s: float) -> None:
    """Let a run have begun and ended some time ago; nobody can ask a server for that."""
    then = (datetime.now(UTC) - timedelta(seconds=by_s)).strftime("%Y-%m-%d %H:%M:%S.%f")
    with closing(sqlite3.connect(folder / "prefect" / "prefect.db", timeout=60)) as database:
        changed = database.execute(
            "UPDATE flow_run SET start_time = ?, end_time = CASE WHEN end_time IS NULL THEN NULL ELSE ? END "
            "WHERE replace(id, '-', '') = ?",
            (then, then, run.replace("-", "")),
        )
        assert changed.rowcount == 1
        database.commit()


def there(api: str, run: str) -> bool:
    return httpx.get(f"{api}/flow_runs/{run}", trust_env=False, timeout=60).status_code == 200


def lines(api: str, run: str) -> int:
    return len(post(api, "/logs/filter", {"logs": {"flow_run_id": {"any_": [run]}}}))


@pytest.mark.e2e
@pytest.mark.timeout(300)
def test_old_flow_runs_go_with_their_logs_and_young_and_running_ones_stay(server: str, tmp_path: Path) -> None:
    flow = post(server, "/flows/", {"name": "evaluate"})["id"]
    old, young, running = run_of(server, flow), run_of(server, flow), run_of(server, flow, "RUNNING")
    age(tmp_path, young, PERIOD_S - 3600)
    age(tmp_path, running, PERIOD_S + 3600)
    age(tmp_path, old, PERIOD_S + 3600)
    eventually(lambda: not there(server, old) and lines(server, old) == 0, 150, "the old run is gone")
    assert there(server, young)
    assert lines(server, young) == 1
    assert there(server, running)


def test_compose_keeps_history_as_long_as_the_service_as_processes() -> None:
    settings = yaml.safe_load(COMPOSE.read_text())["services"]["server"]["environment"]
    for name, value in RETENTION.items():
        assert settings[name] in (value, f"${{{name}:-{value}}}")
