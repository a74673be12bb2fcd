"""The watcher: looks at Prefect's server and the store, and tells recipients what went wrong.

Gates that failed, runs that ended badly, late or lost ones, and judges that changed. It asks instead of waiting for
events or automations, because asking survives restarts of either side: it knows until when it has looked, and looks
from there again. It needs no worker, so that it also tells of runs that nobody takes.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    FlowFilter,
    FlowFilterName,
    FlowRunFilter,
    FlowRunFilterDeploymentId,
    FlowRunFilterEndTime,
    FlowRunFilterExpectedStartTime,
    FlowRunFilterState,
    FlowRunFilterStateName,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.events.filters import EventFilter, EventNameFilter, EventOccurredFilter
from prefect.events.schemas.events import ReceivedEvent

from leadline.evaluators.ground import LeadlineError
from leadline.flows.prefect.prefect_events import FAILED, failure_reason, known_as, pages
from leadline.flows.prefect.report_links import ui_address
from leadline.flows.prefect.server_outage import not_waiting
from leadline.flows.shared.judge_access import JUDGE_CHANGED
from leadline.plugins.ops.notify.outbox import Outbox, Send
from leadline.plugins.ops.notify.recipients import Kind, Notice, Recipient, send
from leadline.tasks.ground.files import replacing
from leadline.tasks.runs.run_index import RunIndex, RunLine
from leadline.tasks.store.store import Store

OVERLAP: Final = timedelta(minutes=20)
"""How far each look reaches behind the last one: events may be stored late."""

LONGEST_LOOK: Final = timedelta(days=7)
"""How far the first look after a long pause reaches back; Prefect keeps events as long."""

_log = logging.getLogger("leadline.notify")


@dataclass
class Watcher:
    """A watch over runs for some recipients."""

    folder: Path
    recipients: Sequence[Recipient]
    store: Store
    prefect: str = ""
    send: Send = send
    _outbox: Outbox = field(init=False)
    _index: RunIndex = field(init=False)
    _away: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self._outbox = Outbox(self.folder)
        self._index = RunIndex(self.store)

    def look(self) -> int:
        """Look once, send what is due, and return how many notices went out."""
        now = datetime.now(UTC)
        known = self._since()
        since = max(known or now, now - LONGEST_LOOK)
        reached = self._ask_prefect(since, now)
        self._look_at_store(now, first=known is None)
        if known is None:
            self._remember(now)
        elif reached:
            self._remember(max(known, now - OVERLAP))
        return self._outbox.deliver(self.recipients, self.send)

    def watch(self, every: float, ended: threading.Event) -> None:
        """Look again and again.

        Args:
            every: Seconds between two looks.
        """
        while not ended.is_set():
            self.look()
            ended.wait(every)

    def _ask_prefect(self, since: datetime, now: datetime) -> bool:
        """Take what Prefect's server knows; returns whether it answered."""
        try:
            with not_waiting(), get_client(sync_client=True) as client:
                self._take(happened(client, since, now, self.prefect))
        except (httpx.HTTPError, OSError, RuntimeError) as error:
            if not self._away:
                _log.warning("Prefect's server does not answer (%s); it is asked again.", type(error).__name__)
            self._away = True
            return False
        if self._away:
            _log.info("Prefect's server answers again.")
        self._away = False
        return True

    def _look_at_store(self, now: datetime, *, first: bool) -> None:
        try:
            for notice in lost(self._index, now - LONGEST_LOOK):
                for recipient in self._who(notice):
                    if first:  # what was lost before somebody asked to be told is history
                        self._outbox.skip(recipient, notice)
                    else:
                        self._outbox.put(recipient, notice)
        except (LeadlineError, OSError) as error:
            _log.warning("The store cannot be read: %s", error)

    def _take(self, notices: Iterable[Notice]) -> None:
        for notice in notices:
            for recipient in self._who(notice):
                self._outbox.put(recipient, notice)

    def _who(self, notice: Notice) -> list[Recipient]:
        return [recipient for recipient in self.recipients if notice.kind in recipient.kinds]

    def _since(self) -> datetime | None:
        """Return from when to look, or ``None`` at the very first look."""
        try:
            return datetime.fromisoformat((self.folder / "since").read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None

    def _remember(self, since: datetime) -> None:
        with replacing(self.folder / "since") as draft:
            draft.write_text(since.isoformat(), encoding="ascii")


def prefect_ui(api: str) -> str:
    """Return the address of Prefect's UI for links: the configured one, else that of the server's own."""
    return (os.environ.get("PREFECT_UI_URL") or api.rstrip("/").removesuffix("/api")).rstrip("/")


GATES: Final = {"leadline.gate.failed": Kind.FAIL, "leadline.gate.inconclusive": Kind.INCONCLUSIVE}
FLOWS: Final = ("evaluate", "on-model-version", "compare")
ENDINGS: Final = {StateType.FAILED: Kind.FAILED, StateType.CRASHED: Kind.CRASHED, StateType.CANCELLED: Kind.CANCELLED}
LATE_AFTER: Final = timedelta(minutes=15)
LONGEST_LATE: Final = timedelta(days=1)
_ADDRESS: Final = re.compile(r"(?:https?|file)://[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]{1,490}")
PAGE: Final = 200
MOST: Final = 2000
"""Things of one kind that are looked at in one go."""


def happened(client: SyncPrefectClient, since: datetime, now: datetime, prefect: str) -> Iterator[Notice]:
    """Yield what Prefect's server knows of since a time; the same may be seen again."""
    yield from _gates(client, since)
    yield from _judges(client, since)
    yield from _unheard(client, since)
    for run in _runs(
        client,
        state=FlowRunFilterState(type=FlowRunFilterStateType(any_=list(ENDINGS))),
        end_time=FlowRunFilterEndTime(after_=since),
    ):
        yield _ended(run, known_as(client, run), prefect)
    for run in _runs(
        client,
        state=FlowRunFilterState(name=FlowRunFilterStateName(any_=["Late"])),
        expected_start_time=FlowRunFilterExpectedStartTime(after_=since - LONGEST_LATE, before_=now - LATE_AFTER),
    ):
        yield _late(run, known_as(client, run), prefect)


def lost(index: RunIndex, since: datetime) -> Iterator[Notice]:
    """Yield the runs of a store that were lost with their process.

    Args:
        since: Only runs that were started after this time.
    """
    for line in index.lines():
        if line.status == "lost" and _started(line, since):
            base = ui_address()
            yield Notice(
                _key_of_end(line.flow_run or line.id),
                Kind.LOST,
                f"{line.name} ({line.id})",
                (line.reason or "Its process ended without a word.",),
                f"{base}/runs/{line.id}" if base else "",
            )


def _started(line: RunLine, since: datetime) -> bool:
    try:
        return datetime.fromisoformat(line.started) >= since
    except (ValueError, TypeError):
        return False


def _key_of_end(identifier: str) -> str:
    """Return the key of a bad end: one for a flow run and the run in the store that it made."""
    return f"end {identifier}"


def _gates(client: SyncPrefectClient, since: datetime) -> Iterator[Notice]:
    wanted = EventFilter(event=EventNameFilter(name=list(GATES)), occurred=EventOccurredFilter(since=since))
    for event in pages(client, wanted, MOST):
        told = event.payload
        worst = [f"- {line}" for line in _texts(told.get("worst"))[:3]]
        changed = [f"Changed: {told['changed']}"] if told.get("changed") else []
        yield Notice(
            f"event {event.id}",
            GATES[event.event],
            _about(event),
            (str(told.get("reason") or ""), *worst, *changed),
            _web(told.get("report")),
        )


def _judges(client: SyncPrefectClient, since: datetime) -> Iterator[Notice]:
    """Yield judges that were found to have changed; the same change found by several runs is told once."""
    wanted = EventFilter(event=EventNameFilter(name=[JUDGE_CHANGED]), occurred=EventOccurredFilter(since=since))
    for event in pages(client, wanted, MOST):
        told = event.payload
        accept = [f"Rows are not judged in gated runs until: {told['accept']}"] if told.get("accept") else []
        lines = (str(told.get("reason") or ""), *_texts(told.get("signs"))[:3], *accept)
        yield Notice(f"judge {event.resource.id} {told.get('epoch')}", Kind.CHANGED, _about(event), lines)


def _unheard(client: SyncPrefectClient, since: datetime) -> Iterator[Notice]:
    """Yield events that automations could not act on, such as a new model version whose payload does not fit."""
    wanted = EventFilter(event=EventNameFilter(name=[FAILED]), occurred=EventOccurredFilter(since=since))
    for event in pages(client, wanted, MOST):
        name = event.resource.get("prefect.resource.name") or ""
        if event.resource.get("prefect.posture") == "Reactive" and name.startswith("leadline-model"):
            yield Notice(f"event {event.id}", Kind.FAILED, f"What {name} starts", (failure_reason(event.payload),))


def _runs(client: SyncPrefectClient, **conditions: Any) -> Iterator[FlowRun]:
    """Yield the runs of deployments that end in a gate."""
    for offset in range(0, MOST, PAGE):
        found = client.read_flow_runs(
            flow_filter=FlowFilter(name=FlowFilterName(any_=list(FLOWS))),
            flow_run_filter=FlowRunFilter(deployment_id=FlowRunFilterDeploymentId(is_null_=False), **conditions),
            limit=PAGE,
            offset=offset,
        )
        yield from found
        if len(found) < PAGE:
            return


def _ended(run: FlowRun, name: str, prefect: str) -> Notice:
    kind = ENDINGS.get(run.state_type or StateType.FAILED, Kind.FAILED)
    message = (run.state.message if run.state else "") or ""
    return Notice(_key_of_end(str(run.id)), kind, name, (message,), _flow_run(run, prefect))


def _late(run: FlowRun, name: str, prefect: str) -> Notice:
    due = f"{run.expected_start_time:%Y-%m-%d %H:%M %Z}" if run.expected_start_time else "?"
    line = f"It was due at {due}. Is a worker of the pool {run.work_pool_name or '?'} online?"
    return Notice(f"late {run.id}", Kind.LATE, name, (line,), _flow_run(run, prefect))


def _flow_run(run: FlowRun, prefect: str) -> str:
    return f"{prefect}/runs/flow-run/{run.id}" if prefect else ""


def _about(event: ReceivedEvent) -> str:
    return event.resource.get("prefect.resource.name") or event.resource.id


def _texts(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []


def _web(value: object) -> str:
    """Return an address as a line of its own, of whatever an event says; none that a chat could take for more."""
    return value if isinstance(value, str) and _ADDRESS.fullmatch(value) else ""
