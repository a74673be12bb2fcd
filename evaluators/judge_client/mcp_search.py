"""Search by a tool of an MCP server (Model Context Protocol), started here as a process or reached over HTTP.

``mcp+https://host/mcp`` is a server that speaks streamable HTTP; a key for it is taken from
``LEADLINE_SEARCH_API_KEY`` and sent as a bearer token. ``mcp+stdio:COMMAND ARGUMENTS`` starts a server and speaks with
it over its standard input and output; of the environment it sees what any program needs (PATH, HOME …), that key, and
the variables that ``LEADLINE_SEARCH_ENV`` names, so not the keys of judges. ``#TOOL`` at the end names the tool, where
the server has several and none of them is called ``search``.

A server is kept for as long as it is asked; an idle one is let go.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from leadline.evaluators.ground import ErrorCode, UsageError, remember_variable
from leadline.evaluators.judge_client.search_limits import SearchLimits
from leadline.evaluators.settings import address_without_secrets

if TYPE_CHECKING:
    from mcp import Client

PREFIX: Final = "mcp+"
KEY_VARIABLE: Final = "LEADLINE_SEARCH_API_KEY"
ENVIRONMENT_VARIABLE: Final = "LEADLINE_SEARCH_ENV"
START_S: Final = 60.0
"""Longest wait for a server to start and to say what tools it has."""

IDLE_S: Final = 30.0
"""Time without a question after which a server is let go."""

_STDIO: Final = "mcp+stdio:"
_ARGUMENTS: Final = ("query", "q", "search", "search_query", "text", "input", "question")
_TOOL: Final = re.compile(r"#([\w./-]{1,128})$")


@dataclass(frozen=True, slots=True)
class McpServer:
    """The place of a server, and the one of its tools that is asked.

    Attributes:
        url: Its address, or ``""`` for one that is started here.
        command: The command that starts it, with its arguments.
        tool: The tool's name, or ``""`` to find it.
    """

    url: str = ""
    command: tuple[str, ...] = ()
    tool: str = ""

    @property
    def shown(self) -> str:
        """The name to show in errors: a host or a program, without arguments, which may contain a key."""
        return (urlsplit(self.url).hostname or "") if self.url else Path(self.command[0]).name


def place_of(name: str) -> McpServer:
    """Read the name of an MCP search tool.

    Raises:
        UsageError: It names no server, its program is not here, or the ``mcp`` package is not installed.
    """
    named = _TOOL.search(name)
    tool, rest = (named[1], name[: named.start()]) if named else ("", name)
    place = _stdio(rest.removeprefix(_STDIO), tool) if rest.startswith(_STDIO) else _http(rest, tool)
    if find_spec("mcp") is None:
        raise UsageError(
            "The search tool needs the package mcp.",
            hint="Install it: pip install -c constraints.txt -e '.[mcp]'",
            code=ErrorCode.CONFIG_PACKAGE,
        )
    return place


def _stdio(text: str, tool: str) -> McpServer:
    try:
        command = tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(
            f"The command of the search tool cannot be read: {error}.", code=ErrorCode.JUDGE_SEARCH_TOOL
        ) from None
    if not command:
        raise UsageError(
            "The search tool names no command.",
            hint="Write: mcp+stdio:COMMAND ARGUMENTS",
            code=ErrorCode.JUDGE_SEARCH_TOOL,
        )
    if shutil.which(command[0]) is None:
        raise UsageError(
            f"The search tool's program {command[0][:200]!r} is not on this machine.", code=ErrorCode.JUDGE_SEARCH_TOOL
        )
    return McpServer(command=command, tool=tool)


def _http(text: str, tool: str) -> McpServer:
    try:
        return McpServer(url=address_without_secrets(text.removeprefix(PREFIX)), tool=tool)
    except ValueError as error:
        raise UsageError(
            f"The search tool's address {error}.",
            hint="Write mcp+https://HOST/mcp or mcp+stdio:COMMAND ARGUMENTS",
            code=ErrorCode.JUDGE_SEARCH_TOOL,
        ) from None


@dataclass
class _McpServer:
    """A server that is running, in a task of its own, since it must be left in the task that entered it.

    Attributes:
        place: Where it is.
        limits: How much it may send.
        started: The client, the tool's name and the name of its argument; fails when the server does not start.
        asked: Set with every question.
        closing: Set when it is to end now.
    """

    place: McpServer
    limits: SearchLimits
    started: asyncio.Future[tuple[Client, str, str]]
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    closing: bool = False
    in_flight: int = 0
    task: asyncio.Task[None] | None = None


_servers: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, dict[McpServer, _McpServer]]] = WeakKeyDictionary()


async def ask(place: McpServer, query: str, limits: SearchLimits) -> object:
    """Return what a server's tool finds about a query, as text or a list.

    Args:
        place: The server and its tool.
        query: The text to search for.
        limits: What it may take. A server that runs already keeps the limit of size that it was started with.

    Raises:
        OSError: The server or its tool failed; the next question starts afresh.
    """
    server = _server(place, limits)
    server.in_flight += 1
    server.asked.set()
    try:
        client, tool, argument = await asyncio.shield(server.started)
        result = await client.call_tool(tool, {argument: query}, read_timeout_seconds=limits.timeout_s)
    except BaseException:
        _let_go(server)
        raise
    finally:
        server.in_flight -= 1
    texts = [block.text for block in result.content if block.type == "text"]
    if result.is_error:
        raise OSError(f"the tool said: {' '.join(texts)[:200]}")
    return _structured(result.structured_content) or texts


def _structured(content: object) -> object:
    """Return the list in a tool's structured reply, if there is one."""
    if isinstance(content, Mapping):
        for key in ("results", "result"):
            if isinstance(content.get(key), list):
                return content[key]
    return None


def _server(place: McpServer, limits: SearchLimits) -> _McpServer:
    loop = asyncio.get_running_loop()
    servers = _servers.setdefault(loop, {})
    server = servers.get(place)
    if server is None:
        server = servers[place] = _McpServer(place, limits, loop.create_future())
        server.task = loop.create_task(_keep(server))
    return server


def _let_go(server: _McpServer) -> None:
    """End a server once nobody waits for it; who asks from now on gets a new one."""
    servers = _servers.get(asyncio.get_running_loop(), {})
    if servers.get(server.place) is server:
        del servers[server.place]
    server.closing = True
    server.asked.set()


async def _keep(server: _McpServer) -> None:
    """Start a server, keep it while it is asked, and end it."""
    try:
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(START_S):
                client = await stack.enter_async_context(await _client(server, stack))
                found = await _tool(client, server.place)
            server.started.set_result((client, *found))
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
            server.started.set_exception(OSError(f"the MCP server {server.place.shown} does not start: {why}"))
            server.started.exception()  # seen, also where nobody waits any more
    finally:
        _let_go(server)


def _cause(error: BaseException) -> str:
    """Return what went wrong, also where it is wrapped in groups of errors."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {str(error)[:200]}".rstrip(": ")


async def _client(server: _McpServer, stack: AsyncExitStack) -> Client:
    from mcp import Client, StdioServerParameters

    place, most = server.place, server.limits.max_reply
    if place.command:
        from leadline.evaluators.judge_client.mcp_limits import bounded_stdio

        silent = stack.enter_context(open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 - the stack does
        program = StdioServerParameters(
            command=place.command[0], args=list(place.command[1:]), env=_environment(os.environ)
        )
        return Client(bounded_stdio(program, silent, most))

    from mcp.client.streamable_http import streamable_http_client

    from leadline.evaluators.judge_client.mcp_limits import bounded_http_client

    key = os.environ.get(KEY_VARIABLE)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    http = await stack.enter_async_context(bounded_http_client(headers, most))
    return Client(streamable_http_client(place.url, http_client=http))


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what a server that is started here sees besides what any program needs."""
    from mcp.client.stdio import get_default_environment

    wanted = [name.strip() for name in environment.get(ENVIRONMENT_VARIABLE, "").split(",")]
    for name in wanted:
        remember_variable(name)
    return get_default_environment() | {
        name: environment[name] for name in (KEY_VARIABLE, *wanted) if name in environment
    }


async def _tool(client: Client, place: McpServer) -> tuple[str, str]:
    """Return the tool to ask, and which of its arguments takes the query."""
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    name = place.tool or (next(iter(tools)) if len(tools) == 1 else "search")
    if name not in tools:
        known = ", ".join(sorted(tools))[:300] or "none"
        raise LookupError(f"it has no tool {name!r}; its tools are {known} (name one with #TOOL at the end)")
    return name, _argument(name, tools[name].input_schema)


def _argument(tool: str, schema: Mapping[str, Any]) -> str:
    properties = schema.get("properties") or {}
    required = schema.get("required") or []
    for name in _ARGUMENTS:
        if name in properties and set(required) <= {name}:
            return name
    if len(required) == 1:
        return str(required[0])
    raise LookupError(
        f"its tool {tool!r} does not take one query (it needs {', '.join(map(str, required)) or 'nothing'})"
    )
