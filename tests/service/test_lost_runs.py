"""Runs whose worker or server dies in the first seconds: each is told about, and started again until it ends."""

from __future__ import annotations

import os
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from leadline.deployments.service import running
from leadline.flows.deploy.file import own_file
from tests.support.processes.service import LiveService
from tests.support.processes.waiting import eventually

pytestmark = [
    pytest.mark.soak,  # minutes of waiting, of which a busy machine needs more
    pytest.mark.e2e,
    pytest.mark.service,
    pytest.mark.timeout(500),
    pytest.mark.skipif(not Path("/proc").exists(), reason="finds processes in /proc"),
]

CASES = Path(__file__).parents[2] / "examples" / "cases.csv"


def process_of(service: LiveService, *words: str) -> int:
    """Return the process of a part of the service, which may have been started again, by words of its command."""
    supervisor = (running(service.folder) or {})["pid"]

    def found() -> int | None:
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1] if entry.name.isdigit() else ""
                if parent == str(supervisor) and set(words) <= set((entry / "cmdline").read_text().split("\0")):
                    return int(entry.name)
        return None

    return eventually(found, 30, f"a process of {words}")


def start(service: LiveService, deployment: str, parameters: dict[str, Any]) -> str:
    found = service.deployment(deployment)["id"]
    return str(service.post(f"/deployments/{found}/create_flow_run", {"parameters": parameters})["id"])


def evaluation(service: LiveService, name: str) -> str:
    dataset = shutil.copy(CASES, service.folder / f"{name}.csv")
    config = {"dataset": Path(dataset).name, "evaluators": ["bleu"], "name": name}
    return start(service, "evaluate/evaluate", {"config": config})


def states(service: LiveService, run: str) -> list[str]:
    """Return the names of all states of a run, in their order."""
    found = httpx.get(f"{service.api}/flow_run_states/", params={"flow_run_id": run}, trust_env=False, timeout=30)
    return [one["name"] for one in sorted(found.json(), key=lambda one: one["timestamp"])]


def taken(service: LiveService, run: str) -> str:
    """Wait until a worker has taken a run, and return its state's name."""
    waiting = ("Scheduled", "AwaitingConcurrencySlot", "Late")
    return eventually(
        lambda: name if (name := str(service.get(f"/flow_runs/{run}")["state_name"])) not in waiting else None,
        60,
        "a worker has taken the run",
    )


def done(service: LiveService, run: str, seconds: float) -> dict[str, Any]:
    """Wait until a run has ended, by itself and not by a crash, also while the server is away."""

    def ended() -> dict[str, Any] | None:
        with suppress(httpx.HTTPError):
            found: dict[str, Any] = service.get(f"/flow_runs/{run}")
            return found if found["state_type"] in ("COMPLETED", "FAILED", "CANCELLED") else None
        return None

    return eventually(ended, seconds, f"the run {run} ended")


@pytest.fixture
def impatient(service: LiveService, tmp_path: Path) -> Any:
    """The service with automations that wait for seconds instead of minutes."""
    file = yaml.safe_load(own_file())
    within = {"leadline-not-begun": 60, "leadline-crashed": 90}
    for automation in file["automations"]:
        automation["trigger"]["within"] = within.get(automation["name"], automation["trigger"].get("within", 0))
    (tmp_path / "prefect.yaml").write_text(yaml.safe_dump(file))
    service.leadline("service", "deploy", "--file", str(tmp_path / "prefect.yaml"))
    time.sleep(3)  # the server takes notice
    yield service
    service.leadline("service", "deploy")


def test_runs_whose_worker_dies_as_they_start_are_told_about_and_started_again(impatient: LiveService) -> None:
    service, runs = impatient, {}
    alert = {"event": "a.test", "resource": {"prefect.resource.name": "lost"}}
    for number in range(3):  # so that they are at different points of their start
        runs[number] = evaluation(service, f"lost-{number}")
        time.sleep(2)
    runs["alert"] = start(service, "alert/alert", {"alert": alert})
    seen = taken(service, runs["alert"])
    os.killpg(process_of(service, "worker", "flows-1"), signal.SIGKILL)  # with its runs, as when its machine is gone
    assert seen in ("Pending", "Submitting", "Running")
    ended = {name: done(service, run, 300) for name, run in runs.items()}
    assert [ended[number]["state_type"] for number in range(3)] == ["COMPLETED"] * 3, ended
    assert ended["alert"]["state_name"] == "Alert"
    found = {name: states(service, run) for name, run in runs.items()}
    crashed = {f"prefect.flow-run.{runs[number]}" for number in range(3) if "Crashed" in found[number]}
    assert crashed, found
    assert "Crashed" in found["alert"]
    alerts = service.runs_of("alert/alert", limit=200)
    told = {one["parameters"]["alert"]["resource"].get("prefect.resource.id") for one in alerts}
    assert crashed <= told


@pytest.mark.parametrize("seconds", [0.0, 2.0])
def test_a_run_waits_for_a_server_that_dies_as_it_starts(service: LiveService, seconds: float) -> None:
    run = evaluation(service, f"waiting-{seconds:.0f}")
    taken(service, run)
    time.sleep(seconds)
    os.kill(process_of(service, "server", "start"), signal.SIGKILL)
    ended = done(service, run, 200)
    assert (ended["state_type"], ended["run_count"]) == ("COMPLETED", 1), states(service, run)
    assert "Crashed" not in states(service, run)
