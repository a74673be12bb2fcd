"""Detecting dead shards by the heartbeats that Prefect's engine sends from their processes."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.events.filters import EventFilter, EventNameFilter, EventOccurredFilter, EventResourceFilter

HEARTBEAT: Final = "prefect.flow-run.heartbeat"


class Heartbeats:
    """Looks for a shard's last heartbeat once per period of silence.

    A process is taken for lost when it was heard before and sent nothing new within a full period. Events are compared
    by their ids, so the clocks of the hosts do not matter. A process that was never heard of, for instance because
    heartbeats are switched off, is not judged by them.

    Args:
        client: Prefect's API.
        silence: The period, in seconds; several times the pause between heartbeats.
    """

    def __init__(self, client: SyncPrefectClient, silence: float) -> None:
        self._client = client
        self._silence = silence
        self._looked: dict[UUID, float] = {}
        self._last: dict[UUID, UUID] = {}

    def missing(self, flow_run: UUID, running_since: float) -> bool:
        """Return whether a process has stopped sending heartbeats.

        Args:
            running_since: Time of its start in monotonic seconds.

        Raises:
            httpx.HTTPError: The API does not answer.
        """
        now = time.monotonic()
        known = self._last.get(flow_run)
        looked = self._looked.get(flow_run, running_since)
        if now - looked < (self._silence if known else self._silence / 4):
            return False
        self._looked[flow_run] = now
        newest = self._newest(flow_run)
        if newest is None:
            return False
        self._last[flow_run] = newest
        return newest == known

    def reset_timers(self, flow_runs: Iterable[UUID]) -> None:
        """Begin a new period for these, since their heartbeats may not have reached the API."""
        self._looked |= dict.fromkeys(flow_runs, time.monotonic())

    def _newest(self, flow_run: UUID) -> UUID | None:
        now = datetime.now(UTC)
        page = self._client.read_events(
            EventFilter(
                event=EventNameFilter(name=[HEARTBEAT]),
                resource=EventResourceFilter(id=[f"prefect.flow-run.{flow_run}"]),
                occurred=EventOccurredFilter(since=now - timedelta(days=2), until=now + timedelta(days=1)),
            ),
            limit=1,
        )
        return page.events[0].id if page.events else None
