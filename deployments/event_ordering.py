"""The order in which Prefect's server acts on events, for those whose predecessor never comes.

Events of a flow run name the one that they follow, and the server holds an event back until it has seen that one, for
15 minutes at most. But Prefect's scheduler inserts runs without an event for their first state. So what a run does that
starts within five minutes of its insertion would be acted on 15 minutes late: a run that ended is taken for one without
heartbeats, and an alert about a failed one comes late. Here an event waits for seconds.

The server imports it by name: ``PREFECT_SERVER_EVENTS_CAUSAL_ORDERING=leadline.deployments.event_ordering``.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from prefect.server.events.schemas.events import ReceivedEvent
from prefect_redis import ordering  # type: ignore[import-untyped]

PATIENCE: Final = timedelta(seconds=10)
"""Time that an event waits for the one that it follows; events overtake each other by less than a second."""


class CausalOrdering(ordering.CausalOrdering):  # type: ignore[misc]
    """Prefect's ordering in Redis, with less patience."""

    async def wait_for_leader(self, event: ReceivedEvent) -> None:
        """Return when an event may be acted on.

        Raises:
            EventArrivedEarly: Its predecessor is not there yet.
        """
        if datetime.now(UTC) - event.received < PATIENCE:
            await super().wait_for_leader(event)

    async def get_lost_followers(self) -> list[ReceivedEvent]:
        """Return events that have waited in vain, and take them off the list; the server acts on them.

        Those that follow another one on the list are left there: they are acted on after that one, once.
        """
        waiting = self._key("waitlist")
        due = (datetime.now(UTC) - PATIENCE).timestamp()
        ids = {UUID(found) for found in await self.redis.zrange(waiting, 0, due, byscore=True)}
        first = [event for event in await self.followers_by_id(list(ids)) if event.follows not in ids]
        taken = [event for event in first if await self.redis.zrem(waiting, str(event.id))]  # by this server alone
        return [*taken, *await super().get_lost_followers()]
