"""Targets that are tools of an MCP server."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from leadline.evaluators.ground import UsageError, without_secrets
from leadline.evaluators.judge_client.calls import Reply
from leadline.evaluators.judge_client.search import mcp_server
from leadline.evaluators.judge_client.transport import Refused, Transient
from leadline.evaluators.settings import JudgeConfig
from leadline.evaluators.text.sentences import without_surrogates
from leadline.tasks.collect.targets import Target


class McpTransport:
    """Calls a tool: the one that the target names, or any where tools are called for a conversation.

    Raises:
        UsageError: The server's program is not on this machine.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._server = mcp_server(str(target.mcp))

    async def send(
        self, config: JudgeConfig, messages: list[dict[str, str]], schema: Mapping[str, Any] | None, max_tokens: int
    ) -> Reply:
        """See :class:`leadline.evaluators.judge_client.transport.Transport`; the one message is the request as JSON."""
        from leadline.evaluators.judge_client import mcp_search  # seconds, which other targets should not take

        request = json.loads(messages[0]["content"])
        body = request["body"]
        if not isinstance(body, Mapping):
            raise Refused("the template of its arguments gives no object")

        def choose(tools: mcp_search.Schemas) -> tuple[str, Mapping[str, Any]]:
            name, arguments = mcp_search.tool_of(tools, request.get("tool") or self._server.tool)
            if "tool" in request or self._target.body is not None:
                return name, body
            known = arguments.get("properties") or {}
            taken = {each: value for each, value in body.items() if each in known}
            if set(arguments.get("required") or ()) <= taken.keys() and taken:
                return name, taken
            return name, {mcp_search.query_argument(name, arguments): body["question"]}

        started = time.perf_counter()
        try:
            result = await mcp_search.call(
                self._server.place,
                choose,
                shown=self._server.shown,
                timeout_s=config.timeout_s,
                most=config.max_reply,
                headers=self._target.request_headers(),
            )
        except UsageError as error:
            raise Refused(str(error), every=True) from None
        except LookupError as error:
            if "tool" not in request:
                raise Refused(f"the MCP server {self._server.shown} cannot be asked: {error}", every=True) from None
            return Reply(text=json.dumps({"error": str(error)}), seconds=time.perf_counter() - started)
        except Exception as error:  # whatever the package and the server's process raise
            raise Transient(without_secrets(f"{type(error).__name__}: {error}").rstrip(": ")) from None
        text = "\n".join(mcp_search.texts_of(result))
        structured = result.structured_content
        found: dict[str, Any] = {"error": text} if result.is_error else {"answer": text}
        if "tool" not in request and not result.is_error and isinstance(structured, Mapping):
            found |= structured
        raw = without_surrogates(json.dumps(found, ensure_ascii=False))
        return Reply(text=raw, seconds=time.perf_counter() - started, **self._target.reply.numbers(raw))
