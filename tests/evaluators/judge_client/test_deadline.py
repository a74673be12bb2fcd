"""A deadline counts the silence of others, and not the time in which this process itself stood still."""

from __future__ import annotations

import asyncio
import time

import pytest

from leadline.evaluators.judge_client.event_loop import Deadline
from tests.support.judges.virtual_time import now, virtual_time

anyio_backend = virtual_time


async def test_what_takes_too_long_is_given_up() -> None:
    began = now()
    with pytest.raises(TimeoutError):
        async with Deadline(10):
            await asyncio.sleep(30)
    assert now() - began == pytest.approx(10, abs=0.2)
    async with Deadline(10):
        await asyncio.sleep(9)


def test_a_loop_that_stands_still_is_nobodys_silence() -> None:
    async def main() -> str:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"?")
        async with Deadline(0.3):
            await asyncio.sleep(0)
            time.sleep(1.0)
            return (await reader.read(2)).decode()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        await asyncio.sleep(0.1)
        writer.write(b"ok")

    async def both() -> str:
        nonlocal server
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            return await main()

    server: asyncio.Server
    assert asyncio.run(both()) == "ok"


async def test_a_cancelled_block_is_cancelled_and_not_late() -> None:
    async def work() -> None:
        async with Deadline(10):
            await asyncio.sleep(30)

    task = asyncio.ensure_future(work())
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
