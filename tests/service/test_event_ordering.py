"""Events whose predecessor never comes are acted on in seconds, once, and in their order."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from prefect.server.events.ordering import EventArrivedEarly
from prefect.server.events.schemas.events import ReceivedEvent
from prefect_redis.client import clear_cached_clients

from leadline.deployments.event_ordering import PATIENCE, CausalOrdering
from leadline.deployments.service import redis_answers
from tests.support.processes.ports import free_port
from tests.support.processes.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.service]


@pytest.fixture
def redis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    port = free_port()
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--requirepass", "p", "--save", ""]
    server = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL)
    try:
        eventually(partial(redis_answers, port, "p"), 20, "Redis answers")
        monkeypatch.setenv("PREFECT_REDIS_MESSAGING_URL", f"redis://:p@127.0.0.1:{port}/0")
        asyncio.run(clear_cached_clients())
        yield
    finally:
        asyncio.run(clear_cached_clients())
        server.kill()
        server.wait()


def state(name: str, follows: UUID | None, ago: timedelta = timedelta()) -> ReceivedEvent:
    at = datetime.now(UTC) - ago
    about = {"prefect.resource.id": "prefect.flow-run.1"}
    event = {"event": f"prefect.flow-run.{name}", "resource": about, "occurred": at, "id": uuid4(), "follows": follows}
    return ReceivedEvent.model_validate(event | {"received": at})


class Server:
    """Acts on events as Prefect's does (``prefect.server.events.triggers``)."""

    def __init__(self) -> None:
        self.ordering = CausalOrdering(scope="triggers")
        self.acted: list[str] = []

    async def act(self, event: ReceivedEvent, depth: int = 0) -> None:
        async with self.ordering.preceding_event_confirmed(self.act, event, depth):
            self.acted.append(event.event.removeprefix("prefect.flow-run."))

    async def receive(self, *events: ReceivedEvent) -> None:
        for event in events:
            with suppress(EventArrivedEarly):
                await self.act(event)

    async def look_for_lost_ones(self) -> None:
        for event in await self.ordering.get_lost_followers():
            await self.act(event)


def chain(ago: timedelta) -> list[ReceivedEvent]:
    """Return the events of a run that the scheduler inserted without one."""
    pending = state("Pending", uuid4(), ago)
    running = state("Running", pending.id, ago)
    return [pending, running, state("Completed", running.id, ago)]


def test_a_run_without_a_first_event_is_acted_on_after_seconds_in_order_and_once(redis: None) -> None:
    async def scenario() -> list[str]:
        server, events = Server(), chain(timedelta())
        await server.receive(*events)
        assert server.acted == []
        await server.look_for_lost_ones()
        assert server.acted == []  # its predecessor may still come
        late = datetime.now(UTC) - PATIENCE - timedelta(seconds=1)
        for event in events:
            await server.ordering.record_follower(event.model_copy(update={"received": late}))
        await server.look_for_lost_ones()
        await server.look_for_lost_ones()
        return server.acted

    assert asyncio.run(scenario()) == ["Pending", "Running", "Completed"]


def test_events_that_overtake_each_other_are_still_put_in_order(redis: None) -> None:
    async def scenario() -> list[str]:
        server = Server()
        first = state("Scheduled", None)
        second = state("Pending", first.id)
        await server.receive(state("Running", second.id), second, first)
        return server.acted

    assert asyncio.run(scenario()) == ["Scheduled", "Pending", "Running"]


def test_a_heartbeat_that_is_acted_on_after_the_end_of_its_run_begins_no_wait(redis: None) -> None:
    """It may be sent while the end is on its way to the server, and has the later time."""

    async def scenario() -> tuple[list[str], list[str], list[str]]:
        server = Server()
        heartbeat, end = state("heartbeat", None), state("Completed", None)
        end.resource.root["prefect.state-type"] = "COMPLETED"
        await server.receive(heartbeat)
        before = list(server.acted)
        await server.receive(end)
        await ripen(server)
        after = list(server.acted)
        again = state("AwaitingRetry", None)
        again.resource.root["prefect.state-type"] = "SCHEDULED"
        await server.receive(again, state("heartbeat", None))
        await ripen(server)
        return before, after, server.acted

    async def ripen(server: Server) -> None:
        waiting = server.ordering._key("waitlist")
        for name in await server.ordering.redis.zrange(waiting, 0, -1):
            event = await server.ordering.redis.get(server.ordering._key(f"event:{name}"))
            old = ReceivedEvent.model_validate_json(event)
            old = old.model_copy(update={"received": old.received - PATIENCE - timedelta(seconds=1)})
            await server.ordering.redis.set(server.ordering._key(f"event:{name}"), old.model_dump_json())
            await server.ordering.redis.zadd(waiting, {name: old.received.timestamp()})
        await server.look_for_lost_ones()

    before, after, at_last = asyncio.run(scenario())
    assert (before, after) == ([], ["Completed"])
    assert at_last == ["Completed", "AwaitingRetry", "heartbeat"]
