"""What the automations of Leadline's own file act on, by the server's own rules."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from prefect.server.events.schemas.automations import EventTrigger
from prefect.server.events.schemas.events import ReceivedEvent

from leadline.flows.alert import Alert, headline
from leadline.flows.deploy.file import read_deployment_file

TRIGGERS = {one["name"]: EventTrigger.model_validate(one["trigger"]) for one in read_deployment_file().automations}


def event(name: str, resource: dict[str, str], related: list[dict[str, str]], **payload: Any) -> ReceivedEvent:
    now = datetime.now(UTC)
    given = {"event": name, "resource": resource, "related": related, "payload": payload, "occurred": now}
    return ReceivedEvent.model_validate(given | {"received": now, "id": uuid4()})


def state(name: str, kind: str, deployment: str = "evaluate", tags: tuple[str, ...] = ("leadline",)) -> ReceivedEvent:
    """Return the event of a flow run's state as Prefect's server makes it (prefect/server/models/events.py)."""
    run = {"prefect.resource.id": f"prefect.flow-run.{uuid4()}", "prefect.resource.name": "nightly"}
    run |= {"prefect.state-type": kind, "prefect.state-name": name}
    related = [related_resource("tag", tag, tag) for tag in tags] + [related_resource("work-pool", "1", "flows")]
    if deployment:
        related.append(related_resource("deployment", "1", deployment))
    reason = {"type": kind, "name": name, "message": f"it is {name}"}
    return event(f"prefect.flow-run.{name}", run, related, validated_state=reason)


def related_resource(kind: str, identifier: str, name: str) -> dict[str, str]:
    return {
        "prefect.resource.id": f"prefect.{kind}.{identifier}",
        "prefect.resource.role": kind,
        "prefect.resource.name": name,
    }


@pytest.mark.parametrize(
    ("name", "kind"), [("Failed", "FAILED"), ("TimedOut", "FAILED"), ("Crashed", "CRASHED"), ("Cancelled", "CANCELLED")]
)
@pytest.mark.parametrize("deployment", ["evaluate", "collect-and-evaluate", "compare", "maintain", "evaluate-harbour"])
def test_a_run_that_does_not_reach_its_gate_raises_an_alert(name: str, kind: str, deployment: str) -> None:
    assert TRIGGERS["leadline-alert-run"].covers(state(name, kind, deployment))


@pytest.mark.parametrize(
    "other",
    [
        state("Completed", "COMPLETED"),
        state("Cancelling", "CANCELLING"),
        state("AwaitingRetry", "SCHEDULED"),
        state("Crashed", "CRASHED", "judge", ("leadline", "lane-judge")),
        state("Failed", "FAILED", ""),
        state("Failed", "FAILED", "alert", ("leadline-alert",)),
        state("Failed", "FAILED", "evaluate", ("somebody-elses",)),
        event("prefect.flow-run.heartbeat", {"prefect.resource.id": "prefect.flow-run.1"}, []),
    ],
    ids=lambda one: f"{one.event} {len(one.related)}",
)
def test_chunks_commands_alerts_and_other_peoples_flows_raise_none(other: ReceivedEvent) -> None:
    assert not TRIGGERS["leadline-alert-run"].covers(other)


def test_a_run_that_nobody_starts_raises_an_alert_and_anything_that_happens_to_it_ends_the_wait() -> None:
    late = TRIGGERS["leadline-alert-late"]
    assert late.posture.value == "Proactive"
    assert late.covers(state("Late", "SCHEDULED"))
    assert late.starts_after("prefect.flow-run.Late")
    for name in ("Pending", "AwaitingConcurrencySlot", "Cancelled"):
        assert late.expects(f"prefect.flow-run.{name}")
        assert not late.starts_after(f"prefect.flow-run.{name}")
    assert not late.covers(state("Late", "SCHEDULED", "alert", ("leadline-alert",)))


@pytest.mark.parametrize("tags", [("leadline",), ("leadline-alert",)])
def test_a_run_that_was_taken_and_does_not_begin_is_found_within_ten_minutes(tags: tuple[str, ...]) -> None:
    lost = TRIGGERS["leadline-not-begun"]
    assert (lost.posture.value, lost.within <= timedelta(minutes=10)) == ("Proactive", True)
    for name in ("Pending", "Submitting"):
        assert lost.starts_after(f"prefect.flow-run.{name}")
        assert lost.covers(state(name, "PENDING", tags=tags))
    assert lost.expects("prefect.flow-run.Running")
    assert not lost.starts_after("prefect.flow-run.Running")
    assert not lost.covers(state("Pending", "PENDING", tags=("somebody-elses",)))


MESSAGES = [one["actions"][0].get("message", "") for one in read_deployment_file().automations]


def crashed(
    flow: str = "evaluate", count: str = "1", deployment: str = "d", tag: str = "leadline", message: str = MESSAGES[0]
) -> ReceivedEvent:
    found = state("Crashed", "CRASHED", deployment, (tag,))
    found.resource.root |= {"prefect.run-count": count, "prefect.state-message": message}
    return event(found.event, found.resource.root, [one.root for one in found.related] + [
        related_resource("flow", "1", flow)
    ])  # fmt: skip


def test_a_run_that_was_lost_is_started_again_but_not_for_ever() -> None:
    again = TRIGGERS["leadline-start-again"]
    assert [again.covers(crashed(count=count)) for count in ("0", "1", "2")] == [True, True, False]
    assert again.covers(crashed(message=MESSAGES[1]))
    assert not again.covers(crashed(message="Flow run infrastructure exited with non-zero status code -9."))
    assert again.within == timedelta(hours=1)  # one that never begins has a count of 0 each time
    assert again.for_each == {"prefect.resource.id"}
    assert again.covers(crashed("alert", tag="leadline-alert"))
    for other in (crashed("score-chunk"), crashed(deployment=""), crashed(tag="somebody-elses")):
        assert not again.covers(other)
    assert not again.expects("prefect.flow-run.Failed")


@pytest.mark.parametrize(
    ("automation", "posture", "raises"),
    [
        ("leadline-model-version", "Reactive", True),
        ("leadline-crashed", "Proactive", False),  # the run has ended in the meantime
        ("leadline-alert-gate", "Reactive", False),
        ("leadline-alert-late", "Proactive", False),
    ],
)
def test_only_an_event_that_started_nothing_raises_an_alert(automation: str, posture: str, raises: bool) -> None:
    who = {"prefect.resource.id": "prefect.automation.1", "prefect.resource.name": automation}
    failed = event("prefect.automation.action.failed", who | {"prefect.posture": posture}, [])
    assert TRIGGERS["leadline-alert-action-failed"].covers(failed) is raises


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (state("Failed", "FAILED"), "prefect.flow-run.Failed of nightly: it is Failed"),
        (
            state("Late", "SCHEDULED"),
            "prefect.flow-run.Late of nightly: no worker of the pool flows has taken it since",
        ),
        (event("leadline.gate.failed", {"prefect.resource.id": "r"}, [], reason="2 problems"), "of r: 2 problems"),
        (event("leadline.judge.changed", {"prefect.resource.id": "j"}, [], reason="17 of 100"), "of j: 17 of 100"),
    ],
)
def test_the_headline_says_who_and_why(found: ReceivedEvent, said: str) -> None:
    alert = Alert(
        event=found.event,
        resource=found.resource.root,
        occurred=found.occurred.isoformat(),
        payload=found.payload,
        related=[one.root for one in found.related],
    )
    assert said in headline(alert)
