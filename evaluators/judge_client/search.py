"""Search tools for judges that may look things up: any Python function, any HTTP endpoint, or any MCP server.

``package.module:function`` is called with the query and returns text, or a list of texts or objects (an awaitable of
them will do). ``https://host/search?format=json`` gets the query as the parameter ``q``, as SearXNG does, and replies
with text or JSON: a list, or an object with ``results``. ``mcp+https://host/mcp`` is a server that speaks MCP over
streamable HTTP. A key for either is taken from ``LEADLINE_SEARCH_API_KEY`` and sent as a bearer token.

``mcp+stdio:COMMAND ARGUMENTS`` starts a server that speaks MCP over its standard input and output; of the environment
it sees what any program needs (PATH, HOME …), that key, and the variables that ``LEADLINE_SEARCH_ENV`` names, so not
the keys of judges. ``#TOOL`` at the end names the tool, where the server has several and none is called ``search``.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit
from weakref import WeakKeyDictionary

from leadline.evaluators.ground import LONG, ErrorCode, UsageError, looks_secret, masked, without_secrets
from leadline.evaluators.judge_client.calls import Call, JudgeUnavailable, Ledger, Reply
from leadline.evaluators.judge_client.http_client import exchange
from leadline.evaluators.settings import MEBIBYTE, SEARCH_KEY_VARIABLE, address_without_secrets
from leadline.evaluators.text.sentences import without_surrogates

TIMEOUT_VARIABLE: Final = "LEADLINE_SEARCH_TIMEOUT_S"
SIZE_VARIABLE: Final = "LEADLINE_SEARCH_MAX_REPLY_MIB"
_MOST: Final = {TIMEOUT_VARIABLE: 3600.0, SIZE_VARIABLE: 1024.0}
ATTEMPTS: Final = 3
AT_ONCE: Final = 8
"""Searches in flight with one tool."""

RESULTS: Final = 5
CHARACTERS: Final = 6_000
"""Results of one query, and characters of them all, that a judge is shown at most."""

_KEY_NAME: Final = re.compile(
    r"(?:key|token|secret|passw(?:or)?d|pwd|auth(?:orization)?|sig(?:nature)?|credentials?)(?==|$)", re.IGNORECASE
)
"""How the name of a parameter or an option ends that takes a key."""

_STDIO: Final = "mcp+stdio:"
MCP: Final = "mcp+"
"""Begins the name of a server that speaks MCP."""

_TOOL: Final = re.compile(r"#([\w./-]{1,128})$")

_places: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, asyncio.Semaphore]]] = WeakKeyDictionary()


Search: TypeAlias = Callable[[str], Awaitable[str]]
"""Returns what was found about a query, ``""`` for nothing; raises :class:`JudgeUnavailable` when it does not work."""


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """The limits of one search.

    Attributes:
        timeout_s: Longest time for one attempt.
        max_reply: Bytes that a tool may send, when they are decompressed.
    """

    timeout_s: float
    max_reply: int

    @classmethod
    def of_environment(cls) -> SearchLimits:
        """Return the limits that the environment sets, or the usual ones.

        Raises:
            UsageError: A variable holds no number above 0 that makes sense.
        """
        return cls(_number(TIMEOUT_VARIABLE, 30.0), int(_number(SIZE_VARIABLE, 4.0) * MEBIBYTE))


def _number(variable: str, usual: float) -> float:
    text = os.environ.get(variable, "").strip()
    try:
        value = float(text) if text else usual
    except ValueError:
        value = 0.0
    if not 0 < value <= _MOST[variable]:
        raise UsageError(
            f"{variable} is {text[:40]!r}, and must be a number above 0, at most {_MOST[variable]:g}.",
            code=ErrorCode.CONFIG_VARIABLE,
        )
    return value


def search_tool(name: str) -> Search:
    """Return the tool of a name.

    Raises:
        UsageError: There is none, or a password or key stands in its name, which reports show.
    """
    if holds_key(name):
        raise UsageError(
            "The search tool's name holds a password or a key, and would stand in reports.",
            hint=f"Leave it out, and set {SEARCH_KEY_VARIABLE}, which an endpoint gets as bearer token.",
            code=ErrorCode.JUDGE_SEARCH_TOOL,
        )
    limits = SearchLimits.of_environment()
    if name.startswith(MCP):
        return _mcp_tool(name, limits)
    if urlsplit(name).scheme in ("http", "https"):
        return _guarded(name, limits, lambda query: _fetched(name, query, limits))
    function = _function(name)

    async def call(query: str) -> object:
        if inspect.iscoroutinefunction(function):
            return await function(query)
        found = await asyncio.to_thread(function, query)
        return await found if inspect.isawaitable(found) else found

    return _guarded(name, limits, call)


def _mcp_tool(name: str, limits: SearchLimits) -> Search:
    server = mcp_server(name)

    async def call(query: str) -> object:
        from leadline.evaluators.judge_client import mcp_search  # seconds, which a plan should not take

        return await mcp_search.ask(
            server.place,
            server.tool,
            without_surrogates(query),
            shown=server.shown,
            timeout_s=limits.timeout_s,
            most=limits.max_reply,
        )

    return _guarded(name, limits, call, server.shown)


class McpServer(NamedTuple):
    """A server that speaks MCP, as a name such as ``mcp+https://HOST/mcp#TOOL`` gives it.

    Attributes:
        place: Its address, or the command that starts it.
        tool: The tool that is meant; ``""`` where none is named.
        shown: What it is called in errors, without a command's arguments, which may hold a key.
    """

    place: str | tuple[str, ...]
    tool: str
    shown: str


def mcp_server(name: str) -> McpServer:
    """Return the server of a name.

    Raises:
        UsageError: The name cannot be read, or the server's program or the package for it is not on this machine.
    """
    named = _TOOL.search(name)
    tool, rest = (named[1], name[: named.start()]) if named else ("", name)
    if rest.startswith(_STDIO):
        command = _command(rest.removeprefix(_STDIO))
        server = McpServer(command, tool, Path(command[0]).name)
    else:
        address = _address(rest.removeprefix(MCP))
        server = McpServer(address, tool, urlsplit(address).hostname or "")
    if find_spec("mcp") is None:
        raise UsageError(
            "A server that speaks MCP needs the package mcp.",
            hint="Install it: pip install -c constraints.txt -e '.[mcp]'",
            code=ErrorCode.CONFIG_PACKAGE,
        )
    return server


def _command(text: str) -> tuple[str, ...]:
    try:
        command = tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(
            f"The command of the MCP server cannot be read: {error}.", code=ErrorCode.JUDGE_SEARCH_TOOL
        ) from None
    if not command:
        raise UsageError(
            "The MCP server's name names no command.",
            hint="Write: mcp+stdio:COMMAND ARGUMENTS",
            code=ErrorCode.JUDGE_SEARCH_TOOL,
        )
    if shutil.which(command[0]) is None:
        raise UsageError(
            f"The MCP server's program {command[0][:200]!r} is not on this machine.", code=ErrorCode.JUDGE_SEARCH_TOOL
        )
    return command


def _address(text: str) -> str:
    try:
        return address_without_secrets(text)
    except ValueError as error:
        raise UsageError(
            f"The MCP server's address {error}.",
            hint="Write mcp+https://HOST/mcp or mcp+stdio:COMMAND ARGUMENTS",
            code=ErrorCode.JUDGE_SEARCH_TOOL,
        ) from None


def holds_key(name: str) -> bool:
    """Return whether user info, a query's parameter or a command's option in a tool's name looks like a key.

    Raises:
        UsageError: It is an address that cannot be read.
    """
    if looks_secret(name):
        return True
    if name.startswith(_STDIO):
        return any(word.startswith("-") and _KEY_NAME.search(word) for word in name.split())
    try:
        parts = urlsplit(name)
    except ValueError as error:  # a bracket that is not closed
        raise UsageError(
            f"The search tool's address cannot be read: {error}.", code=ErrorCode.JUDGE_SEARCH_TOOL
        ) from None
    pairs = parse_qsl(parts.query, keep_blank_values=True) + parse_qsl(parts.fragment, keep_blank_values=True)
    return "@" in parts.netloc or any(_KEY_NAME.search(key) or looks_secret(value) for key, value in pairs)


async def recorded(search: Search, name: str, query: str, ledger: Ledger, trial: int) -> tuple[str, str]:
    """Return what a search found, from the ledger if it was ever made, and its digest there.

    What the judge says next depends on it: only what is on record lets a run that was killed go on as it was.

    Args:
        search: The tool.
        name: Its name, as configured.
        query: The text to search for.
        ledger: Where searches are recorded.
        trial: Number of the repetition; each searches for itself.
    """
    call = Call(
        judge={"kind": "search", "model": name},
        purpose="fact_check:search",
        messages=({"role": "user", "content": query},),
        canonical=query,
        trial=trial,
    )
    known = await ledger.find(call.digest)
    if known is not None:
        return known.text, call.digest
    await ledger.intend(call)
    try:
        found = masked(await search(query), shortest=LONG)
    except BaseException as error:
        if isinstance(error, Exception):
            await ledger.failed(call, str(error))
        raise
    await ledger.answered(call, Reply(found))
    return found, call.digest


def _function(name: str) -> Callable[[str], Any]:
    module_name, colon, attribute = name.partition(":")
    if not colon or not all(part.isidentifier() for part in (*module_name.split("."), attribute)):
        raise UsageError(
            f"{name[:200]!r} names no search tool.",
            hint="Give package.module:function, an http(s) address, or a server that speaks MCP: mcp+https://HOST/mcp.",
            code=ErrorCode.JUDGE_SEARCH_TOOL,
        )
    if module_name.partition(".")[0] in sys.stdlib_module_names:  # a judge writes the query: os:system must not be
        raise UsageError(
            f"{name[:200]!r} is part of Python itself and no search tool.",
            hint="Wrap it in your own.",
            code=ErrorCode.JUDGE_SEARCH_TOOL,
        )
    try:
        function = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"The search tool {name[:200]!r} cannot be imported: {error}.", code=ErrorCode.JUDGE_SEARCH_TOOL
        ) from None
    if not callable(function):
        raise UsageError(f"The search tool {name[:200]!r} is no function.", code=ErrorCode.JUDGE_SEARCH_TOOL)
    return function  # type: ignore[no-any-return]


def _guarded(name: str, limits: SearchLimits, call: Callable[[str], Any], shown: str = "") -> Search:
    """Return a search with a deadline and a few attempts, whose only failure is an unavailable judge.

    Args:
        name: The tool's name, which the number of its searches in flight goes by.
        limits: What an attempt may take.
        call: Makes one attempt.
        shown: The tool in error texts, where its name may hold a key; ``""`` for its host.
    """

    async def search(query: str) -> str:
        problem = ""
        for attempt in range(ATTEMPTS):
            if attempt:
                await _pause(2.0**attempt / 2)
            try:
                async with _place(name), asyncio.timeout(limits.timeout_s):
                    return _readable(await call(query))
            except TimeoutError:
                problem = f"no reply within {limits.timeout_s:g} s"
            except Exception as error:
                problem = without_secrets(f"{type(error).__name__}: {error}").rstrip(": ")
        where = shown or urlsplit(name).hostname or name
        raise JudgeUnavailable(f"The search tool {where} failed {ATTEMPTS} times: {problem}.", hint="Is it up?")

    return search


def _place(name: str) -> asyncio.Semaphore:
    places = _places.setdefault(asyncio.get_running_loop(), {})
    return places.setdefault(name, asyncio.Semaphore(AT_ONCE))


async def _pause(seconds: float) -> None:
    await asyncio.sleep(seconds)


async def _fetched(url: str, query: str, limits: SearchLimits) -> object:
    key = os.environ.get(SEARCH_KEY_VARIABLE)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    response = await exchange(
        "GET",
        _with_query(url, without_surrogates(query)),
        headers=headers,
        body=None,
        timeout_s=limits.timeout_s,
        most=limits.max_reply,
    )
    if response.status != 200:
        raise OSError(f"it replied with status {response.status}")
    text = response.body.decode("utf-8", "replace")
    return json.loads(text) if "json" in response.headers.get("content-type", "").lower() else text


def _with_query(url: str, query: str) -> str:
    """Return an endpoint's address with the query as its parameter ``q``."""
    parts = urlsplit(url)
    pairs = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name != "q"]
    return urlunsplit(parts._replace(query=urlencode([*pairs, ("q", query)]), fragment=""))


def _readable(found: object) -> str:
    """Return results as text: a paragraph each, shortened to what a judge should have to read."""
    if isinstance(found, Mapping):
        found = found.get("results", [found])
    if found is None:
        return ""
    results = [found] if isinstance(found, str) else list(found)[:RESULTS] if isinstance(found, list | tuple) else None
    if results is None:
        raise TypeError(f"it returned {type(found).__name__}, neither text nor a list")
    return "\n\n".join(map(_paragraph, results))[:CHARACTERS]


def _paragraph(result: object) -> str:
    if not isinstance(result, Mapping):
        return str(result)
    parts = [str(result[key]) for key in ("title", "url", "content", "snippet", "text") if result.get(key)]
    return "\n".join(parts) or json.dumps(dict(result), ensure_ascii=False, default=str)
