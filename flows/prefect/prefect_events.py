"""Events on a Prefect server: sent with a checked answer, and read back with what they started.

Prefect's own ``emit_event`` returns before anything is sent, and an event that does not arrive is lost without a word.
Here an event counts as sent when the server's database shows it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import PurePath
from typing import Any, Final
from uuid import NAMESPACE_URL, UUID, uuid4, uuid5

import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import FlowRun
from prefect.events.filters import EventFilter, EventIDFilter, EventNameFilter, EventOccurredFilter, EventRelatedFilter
from prefect.events.schemas.automations import EventTrigger
from prefect.events.schemas.events import Event, ReceivedEvent
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError

from leadline.evaluators.ground import ErrorCode, LeadlineError

EXECUTED: Final = "prefect.automation.action.executed"
FAILED: Final = "prefect.automation.action.failed"
ARRIVAL_S: Final = 20.0
ATTEMPTS: Final = 50
_NAMESPACE: Final = uuid5(NAMESPACE_URL, "leadline/events")


class EventNotSent(LeadlineError):
    """An event did not arrive at the server, or nobody waits for it."""

    code = ErrorCode.EVENT_NOT_SENT


@dataclass(frozen=True, slots=True)
class EventOutcome:
    """Outcome of an event.

    Attributes:
        flow_run: Id of the flow run, ``""`` when there is none.
        failed: Why an automation could not act on it, ``""`` when it could.
    """

    flow_run: str = ""
    failed: str = ""


@dataclass(frozen=True, slots=True)
class Sent:
    """An event that the server has.

    Attributes:
        new: Whether it was sent now; otherwise the server had it already.
        occurred: When it was sent, as ISO 8601 in UTC.
        outcome: What it started, as far as that is known.
    """

    id: UUID
    new: bool
    occurred: str
    outcome: EventOutcome | None


def send_once(
    name: str,
    resource: Mapping[str, str],
    payload: Mapping[str, Any],
    identity: Mapping[str, Any],
    *,
    again: bool = False,
    wait: float = 0.0,
) -> Sent:
    """Send an event unless the server has it already, and see to it that it has arrived.

    Its id is a digest of what identifies it, so the same event sent twice, even at the same time, is one to Prefect.
    Only where an automation could not act on the earlier one it is sent anew.

    Args:
        resource: Labels of what it is about; ``prefect.resource.id`` is required.
        identity: What makes two of them the same.
        wait: How many seconds to wait for what it starts.

    Raises:
        EventNotSent: The server does not answer, it refuses the event, nobody waits for it, or it did not arrive.
    """
    with _client() as client:
        _check_listener(client, name)
        identifier, known = (uuid4(), None) if again else _find(client, name, identity)
        if known is None:
            event = Event(event=name, resource=dict(resource), payload=dict(payload), id=identifier)
            reply = client.request("POST", "/events", json=[event.model_dump(mode="json")])
            reply.raise_for_status()
            known = _arrived(client, identifier)
            new = True
        else:
            new = False
        outcome = _outcome(client, identifier)
        deadline = time.monotonic() + wait
        while outcome is None and time.monotonic() < deadline:
            time.sleep(0.25)
            outcome = _outcome(client, identifier)
    return Sent(identifier, new, known.occurred.isoformat(timespec="seconds"), outcome)


def identifier_of(name: str, identity: Mapping[str, Any], attempt: int = 0) -> UUID:
    """Return the id of an event: the same for the same content, another for each attempt after a failed one.

    Args:
        identity: Content that makes two events the same.
    """
    content = json.dumps([name, identity, attempt], sort_keys=True, ensure_ascii=False, default=str)
    return uuid5(_NAMESPACE, content)


@dataclass(frozen=True, slots=True)
class Entry:
    """An event with what became of it, for a list.

    Attributes:
        occurred: When, as ISO 8601 in UTC.
        about: Name or id of its resource.
        outcome: What it started or why nothing; ``None`` when nobody acted on it.
    """

    occurred: str
    event: str
    about: str
    outcome: EventOutcome | None


def recent(hours: float, *, failed_only: bool = False, limit: int = 100) -> list[Entry]:
    """Return Leadline's events of the last hours with their outcome, and what automations failed at; newest first.

    Args:
        failed_only: Only what automations failed at.

    Raises:
        EventNotSent: The server does not answer.
    """
    occurred = EventOccurredFilter(since=datetime.now(UTC) - timedelta(hours=hours))
    wanted = [EventFilter(event=EventNameFilter(name=[FAILED]), occurred=occurred)]
    if not failed_only:
        wanted.append(EventFilter(event=EventNameFilter(prefix=["leadline."]), occurred=occurred))
    with _client() as client:
        found = [event for each in wanted for event in pages(client, each, limit)]
        entries = []
        for event in sorted(found, key=lambda event: event.occurred, reverse=True)[:limit]:
            outcome = (
                EventOutcome(failed=failure_reason(event.payload))
                if event.event == FAILED
                else _outcome(client, event.id)
            )
            about = event.resource.get("prefect.resource.name") or event.resource.id
            entries.append(Entry(event.occurred.isoformat(timespec="seconds"), event.event, about, outcome))
    return entries


@contextmanager
def _client() -> Iterator[SyncPrefectClient]:
    try:
        with get_client(sync_client=True) as client:
            yield client
    except PrefectHTTPStatusError as error:
        message = " ".join(error.response.text.split())[:500]
        raise EventNotSent(f"Prefect's server answers {error.response.status_code}: {message}") from error
    except httpx.HTTPError as error:
        raise EventNotSent(f"Prefect's server does not answer: {type(error).__name__}.") from error


def _check_listener(client: SyncPrefectClient, name: str) -> None:
    for automation in client.read_automations():
        trigger = automation.trigger
        if automation.enabled and isinstance(trigger, EventTrigger) and name in trigger.expect:
            return
    raise EventNotSent(
        f"No automation on the server waits for the event {name}.", hint="Make Leadline's: leadline service deploy"
    )


def _find(client: SyncPrefectClient, name: str, identity: Mapping[str, Any]) -> tuple[UUID, ReceivedEvent | None]:
    """Return the id under which the event is to be sent, or was sent already and not in vain."""
    identifiers = [identifier_of(name, identity, attempt) for attempt in range(ATTEMPTS)]
    known = {event.id: event for event in _by_id(client, identifiers)}
    for identifier in identifiers:
        event = known.get(identifier)
        if event is None:
            return identifier, None
        outcome = _outcome(client, identifier)
        if outcome is None or not outcome.failed:
            return identifier, event
    raise EventNotSent(
        f"{ATTEMPTS} events like this one have failed.", hint="See why: leadline service events --failed"
    )


def pages(client: SyncPrefectClient, wanted: EventFilter, limit: int) -> list[ReceivedEvent]:
    """Return events of any number; a page contains 50."""
    page = client.read_events(wanted, limit=min(50, limit))
    found = list(page.events)
    while page.next_page and len(found) < limit:
        page = client.read_events_page(str(page.next_page))
        found += page.events
    return found[:limit]


def _by_id(client: SyncPrefectClient, identifiers: Sequence[UUID]) -> list[ReceivedEvent]:
    return list(client.read_events(EventFilter(id=EventIDFilter(id=list(identifiers))), limit=len(identifiers)).events)


def _arrived(client: SyncPrefectClient, identifier: UUID) -> ReceivedEvent:
    deadline = time.monotonic() + ARRIVAL_S
    while True:
        for event in _by_id(client, [identifier]):
            return event
        if time.monotonic() > deadline:
            raise EventNotSent(f"The server took the event {identifier}, but does not show it after {ARRIVAL_S:.0f} s.")
        time.sleep(0.1)


def _outcome(client: SyncPrefectClient, identifier: UUID) -> EventOutcome | None:
    """Return what automations did on an event; a success outweighs failures."""
    page = client.read_events(
        EventFilter(
            event=EventNameFilter(name=[EXECUTED, FAILED]),
            related=EventRelatedFilter(id=[f"prefect.event.{identifier}"]),
        ),
        limit=50,
    )
    failed = ""
    for event in page.events:
        if event.event == EXECUTED:
            runs = [r.id.removeprefix("prefect.flow-run.") for r in event.related if r.role == "flow-run"]
            return EventOutcome(flow_run=runs[0] if runs else "")
        failed = failure_reason(event.payload)
    return EventOutcome(failed=failed) if failed else None


def known_as(client: SyncPrefectClient, run: FlowRun) -> str:
    """Return what people call a run: what was asked for, and its deployment; Prefect draws a name until it began."""
    given = run.parameters.get("config")
    config: dict[str, Any] = given if isinstance(given, dict) else {}
    name = " ".join(str(config[field]) for field in ("name", "model", "version") if config.get(field))
    name = name or PurePath(str(config.get("dataset") or config.get("suite") or "")).stem or run.name
    try:
        deployment = client.read_deployment(run.deployment_id).name if run.deployment_id else ""
    except ObjectNotFound:
        deployment = ""
    return f"{name} ({deployment})" if deployment not in ("", name) else name


def failure_reason(payload: Mapping[str, Any]) -> str:
    """Return why an automation could not act, in one line."""
    message = " ".join(str(payload.get("reason") or "").split())
    detail = " ".join(str(payload.get("validation_error") or "").split())
    return (message if detail in message else f"{message} {detail}".strip())[:1000] or "no reason was given"
