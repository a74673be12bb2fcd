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

from leadline.flows.deploy.apply import automation_fields_that_differ, fields_of_schedule, what_was_told
from leadline.flows.deploy.file import Schedule

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
