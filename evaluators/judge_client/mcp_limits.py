"""Limits of what an MCP server may send, on either of its transports; the ``mcp`` package has none of its own.

A message over HTTP is one body, or one event of a stream, for which ``mcp`` has a limit of a mebibyte. A message over
standard output is one line.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, TextIO

import anyio
import httpx2
from anyio.streams.text import TextReceiveStream
from mcp import StdioServerParameters
from mcp.client import stdio
from mcp.shared._httpx_utils import create_mcp_http_client

from leadline.evaluators.judge_client.http_client import NOT_COMPRESSED, in_mebibytes

_STREAM: Final = "text/event-stream"


def bounded_http_client(headers: dict[str, str], most: int) -> httpx2.AsyncClient:
    """Return a client that reads no larger body, and none that is compressed, which was not asked for.

    Args:
        headers: Headers of every request.
        most: Bytes that a body may have.
    """

    async def bound(response: httpx2.Response) -> None:
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("", "identity"):
            raise httpx2.DecodingError(f"the reply is compressed by {encoding[:40]}, which was not asked for")
        if not response.headers.get("content-type", "").lower().startswith(_STREAM):
            response.stream = _Bounded(response.stream, most)

    client = create_mcp_http_client({**NOT_COMPRESSED, **headers})
    client.event_hooks = {"response": [bound]}
    return client


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, parts: Any, most: int) -> None:
        self._parts = parts
        self._most = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        received = 0
        async for part in self._parts:
            received += len(part)
            if received > self._most:
                raise httpx2.ReadError(f"the reply has more than {in_mebibytes(self._most)}")
            yield part

    async def aclose(self) -> None:
        await self._parts.aclose()


def bounded_stdio(program: StdioServerParameters, errors: TextIO, most: int) -> AbstractAsyncContextManager[Any]:
    """Return the transport to a server that is started here; a longer line than allowed is the end of what it says.

    Args:
        program: The server's command.
        errors: Takes what it writes to its standard error.
        most: Characters that a line may have.
    """
    stdio.TextReceiveStream = _bounded_lines(most)  # type: ignore[attr-defined]
    return stdio.stdio_client(program, errlog=errors)


def _bounded_lines(most: int) -> type[TextReceiveStream]:
    class BoundedLines(TextReceiveStream):
        """Text in which no line is longer than allowed."""

        _length = 0

        async def receive(self) -> str:
            chunk = await super().receive()
            _, end, rest = chunk.rpartition("\n")
            self._length = len(rest) if end else self._length + len(rest)
            if self._length > most:
                raise anyio.EndOfStream
            return chunk

    return BoundedLines
