"""Counting what a Prefect server has received and not yet written to its database.

Task runs and events arrive as messages that two of the server's services gather and write in batches; what they have
not written when the server ends is lost silently. :class:`PendingWrites` listens to the same messages and compares
them with the database. Prefect offers no public interface for that, so this uses its internals, which a test checks.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final
from uuid import UUID

BATCH: Final = 500
"""Ids asked for at once; SQLite allows some thousand parameters."""


class PendingWrites:
    """Remembers what a server receives from now on; made and used within the server's event loop."""

    def __init__(self) -> None:
        from prefect.server.utilities.messaging.memory import Topic
        from prefect.settings import get_current_settings

        services = get_current_settings().server.services
        self._keeps_events = services.event_persister.enabled
        self._keeps_states = services.task_run_recorder.enabled
        self._events: set[UUID] = set()
        self._states: set[UUID] = set()
        self._messages = Topic.by_name("events").subscribe()
        self._listening = asyncio.create_task(self._listen())

    async def missing(self) -> int:
        """Return how many events and states of task runs have been received and are not in the database yet."""
        from prefect.server.database import provide_database_interface

        database = provide_database_interface()
        self._events -= await _present(database, database.Event, self._events)
        self._states -= await _present(database, database.TaskRunState, self._states)
        return self._messages._queue.qsize() + len(self._events) + len(self._states)

    async def _listen(self) -> None:
        while True:
            message = await self._messages.get()
            event = json.loads(message.data)
            if self._keeps_events:
                self._events.add(UUID(event["id"]))
            if self._keeps_states and _is_task_run_state(event):
                self._states.add(UUID(event["id"]))  # the recorder gives a state its event's id


def _is_task_run_state(event: dict[str, Any]) -> bool:
    """Return whether the recorder makes a state of a task run of an event, by the recorder's own rule."""
    from_client = event["resource"].get("prefect.orchestration") == "client"
    return bool(from_client and event["event"].startswith("prefect.task-run"))


async def _present(database: Any, table: Any, ids: set[UUID]) -> set[UUID]:
    import sqlalchemy as sa

    found: set[UUID] = set()
    wanted = list(ids)
    async with database.session_context() as session:
        for start in range(0, len(wanted), BATCH):
            chunk = wanted[start : start + BATCH]
            found |= set(await session.scalars(sa.select(table.id).where(table.id.in_(chunk))))
    return found
