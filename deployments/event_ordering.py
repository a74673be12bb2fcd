"""The order in which Prefect's server acts on events, for those whose predecessor never comes.

Events of a flow run name the one that they follow, and the server holds an event back until it has seen that one, for
15 minutes at most. But Prefect's scheduler inserts runs without an event for their first state. So what a run does that
starts within five minutes of its insertion would be acted on 15 minutes late: a run that ended is taken for one without
heartbeats, and an alert about a failed one comes late. Here an event waits for seconds.

Heartbeats name no event that they follow. One that is acted on after its run's end would begin a wait for a next one,
and the run would be taken for lost. So heartbeats wait as long, and those of a run that has ended are left out.

The server imports it by name: ``PREFECT_SERVER_EVENTS_CAUSAL_ORDERING=leadline.deployments.event_ordering``.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from prefect.client.schemas.objects import TERMINAL_STATES
from prefect.server.events.ordering import EventArrivedEarly
from prefect.server.events.schemas.events import ReceivedEvent
from prefect_redis import ordering  # type: ignore[import-untyped]

PATIENCE: Final = timedelta(seconds=10)
"""Time that an event waits for the one that it follows; events overtake each other by less than a second."""


HEARTBEAT: Final = "prefect.flow-run.heartbeat"
ENDED_S: Final = 3600
"""Time for which it is known that a run has ended."""


class CausalOrdering(ordering.CausalOrdering):  # type: ignore[misc]
    """Prefect's ordering in Redis, with less patience."""

    async def wait_for_leader(self, event: ReceivedEvent) -> None:
        """Return when an event may be acted on.

        Raises:
            EventArrivedEarly: Its predecessor is not there yet, or the end of the run whose heartbeat it is may come.
        """
        await self._note_end(event)
        if datetime.now(UTC) - event.received >= PATIENCE:
            return
        if event.event == HEARTBEAT:
            await self.redis.set(self._key(f"event:{event.id}"), event.model_dump_json(), ex=ENDED_S)
            await self.redis.zadd(self._key("waitlist"), {str(event.id): event.received.timestamp()})
            raise EventArrivedEarly(event)
        await super().wait_for_leader(event)

    async def _note_end(self, event: ReceivedEvent) -> None:
        """Note that a run has ended, or goes on after all, as soon as the server hears of it."""
        ended, kind = self._key(f"ended:{event.resource.id}"), event.resource.get("prefect.state-type")
        if kind in TERMINAL_STATES:
            await self.redis.set(ended, 1, ex=ENDED_S)
        elif kind == "SCHEDULED":  # it is started again
            await self.redis.delete(ended)

    async def _is_of_use(self, event: ReceivedEvent) -> bool:
        return event.event != HEARTBEAT or not await self.redis.exists(self._key(f"ended:{event.resource.id}"))

    async def get_lost_followers(self) -> list[ReceivedEvent]:
        """Return events that have waited in vain, and take them off the list; the server acts on them.

        Those that follow another one on the list are left there: they are acted on after that one, once.
        """
        waiting = self._key("waitlist")
        due = (datetime.now(UTC) - PATIENCE).timestamp()
        ids = {UUID(found) for found in await self.redis.zrange(waiting, 0, due, byscore=True)}
        first = [event for event in await self.followers_by_id(list(ids)) if event.follows not in ids]
        taken = [event for event in first if await self.redis.zrem(waiting, str(event.id))]  # by this server alone
        lost = [*taken, *await super().get_lost_followers()]
        return [event for event in lost if await self._is_of_use(event)]
