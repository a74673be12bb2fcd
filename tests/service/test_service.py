"""The service as a platform team runs it: PostgreSQL, Redis, Prefect's server, workers, and what is deployed there."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
import yaml

from leadline.flows.deploy.file import own_file
from tests.support.processes.ports import free_port
from tests.support.processes.service import LiveService
from tests.support.processes.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.service, pytest.mark.timeout(400)]

EXAMPLES = Path(__file__).parents[2] / "examples"
CASES = EXAMPLES / "cases.csv"
VERSION_FLOW = "on-model-version/collect-and-evaluate"


def deployed(service: LiveService, *arguments: str) -> dict[str, str]:
    """Deploy, and return what was made or changed."""
    done = json.loads(service.leadline("service", "deploy", "--json", *arguments).stdout)
    changes = {f"{item['kind']} {item['name']}": (item["change"], item["fields"]) for item in done}
    assert len(changes) > 10
    return {
        name: f"{change} {', '.join(fields)}" for name, (change, fields) in changes.items() if change != "unchanged"
    }


def fields(version: str) -> list[str]:
    """What says how a version is evaluated: its answers are there, and rules score them."""
    values = {"suite": CASES, "answers": CASES, "evaluators": json.dumps(["bleu"]), "fail_on": "never"}
    return ["wrenfield-helpdesk", "--version", version, *(f"--set={name}={value}" for name, value in values.items())]


def events_about(service: LiveService, resource: str) -> list[dict[str, Any]]:
    found = service.post("/events/filter", {"filter": {"resource": {"id": [resource]}}, "limit": 50})
    return list(found["events"])


def test_deploying_again_changes_nothing(service: LiveService) -> None:
    before = service.post("/automations/filter", {})
    assert deployed(service) == {}
    assert service.post("/automations/filter", {}) == before


def test_prefects_own_command_deploys_the_same_file(service: LiveService) -> None:
    before = {name: service.deployment(name) for name in ("evaluate/evaluate", VERSION_FLOW, "score-chunk/gpu")}
    file = service.folder / "prefect.yaml"
    file.write_text(own_file())
    command = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all", "--prefect-file", str(file)]
    done = subprocess.run(
        command, env=dict(service.environment), cwd=service.folder, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for name, known in before.items():
        same = ("id", "entrypoint", "work_pool_name", "tags", "pull_steps", "concurrency_options", "job_variables")
        after = service.deployment(name)
        assert {key: after[key] for key in same} == {key: known[key] for key in same}
    assert len([one for one in service.post("/automations/filter", {}) if one["name"] == "leadline-model-version"]) == 1
    assert deployed(service).keys() <= {"trigger leadline-model-version"}
    assert deployed(service) == {}


def test_the_event_starts_one_flow_run_however_often_it_comes(service: LiveService) -> None:
    with ThreadPoolExecutor(3) as pool:
        emit = ["service", "emit", "model-version", *fields("1.0"), "--json"]
        sent = [json.loads(done.stdout) for done in pool.map(lambda _: service.leadline(*emit), range(3))]
    again = json.loads(service.leadline(*emit).stdout)
    assert len({one["event"] for one in [*sent, again]}) == 1
    assert len({one["flow_run"] for one in [*sent, again]}) == 1
    assert again["new"] is False
    run = service.ended(again["flow_run"])
    assert run["state_type"] == "COMPLETED", run["state"]
    assert run["name"] == "wrenfield-helpdesk 1.0"
    assert run["parameters"] == {
        "config": {
            "model": "wrenfield-helpdesk",
            "version": "1.0",
            "suite": str(CASES),
            "answers": str(CASES),
            "evaluators": ["bleu"],
            "fail_on": "never",
        }
    }
    mine = [one for one in service.runs_of(VERSION_FLOW) if one["parameters"]["config"]["version"] == "1.0"]
    assert [one["id"] for one in mine] == [run["id"]]


def test_a_payload_that_does_not_fit_is_refused_before_it_is_sent(service: LiveService) -> None:
    done = service.leadline(
        "service", "emit", "model-version", "m", "--version", "not a version", "--set", "evil=1", code=2
    )
    for fault in ("version:", "suite is missing", "evil:", "was not sent"):
        assert fault in done.stderr
    assert events_about(service, "leadline.model.m") == []


def test_a_payload_that_does_not_fit_and_came_by_another_way_is_seen(service: LiveService) -> None:
    event = {"event": "leadline.model-version.created", "occurred": datetime.now(UTC).isoformat()}
    about = {"prefect.resource.id": "leadline.model.raw"}
    service.post("/events", [event | {"resource": about, "payload": {"model": "raw"}, "id": str(uuid4())}])

    def alert() -> dict[str, Any] | None:
        found = [
            one for one in service.runs_of("alert/alert") if "'version' is a required property" in str(one["state"])
        ]
        return found[0] if found else None

    seen = eventually(alert, 60, "a flow run that says what is wrong")
    assert (seen["state_type"], seen["name"]) == ("FAILED", "alert: leadline-model-version")
    listed = json.loads(service.leadline("service", "events", "--failed", "--json").stdout)
    assert any("'version' is a required property" in one["outcome"]["failed"] for one in listed)


def test_a_registrys_webhook_starts_the_evaluation(service: LiveService) -> None:
    file, port = service.folder / "webhook.yaml", free_port()
    mine = {"suite": str(CASES), "answers": str(CASES), "evaluators": ["bleu"], "fail_on": "never"}
    file.write_text(yaml.safe_dump({"defaults": mine, "models": {"wrenfield-*": None}}))
    environment = {**service.environment, "LEADLINE_WEBHOOK_SECRET": "a shared secret"}
    arguments = ["service", "webhook", "serve", "--models", str(file), "--port", str(port)]
    receiver = subprocess.Popen(
        [sys.executable, "-m", "leadline.cli.main", *arguments], env=environment, stderr=subprocess.PIPE, text=True
    )

    def deliver(secret: str) -> httpx.Response | None:
        body = {
            "event": {"action": "update", "scope": "repo.content"},
            "repo": {"type": "model", "name": "wrenfield-helpdesk"},
            "updatedRefs": [{"ref": "refs/heads/main", "oldSha": None, "newSha": "575db8b7a51b6f85"}],
        }
        headers = {"X-Webhook-Secret": secret}
        with suppress(httpx.ConnectError):
            address = f"http://127.0.0.1:{port}/huggingface"
            return httpx.post(address, json=body, headers=headers, timeout=60, trust_env=False)
        return None

    try:
        refused = eventually(lambda: deliver("wrong"), 60, "the receiver listens")
        assert refused.status_code == 401
        answers = [deliver("a shared secret") for _ in range(2)]
        assert [answer and answer.status_code for answer in answers] == [202, 202]
        eventually(lambda: service.runs_of(VERSION_FLOW), 60, "the event has started something")
    finally:
        receiver.terminate()
        said = receiver.communicate(timeout=30)[1]
    assert "a shared secret" not in said
    runs = eventually(lambda: [one for one in service.runs_of(VERSION_FLOW) if "575db8b" in str(one)], 30, "a flow run")
    assert [service.ended(run["id"])["state_type"] for run in runs] == ["COMPLETED"]


def test_an_event_that_nobody_waits_for_is_not_sent(service: LiveService) -> None:
    [automation] = [one for one in service.post("/automations/filter", {}) if one["name"] == "leadline-model-version"]
    service.patch(f"/automations/{automation['id']}", {"enabled": False})
    try:
        done = service.leadline("service", "emit", "model-version", *fields("unheard"), code=3)
        assert "leadline service deploy" in done.stderr
    finally:
        service.patch(f"/automations/{automation['id']}", {"enabled": True})


def test_the_nightly_schedule_makes_runs(service: LiveService, tmp_path: Path) -> None:
    file = yaml.safe_load(own_file())
    [evaluate] = [one for one in file["deployments"] if one["name"] == "evaluate"]
    evaluate["schedules"][0]["active"] = True
    evaluate["schedules"][0]["parameters"]["config"]["dataset"] = str(CASES)
    mine = tmp_path / "prefect.yaml"
    mine.write_text(yaml.safe_dump(file))
    assert deployed(service, "--file", str(mine))["deployment evaluate/evaluate"] == "updated schedules"
    wanted = {"flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}}, "sort": "EXPECTED_START_TIME_ASC"}
    try:
        [first, *_] = eventually(lambda: service.runs_of("evaluate/evaluate", **wanted), 90, "scheduled runs")
        due = datetime.fromisoformat(first["expected_start_time"])
        assert datetime.now(UTC) < due < datetime.now(UTC) + timedelta(days=1)
        assert (due.hour, due.minute) == (2, 0)
        assert first["parameters"]["config"] == {"dataset": str(CASES), "name": "nightly", "fail_on": "high"}
    finally:
        assert deployed(service)["deployment evaluate/evaluate"] == "updated schedules"
    eventually(lambda: not service.runs_of("evaluate/evaluate", **wanted), 30, "no scheduled runs any more")


def test_a_restart_keeps_what_people_have_deployed(service: LiveService, tmp_path: Path) -> None:
    """It deploys with --keep; without, Leadline's own file is back."""
    file = yaml.safe_load(own_file())
    [evaluate] = [one for one in file["deployments"] if one["name"] == "evaluate"]
    evaluate["concurrency_limit"]["limit"] = 9
    mine = {"slug": "nightly", "cron": "30 1 * * *", "timezone": "Europe/Berlin", "active": False}
    often = {"slug": "often", "interval": 86400, "active": False}
    evaluate["schedules"] = [mine | {"parameters": {"config": {"dataset": "mine.json"}}}, often]
    path = tmp_path / "prefect.yaml"
    path.write_text(yaml.safe_dump(file))
    assert deployed(service, "--file", str(path))
    assert deployed(service, "--file", str(path)) == {}  # an interval begins where it began
    before = service.deployment("evaluate/evaluate")
    try:
        assert deployed(service, "--keep") == {"deployment evaluate/evaluate": "kept "}
        after = service.deployment("evaluate/evaluate")
        assert after["schedules"] == before["schedules"]
        assert [one["global_concurrency_limit"]["limit"] for one in (before, after)] == [9, 9]
    finally:
        assert "deployment evaluate/evaluate" in deployed(service)


def test_a_scheduled_run_that_fails_raises_an_alert_in_seconds(service: LiveService, tmp_path: Path) -> None:
    """Prefect's scheduler inserts runs without an event, and what follows that one is held back for 15 minutes."""
    file = yaml.safe_load(own_file())
    [evaluate] = [one for one in file["deployments"] if one["name"] == "evaluate"]
    config = {"dataset": "no-such-dataset.csv", "evaluators": ["bleu"], "name": "failing"}
    evaluate["schedules"] = [{"slug": "failing", "interval": 20, "parameters": {"config": config}}]
    mine = tmp_path / "prefect.yaml"
    mine.write_text(yaml.safe_dump(file))

    def alert() -> dict[str, Any] | None:
        found = [one for one in service.runs_of("alert/alert") if "no-such-dataset" in str(one["state"])]
        return found[0] if found else None

    try:
        deployed(service, "--file", str(mine))
        seen = eventually(alert, 150, "an alert about the run")
        assert (seen["state_type"], seen["name"]) == ("FAILED", "alert: failing (evaluate)")
    finally:
        evaluate["schedules"][0]["active"] = False
        mine.write_text(yaml.safe_dump(file))
        deployed(service, "--file", str(mine))


def test_workers_find_what_a_local_run_finds(service: LiveService, tmp_path: Path) -> None:
    dataset = shutil.copy(CASES, service.folder / "cases.csv")
    config = {"dataset": Path(dataset).name, "evaluators": ["bleu", "rouge"], "dispatch": "workers"}
    deployment = service.deployment("evaluate/evaluate")["id"]
    run = service.post(f"/deployments/{deployment}/create_flow_run", {"parameters": {"config": config}})
    assert service.ended(run["id"])["state_type"] == "COMPLETED"
    assert service.runs_of("score-chunk/cpu")
    here = ["--store", str(tmp_path / "store")]
    service.leadline("evaluate", dataset, "-e", "bleu", "-e", "rouge", *here)
    query = "SELECT evaluator, metric, case_key, value FROM scores ORDER BY ALL"
    elsewhere = json.loads(service.leadline("store", "sql", query, "--run", "latest", "--format", "json").stdout)
    local = json.loads(service.leadline("store", "sql", query, "--format", "json", *here).stdout)
    assert len(local) > 10
    assert [one | {"run": ""} for one in elsewhere] == [one | {"run": ""} for one in local]


def test_a_form_that_names_an_unlisted_host_fails_before_any_request(service: LiveService) -> None:
    shutil.copy(CASES, service.folder / "asked.csv")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        judges = {"model": "openai/m", "api_base": address}
        config = {"dataset": "asked.csv", "evaluators": ["databricks.safety"], "judges": judges}
        deployment = service.deployment("evaluate/evaluate")["id"]
        run = service.post(f"/deployments/{deployment}/create_flow_run", {"parameters": {"config": config}})
        ended = service.ended(run["id"])
        assert ended["state_type"] == "FAILED"
        assert "names the host 127.0.0.1, which requests from outside may not" in ended["state"]["message"]
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_a_runs_artifact_leads_to_its_report_on_the_page(service: LiveService) -> None:
    dataset = shutil.copy(CASES, service.folder / "shown.csv")
    config = {"dataset": Path(dataset).name, "evaluators": ["bleu"], "name": "shown"}
    deployment = service.deployment("evaluate/evaluate")["id"]
    run = service.post(f"/deployments/{deployment}/create_flow_run", {"parameters": {"config": config}})
    assert service.ended(run["id"])["state_type"] == "COMPLETED"
    shown = service.post("/artifacts/filter", {"artifacts": {"flow_run_id": {"any_": [run["id"]]}}})
    [link] = [re.search(r"http://[^)]+", one["data"]) for one in shown if one["key"] == "leadline-report"]
    assert link
    assert link[0].startswith(f"{service.environment['LEADLINE_UI_URL']}/runs/")
    assert httpx.get(link[0], trust_env=False).status_code == 401
    token = (service.folder / "reports-token").read_text()
    with httpx.Client(trust_env=False, follow_redirects=True, timeout=30) as browser:
        assert "<title>shown" in browser.get(link[0], params={"token": token}).text
        page = browser.get(link[0].rpartition("/")[0]).text
    assert f"/runs/flow-run/{run['id']}" in page


def test_a_worker_ends_when_it_is_asked_to_even_if_its_shell_ignores_interrupts(service: LiveService) -> None:
    worker = subprocess.Popen(
        [sys.executable, "-m", "leadline.cli.main", "service", "worker", "--pool", "gpu", "--name", "short-lived"],
        env=dict(service.environment), cwd=service.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )  # fmt: skip

    def online() -> bool:
        found = service.post("/work_pools/gpu/workers/filter", {})
        return any(one["name"] == "short-lived" and one["status"] == "ONLINE" for one in found)

    try:
        eventually(online, 60, "the worker is online")
        started = time.monotonic()
        worker.terminate()
        worker.wait(20)
        assert time.monotonic() - started < 15
    finally:
        worker.kill()
        worker.wait()


def test_a_worker_of_an_unknown_pool_is_told_which_there_are(service: LiveService) -> None:
    done = service.leadline("service", "worker", "--pool", "cup", code=2)
    assert "cpu, default-agent-pool" in done.stderr or "cpu, flows" in done.stderr


def test_no_log_holds_a_password(service: LiveService) -> None:
    passwords = {(service.folder / "postgres" / "password").read_text().strip()}
    for line in (service.folder / "redis" / "redis.conf").read_text().splitlines():
        if line.startswith("requirepass "):
            passwords.add(line.split()[1])
    for log in (service.folder / "logs").iterdir():
        text = log.read_text(errors="replace")
        assert not [password for password in passwords if password in text], log.name
