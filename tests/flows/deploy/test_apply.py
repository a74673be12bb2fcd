"""What counts as a change of a deployment; tests/service deploys on a real server."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.schedules import CronSchedule, IntervalSchedule
from prefect.events import AutomationCore, DoNothing, EventTrigger
from prefect.events.schemas.automations import Posture

from leadline.evaluators.ground import UsageError
from leadline.flows.deploy.apply import (
    automation_fields_that_differ,
    fields_of_schedule,
    require_fitting_schedules,
    what_was_told,
)
from leadline.flows.deploy.file import Deployment, PoolOfDeployment, Schedule, read_deployment_file

ID = "755d60ed-1736-4971-b087-4b05d125cdba"
THEN = "2026-11-21T10:46:32Z"


def answer(**changed: Any) -> DeploymentResponse:
    """Return what a server says of a deployment with four places, of which these are taken."""
    limit = {"id": ID, "created": THEN, "updated": THEN, "active": True, "name": f"deployment:{ID}", "limit": 4}
    limit |= {"active_slots": changed.pop("taken", 0), "slot_decay_per_second": 0.0, "limit": changed.pop("limit", 4)}
    schedule = {"id": ID, "slug": "nightly", "active": False, "schedule": {"cron": changed.pop("cron", "0 2 * * *")}}
    said = {"id": ID, "flow_id": ID, "name": "evaluate", "tags": ["leadline"], "status": "READY"}
    return DeploymentResponse.model_validate(
        said | {"global_concurrency_limit": limit, "schedules": [schedule]} | changed
    )


@pytest.mark.parametrize(
    "by_runs", [{"taken": 2}, {"status": "NOT_READY"}, {"last_polled": THEN}, {"updated": THEN}, {"labels": {"a": "b"}}]
)
def test_what_runs_and_workers_do_is_no_change(by_runs: dict[str, Any]) -> None:
    assert what_was_told(answer(**by_runs)) == what_was_told(answer())


@pytest.mark.parametrize(
    "by_hand", [{"limit": 3}, {"cron": "0 3 * * *"}, {"tags": []}, {"paused": True}, {"parameters": {"a": 1}}]
)
def test_what_a_person_changes_is_a_change(by_hand: dict[str, Any]) -> None:
    assert what_was_told(answer(**by_hand)) != what_was_told(answer())


def test_the_order_in_which_a_server_names_schedules_is_no_change() -> None:
    two = [{"id": ID, "slug": slug, "active": False, "schedule": {"cron": "0 2 * * *"}} for slug in ("a", "b")]
    assert what_was_told(answer(schedules=two)) == what_was_told(answer(schedules=two[::-1]))


def test_the_order_in_which_a_server_names_a_triggers_events_is_no_change() -> None:
    def automation(events: Iterable[str]) -> AutomationCore:
        trigger = EventTrigger(posture=Posture.Reactive, expect=set(events), match_related={"a": ["b", "c"]})
        return AutomationCore(name="alert", trigger=trigger, actions=[DoNothing()])

    names = [f"leadline.gate.{number}" for number in range(100)]
    assert automation_fields_that_differ(automation(names), automation(names[::-1])) == ()
    assert automation_fields_that_differ(automation(names), automation(names[1:])) == ("trigger",)


def test_an_interval_goes_on_from_where_it_began() -> None:
    every = Schedule(slug="often", interval=3600)
    began = IntervalSchedule(interval=timedelta(hours=2), anchor_date=datetime(2026, 1, 1, tzinfo=UTC))
    assert fields_of_schedule(every, began)["schedule"].anchor_date == began.anchor_date
    new = [fields_of_schedule(every, known)["schedule"].anchor_date for known in (None, CronSchedule(cron="0 2 * * *"))]
    assert all(abs(anchor - datetime.now(UTC)) < timedelta(minutes=5) for anchor in new)
    given = datetime(2025, 6, 1, 2, tzinfo=UTC)
    mine = every.model_copy(update={"anchor_date": given})
    assert fields_of_schedule(mine, began)["schedule"].anchor_date == given


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"config": {"dataset": "a.json", "judges": {"judge": "openai/x"}}}, "judges.judge: Extra inputs are not"),
        ({"config": {"dataset": "a.json", "fail_on": "hihg"}}, "fail_on"),
        ({}, "config"),
        ({"config": {"dataset": "a.json"}, "more": 1}, "more"),
    ],
)
def test_a_schedule_whose_parameters_do_not_fit_its_flow_is_refused_by_name(
    parameters: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError) as refused:
        require_fitting_schedules(nightly(parameters))
    assert str(refused.value).startswith("Deployment nightly-check, schedule 'nightly': its parameters do not fit")
    assert said in str(refused.value)
    assert "\n" not in refused.value.message


def test_a_schedule_adds_its_parameters_to_those_of_its_deployment() -> None:
    require_fitting_schedules(nightly({}, config={"dataset": "a.json"}))
    for deployment in read_deployment_file().deployments:
        require_fitting_schedules(deployment)


def test_a_schedule_that_is_switched_off_may_still_lack_its_parameters() -> None:
    deployment = nightly({})
    (schedule,) = deployment.schedules
    off = deployment.model_copy(update={"schedules": (schedule.model_copy(update={"active": False}),)})
    require_fitting_schedules(off)


def nightly(parameters: dict[str, Any], **of_deployment: Any) -> Deployment:
    return Deployment(
        name="nightly-check", entrypoint="leadline.flows.served.evaluate", parameters=of_deployment,
        work_pool=PoolOfDeployment(name="flows"),
        schedules=(Schedule(slug="nightly", cron="0 3 * * *", parameters=parameters),),
    )  # fmt: skip
