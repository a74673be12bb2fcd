"""The server itself: the tools with their replies and errors, and the application that serves them over HTTP."""

from __future__ import annotations

import functools
import inspect
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse

from leadline.evaluators.ground import ErrorCode, LeadlineError, UsageError, one_line
from leadline.plugins.http_server import same
from leadline.plugins.mcp.bounded_reply import NOTE, fenced
from leadline.plugins.mcp.store_tools import StoreTools
from leadline.tasks.store.store import Store

try:
    from mcp.server import MCPServer
    from mcp.server.mcpserver.tools import Tool
    from mcp_types import CallToolResult, TextContent, ToolAnnotations
except ImportError:  # an extra: whoever asks for the server is told how to get it
    raise UsageError(
        "The MCP server needs the package mcp.",
        hint="Install the extra: pip install -c constraints.txt -e '.[mcp]'",
        code=ErrorCode.CONFIG_PACKAGE,
    ) from None

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

PATH: Final = "/mcp"
LONGEST_ERROR: Final = 1_000

INSTRUCTIONS: Final = (
    "Results of evaluations of LLM and RAG answers, for reading only. Begin with runs or run; problems says what is "
    "wrong, cases and case show the answers behind it, compare holds two runs against each other, and sql answers "
    f"anything else. Lists come in pages: go on with next_offset. {NOTE}"
)

_ARGUMENT: Final = re.compile(r"^    (\w+): (.+)$", re.MULTILINE)

_log = logging.getLogger("leadline.mcp")


def mcp_server(store: Store) -> MCPServer[Any]:
    """Return the server over a store."""
    return MCPServer(
        "leadline",
        instructions=INSTRUCTIONS,
        version=version("leadline"),
        tools=[_described(tool) for tool in StoreTools(store).tools()],
        log_level="ERROR",
        subscriptions=False,
    )


def _described(tool: Callable[..., dict[str, Any]]) -> Tool:
    """Return a tool as clients see it; its docstring describes it and its arguments."""
    purpose, _, arguments = inspect.getdoc(tool).partition("\n\nArgs:\n")  # type: ignore[union-attr]
    reading = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
    made = Tool.from_function(_replying(tool), description=purpose, annotations=reading, structured_output=False)
    for name, text in _ARGUMENT.findall(arguments):
        made.parameters["properties"][name]["description"] = text
    return made


def _replying(tool: Callable[..., dict[str, Any]]) -> Callable[..., CallToolResult]:
    """Return a tool whose result is marked as data, and whose errors are one line with a code."""

    @functools.wraps(tool)
    def replying(*args: Any, **kwargs: Any) -> CallToolResult:
        try:
            found = tool(*args, **kwargs)
        except LeadlineError as error:
            return _refusal(error.code, str(error))
        except Exception as error:
            _log.warning("The tool %s failed: %s", tool.__name__, type(error).__name__)
            return _refusal(ErrorCode.RUN_UNEXPECTED, f"Leadline hit an error of its own: {type(error).__name__}.")
        return CallToolResult(
            content=[TextContent(type="text", text=fenced(found))], structured_content={"note": NOTE, **found}
        )

    def _refusal(code: ErrorCode, text: str) -> CallToolResult:
        said = {"error": str(code), "message": one_line(text)[:LONGEST_ERROR]}
        return CallToolResult(content=[TextContent(type="text", text=fenced(said))], is_error=True)

    return replying


@dataclass(frozen=True)
class BearerAccess:
    """An application behind a token, which each request names as ``Authorization: Bearer TOKEN``.

    Attributes:
        app: The application.
    """

    app: ASGIApp
    token: str = field(repr=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through that has the token; refuse others with 401."""
        if scope["type"] == "http":
            scheme, _, given = Request(scope).headers.get("Authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not same(given.strip(), self.token):
                refusal = JSONResponse(
                    {"error": "The token is missing or wrong."}, 401, headers={"WWW-Authenticate": "Bearer"}
                )
                await refusal(scope, receive, send)
                return
        await self.app(scope, receive, send)


def http_app(store: Store, token: str, host: str) -> ASGIApp:
    """Return the application that serves the tools by streamable HTTP at :data:`PATH`.

    Requests that a page in a browser makes for another host are refused by their headers Host and Origin.

    Args:
        token: The token that each request must have.
        host: The loopback address that it listens on.
    """
    app = mcp_server(store).streamable_http_app(streamable_http_path=PATH, json_response=True, host=host)
    return BearerAccess(app, token)
