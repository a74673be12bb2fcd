"""What is to be deployed, as a file says it: read, checked, and refused with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from leadline.cli.main import run
from leadline.evaluators.ground import UsageError
from leadline.flows.deploy.file import own_file, read_deployment_file


def test_leadlines_own_file_deploys_every_flow_and_nothing_runs_by_itself() -> None:
    file = read_deployment_file()
    names = {deployment.name for deployment in file.deployments}
    jobs = {"collect", "generate", "improve-judge", "perturb", "sample-labels", "maintain"}
    lanes = {"cpu", "gpu", "judge"}
    assert names == {"evaluate", "collect-and-evaluate", "compare", "check-judges", "alert"} | lanes | jobs
    assert not any(schedule.active for deployment in file.deployments for schedule in deployment.schedules)


def test_flows_that_wait_are_not_in_the_pool_of_what_they_wait_for() -> None:
    pools = {deployment.name: deployment.work_pool.name for deployment in read_deployment_file().deployments}
    for lane in ("cpu", "gpu", "judge"):
        assert pools.pop(lane) == lane
    assert set(pools.values()) == {"flows"}


def test_every_run_that_is_watched_for_heartbeats_sends_them_often_enough() -> None:
    file = read_deployment_file()
    [watch] = [automation for automation in file.automations if automation["name"] == "leadline-crashed"]
    for deployment in file.deployments:
        pause = int(deployment.work_pool.job_variables["env"]["PREFECT_FLOWS_HEARTBEAT_FREQUENCY"])
        assert watch["trigger"]["within"] >= 5 * pause


def test_print_shows_the_file_that_is_deployed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["service", "deploy", "--print"]) == 0
    assert capsys.readouterr().out == own_file()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"entrypoint": "flows/evaluate/flow.py:evaluate"}, "entrypoint"),
        ({"work_pool": {"nam": "flows"}}, "work_pool"),
        ({"schedules": [{"slug": "n", "cron": "0 2 * * *", "interval": 5}]}, "one of cron, interval and rrule"),
        ({"schedules": [{"cron": "0 2 * * *"}]}, "slug"),
        ({"schedules": [{"slug": "n", "cron": "0 2 * * *", "anchor_date": "2026-01-01"}]}, "belongs to an interval"),
        ({"concurency_limit": 3}, "concurency_limit"),
    ],
)
def test_what_is_not_as_it_should_be_is_named(tmp_path: Path, change: dict[str, object], said: str) -> None:
    loaded = yaml.safe_load(own_file())
    loaded["deployments"][0] |= change
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(loaded))
    with pytest.raises(UsageError) as raised:
        read_deployment_file(file)
    assert "mine.yaml" in str(raised.value)
    assert said in str(raised.value)


@pytest.mark.parametrize("text", ["[", "7", "deployments: 7"])
def test_what_is_no_such_file_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(UsageError):
        read_deployment_file(file)
    with pytest.raises(UsageError):
        read_deployment_file(tmp_path / "none.yaml")


def test_every_run_of_ours_is_started_by_the_engine_that_waits_for_a_server_that_is_away() -> None:
    commands = {one.name: one.work_pool.job_variables.get("command") for one in read_deployment_file().deployments}
    assert len(commands) == 14
    assert set(commands.values()) == {"python -m leadline.flows.prefect.patient_engine"}
