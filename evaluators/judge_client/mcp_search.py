"""The client of an MCP server's tools (Model Context Protocol), started here as a process or reached over HTTP.

A server is kept for as long as it is asked; an idle one is let go. What it may send is limited, since the ``mcp``
package limits nothing but events of a stream: a message over HTTP is one body, one over standard output is one line.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias
from weakref import WeakKeyDictionary

import anyio
import httpx2
from anyio.streams.text import TextReceiveStream
from mcp import Client, StdioServerParameters
from mcp.client import stdio
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.types import CallToolResult

from leadline.evaluators.ground import remember_variable
from leadline.evaluators.judge_client.http_client import NOT_COMPRESSED, in_mebibytes
from leadline.evaluators.settings import SEARCH_KEY_VARIABLE

ENVIRONMENT_VARIABLE: Final = "LEADLINE_SEARCH_ENV"
START_S: Final = 60.0
"""Longest wait for a server to start and to say what tools it has."""

IDLE_S: Final = 30.0
"""Time without a question after which a server is let go."""

_ARGUMENTS: Final = ("query", "q", "search", "search_query", "text", "input", "question")

Place: TypeAlias = str | tuple[str, ...]
"""The address of a server, or the command that starts it, with its arguments."""

Headers: TypeAlias = Mapping[str, str]
Schemas: TypeAlias = Mapping[str, Mapping[str, Any]]
"""The schemas of the arguments of a server's tools, by their names."""

Choice: TypeAlias = Callable[[Schemas], tuple[str, Mapping[str, Any]]]
"""Returns the tool to call and its arguments; raises ``LookupError`` where the server has no such tool."""


@dataclass
class _McpServer:
    """A server that is running, in a task of its own, since it must be left in the task that entered it.

    Attributes:
        shown: Its name in errors, without a command's arguments, which may contain a key.
        most: Bytes that a message over HTTP, or characters that a line of its output, may have.
        headers: What is sent with every request over HTTP.
        started: The client and the tools; fails when the server does not start.
        asked: Set with every question.
        closing: Set when it is to end now.
    """

    place: Place
    shown: str
    most: int
    headers: Headers
    started: asyncio.Future[tuple[Client, Schemas]]
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    closing: bool = False
    in_flight: int = 0
    task: asyncio.Task[None] | None = None


_Key: TypeAlias = tuple[Place, tuple[tuple[str, str], ...]]
_servers: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, dict[_Key, _McpServer]]] = WeakKeyDictionary()


async def ask(place: Place, tool: str, query: str, *, shown: str, timeout_s: float, most: int) -> object:
    """Return what a server's tool finds about a query, as text or a list.

    Args:
        tool: The tool's name, or ``""`` to find it.
        query: The text to search for.
        shown: The server's name in errors.
        timeout_s: Longest time that the tool may take.
        most: Size that a message may have. A server that runs already keeps the limit that it was started with.

    Raises:
        OSError: The server or its tool failed; the next question starts afresh.
    """
    key = os.environ.get(SEARCH_KEY_VARIABLE)
    headers = {"Authorization": f"Bearer {key}"} if key else {}

    def search(tools: Schemas) -> tuple[str, Mapping[str, Any]]:
        name, schema = tool_of(tools, tool)
        return name, {query_argument(name, schema): query}

    try:
        result = await call(place, search, shown=shown, timeout_s=timeout_s, most=most, headers=headers)
    except LookupError as error:
        raise OSError(f"the MCP server {shown} cannot be asked: {error}") from None
    texts = texts_of(result)
    if result.is_error:
        raise OSError(f"the tool said: {' '.join(texts)[:200]}")
    structured = result.structured_content if isinstance(result.structured_content, Mapping) else {}
    lists = (structured.get(key) for key in ("results", "result"))
    return next((found for found in lists if isinstance(found, list)), None) or texts


def texts_of(result: CallToolResult) -> list[str]:
    """Return the texts of a result."""
    return [block.text for block in result.content if block.type == "text"]


async def call(
    place: Place, choose: Choice, *, shown: str, timeout_s: float, most: int, headers: Headers
) -> CallToolResult:
    """Call a tool, and return its result, which may be that it failed.

    Args:
        choose: Says which tool, and with what.
        shown: The server's name in errors.
        timeout_s: Longest time that the tool may take.
        most: Size that a message may have. A server that runs already keeps the limit that it was started with.
        headers: What is sent with every request over HTTP.

    Raises:
        OSError: The server failed; the next call starts it afresh.
        LookupError: It has no such tool.
    """
    loop = asyncio.get_running_loop()
    servers = _servers.setdefault(loop, {})
    server = servers.get(_key(place, headers))
    if server is None:
        server = servers[_key(place, headers)] = _McpServer(place, shown, most, headers, loop.create_future())
        server.task = loop.create_task(_keep(server))
    server.in_flight += 1
    server.asked.set()
    try:
        client, tools = await asyncio.shield(server.started)
        name, arguments = choose(tools)
        return await client.call_tool(name, dict(arguments), read_timeout_seconds=timeout_s)
    except BaseException as error:
        if not isinstance(error, LookupError):  # the server is well
            _let_go(server)
        raise
    finally:
        server.in_flight -= 1


def _key(place: Place, headers: Headers) -> _Key:
    return place, tuple(sorted(headers.items()))


def _let_go(server: _McpServer) -> None:
    """End a server once nobody waits for it; who asks from now on gets a new one."""
    servers = _servers.get(asyncio.get_running_loop(), {})
    if servers.get(_key(server.place, server.headers)) is server:
        del servers[_key(server.place, server.headers)]
    server.closing = True
    server.asked.set()


async def _keep(server: _McpServer) -> None:
    """Start a server, keep it while it is asked, and end it."""
    try:
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(START_S):
                client = await stack.enter_async_context(await _client(server, stack))
                tools = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
            server.started.set_result((client, tools))
            while server.in_flight or not server.closing:
                server.asked.clear()
                try:
                    await asyncio.wait_for(server.asked.wait(), 1.0 if server.closing else IDLE_S)
                except TimeoutError:
                    if not server.in_flight:
                        break
    except Exception as error:
        if not server.started.done():
            why = f"no answer within {START_S:g} s" if isinstance(error, TimeoutError) else _cause(error)
            server.started.set_exception(OSError(f"the MCP server {server.shown} does not start: {why}"))
            server.started.exception()  # seen, also where nobody waits any more
    finally:
        _let_go(server)


def _cause(error: BaseException) -> str:
    """Return what went wrong, also where it is wrapped in groups of errors."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {str(error)[:200]}".rstrip(": ")


async def _client(server: _McpServer, stack: AsyncExitStack) -> Client:
    if isinstance(server.place, str):
        http = await stack.enter_async_context(_bounded_http_client(server.most, server.headers))
        return Client(streamable_http_client(server.place, http_client=http))
    silent = stack.enter_context(open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 - the stack does
    program, *arguments = server.place
    _most.set(server.most)  # of this server's task alone, and of those that it starts to read
    parameters = StdioServerParameters(command=program, args=arguments, env=_environment(os.environ))
    return Client(stdio.stdio_client(parameters, errlog=silent))


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what a server that is started here sees besides what any program needs."""
    wanted = [name.strip() for name in environment.get(ENVIRONMENT_VARIABLE, "").split(",")]
    for name in wanted:
        remember_variable(name)
    return stdio.get_default_environment() | {
        name: environment[name] for name in (SEARCH_KEY_VARIABLE, *wanted) if name in environment
    }


def tool_of(tools: Schemas, name: str) -> tuple[str, Mapping[str, Any]]:
    """Return the tool to ask with its schema: the one named, else the only one, else ``search``.

    Raises:
        LookupError: There is none of the name.
    """
    name = name or (next(iter(tools)) if len(tools) == 1 else "search")
    if name not in tools:
        known = ", ".join(sorted(tools))[:300] or "none"
        raise LookupError(f"it has no tool {name!r}; its tools are {known} (name one with #TOOL at the end)")
    return name, tools[name]


def query_argument(name: str, schema: Mapping[str, Any]) -> str:
    """Return which argument of a tool takes a query.

    Raises:
        LookupError: It needs more than one.
    """
    properties, required = schema.get("properties") or {}, schema.get("required") or []
    for argument in _ARGUMENTS:
        if argument in properties and set(required) <= {argument}:
            return argument
    if len(required) == 1:
        return str(required[0])
    needed = ", ".join(map(str, required)) or "nothing"
    raise LookupError(f"its tool {name!r} does not take one query (it needs {needed})")


def _bounded_http_client(most: int, headers: Headers) -> httpx2.AsyncClient:
    """Return a client that reads no larger body, and none that is compressed, which was not asked for."""

    async def bound(response: httpx2.Response) -> None:
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("", "identity"):
            raise httpx2.DecodingError(f"the reply is compressed by {encoding[:40]}, which was not asked for")
        if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            response.stream = _BoundedBody(response.stream, most)

    client = create_mcp_http_client({**NOT_COMPRESSED, **headers})
    client.event_hooks = {"response": [bound]}
    return client


class _BoundedBody(httpx2.AsyncByteStream):
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


_most: Final[ContextVar[float]] = ContextVar("most characters of a line", default=math.inf)
"""The limit of the server that the current task reads; none in what others start with the ``mcp`` package."""


class _BoundedLines(TextReceiveStream):
    """Text in which a longer line than the current task's limit is the end of what the server says."""

    _length = 0

    async def receive(self) -> str:
        chunk = await super().receive()
        _, end, rest = chunk.rpartition("\n")
        self._length = len(rest) if end else self._length + len(rest)
        if self._length > _most.get():
            await self.aclose()  # else the package reads on, and who asked waits until the time is up
            raise anyio.EndOfStream
        return chunk


# The package takes no limit, nor a stream to read in the place of its own.
stdio.TextReceiveStream = _BoundedLines  # type: ignore[attr-defined]
