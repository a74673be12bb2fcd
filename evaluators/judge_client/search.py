"""Search tools for judges that may look things up: any Python function, any HTTP endpoint, or any MCP server.

``package.module:function`` is called with the query and returns text, or a list of texts or objects (an awaitable of
them will do). ``https://host/search?format=json`` gets the query as the parameter ``q``, as SearXNG does, and replies
with text or JSON: a list, or an object with ``results``. A key for it is taken from ``LEADLINE_SEARCH_API_KEY`` and
sent as a bearer token. ``mcp+https://host/mcp`` and ``mcp+stdio:COMMAND`` are servers that speak MCP, see
:mod:`leadline.evaluators.judge_client.mcp_search`.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit
from weakref import WeakKeyDictionary

from leadline.evaluators.ground import LONG, ErrorCode, UsageError, looks_secret, masked, without_secrets
from leadline.evaluators.judge_client import mcp_search
from leadline.evaluators.judge_client.calls import Call, Ledger, Reply
from leadline.evaluators.judge_client.failures import JudgeUnavailable
from leadline.evaluators.judge_client.search_limits import SearchLimits, search_limits
from leadline.evaluators.text.sentences import without_surrogates

KEY_VARIABLE: Final = mcp_search.KEY_VARIABLE
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

_places: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, asyncio.Semaphore]]] = WeakKeyDictionary()


class Search(Protocol):
    """Finds something about a query."""

    async def __call__(self, query: str) -> str:
        """Return what was found, ``""`` for nothing.

        Raises:
            JudgeUnavailable: The tool does not work now.
        """


def search_tool(name: str) -> Search:
    """Return the tool of a name.

    Raises:
        UsageError: There is none, or a password or key stands in its name, which reports show.
    """
    if _holds_key(name):
        raise UsageError(
            "The search tool's name holds a password or a key, and would stand in reports.",
            hint=f"Leave it out, and set {KEY_VARIABLE}, which an endpoint gets as bearer token.",
            code=ErrorCode.JUDGE_SEARCH_TOOL,
        )
    limits = search_limits()
    if name.startswith(mcp_search.PREFIX):
        place = mcp_search.place_of(name)
        return _guarded(
            name, limits, lambda query: mcp_search.ask(place, without_surrogates(query), limits), shown=place.shown
        )
    if urlsplit(name).scheme in ("http", "https"):
        return _guarded(name, limits, lambda query: _fetched(name, query, limits))
    function = _function(name)

    async def call(query: str) -> object:
        if inspect.iscoroutinefunction(function):
            return await function(query)
        found = await asyncio.to_thread(function, query)
        return await found if inspect.isawaitable(found) else found

    return _guarded(name, limits, call)


def _holds_key(name: str) -> bool:
    """Return whether user info, a query's parameter or a command's option in a tool's name looks like a key.

    Raises:
        UsageError: It is an address that cannot be read.
    """
    if looks_secret(name):
        return True
    if name.startswith("mcp+stdio:"):
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
    from leadline.evaluators.judge_client.http_client import exchange

    key = os.environ.get(KEY_VARIABLE)
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
