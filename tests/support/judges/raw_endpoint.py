"""A server that answers every request with the bytes it is told, for replies that no proper judge gives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from ssl import SSLContext

from leadline.evaluators.judge_client.http_client import close_connections

Said = bytes | Iterable[bytes] | None
"""A whole HTTP reply, or its pieces, sent one by one; ``None`` for silence, ``b""`` for a closed connection."""

Answer = Callable[[bytes, bytes], Said]
"""Returns what is said to a head and a body."""

PIECE_S = 0.01
"""Seconds between two pieces."""


@dataclass
class RawEndpoint:
    """Where it listens, and the heads and bodies that it got."""

    port: int = 0
    heads: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"


def http(body: bytes, status: int = 200, **headers: str) -> bytes:
    """Return a whole reply; underscores in names of headers are hyphens."""
    lines = [f"HTTP/1.1 {status} X", f"content-length: {len(body)}", "content-type: application/json"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def chunked(parts: Iterable[bytes]) -> Iterable[bytes]:
    """Return a reply whose parts are sent one by one."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    return chain([head], (b"%x\r\n%s\r\n" % (len(part), part) for part in parts))


async def converse(answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the requests of a connection until nothing is said to one, or the other side goes."""
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            said = answer(head, await reader.readexactly(int(length[0].split(b":")[1])) if length else b"")
            if said is None:
                await reader.read(1)
            if not said:
                return
            for piece in [said] if isinstance(said, bytes) else said:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0 if isinstance(said, bytes) else PIECE_S)
    except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
        pass
    finally:
        writer.close()


@asynccontextmanager
async def answering(answer: Answer, tls: SSLContext | None = None) -> AsyncIterator[RawEndpoint]:
    """Serve in the running loop, and close the connections to it that the wires keep."""
    endpoint = RawEndpoint()

    def noted(head: bytes, body: bytes) -> Said:
        endpoint.heads.append(head.decode())
        endpoint.bodies.append(body)
        return answer(head, body)

    server = await asyncio.start_server(partial(converse, noted), "127.0.0.1", 0, ssl=tls)
    endpoint.port = server.sockets[0].getsockname()[1]
    try:
        yield endpoint
    finally:
        await close_connections()
        server.close()
