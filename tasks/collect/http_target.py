"""The wire to an application under test that speaks HTTP and JSON."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from leadline.evaluators.core.errors import UsageError
from leadline.evaluators.core.redaction import without_secrets
from leadline.evaluators.judge.engine.calls import Reply
from leadline.evaluators.judge.engine.judge_config import JudgeConfig
from leadline.evaluators.judge.engine.transport import Refused, Transient, failure_of, seconds_of
from leadline.evaluators.text.sentences import without_surrogates
from leadline.tasks.collect.cases import Case
from leadline.tasks.collect.targets import Target
from leadline.tasks.collect.templates import render_json, render_text

if TYPE_CHECKING:
    import httpx

MAX_REPLY: Final = 16 * 1024 * 1024
"""Bytes of a reply that are read."""

_SHOWN: Final = 200


def request_of(target: Target, case: Case) -> dict[str, Any]:
    """Return what is sent for a case: ``query`` and ``body``; headers are added on the wire.

    Args:
        target: The model, whose templates are filled in.
        case: The case to answer.

    Raises:
        ValueFault: A template cannot be filled in.
    """
    values = case.values() | {"case": case.values(), "model": target.key, "version": target.version}
    request: dict[str, Any] = {}
    if target.query:
        request["query"] = {name: render_text(template, values) for name, template in target.query.items()}
    if target.body is not None:
        request["body"] = render_json(target.body, values)
    elif target.method != "GET":
        request["body"] = {"question": case.question}
    return request


class HttpTransport:
    """Sends requests to one application; redirects are not followed, since headers may contain keys.

    Args:
        target: The application.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._client: httpx.AsyncClient | None = None

    async def send(
        self,
        config: JudgeConfig,
        messages: list[dict[str, str]],
        schema: Mapping[str, Any] | None,
        max_tokens: int,
    ) -> Reply:
        """See :class:`leadline.evaluators.judge.engine.transport.Transport`; the one message is the request as JSON."""
        request = json.loads(messages[0]["content"])
        started = time.perf_counter()
        try:
            headers = self._target.request_headers()
        except UsageError as error:
            raise Refused(str(error), every=True) from None
        try:
            async with asyncio.timeout(config.timeout_s):
                status, answered, raw = await self._exchange(request, headers, config.timeout_s)
        except TimeoutError:
            raise Transient(f"no reply within {config.timeout_s:g} s", overloaded=True) from None
        except _http_errors() as error:
            raise Transient(self._clean(f"{type(error).__name__}: {error}", headers)) from None
        if status != 200:
            retry_after = answered.get("retry-after")
            message = self._clean(f"HTTP {status}: {raw[:_SHOWN]}", headers)
            raise failure_of(status, message, seconds_of(retry_after) if retry_after else None)
        seconds = time.perf_counter() - started
        return Reply(text=raw, seconds=seconds, **self._target.reply.numbers(raw))

    async def aclose(self) -> None:
        """Close its connections."""
        if self._client is not None:
            await self._client.aclose()

    async def _exchange(
        self, request: Mapping[str, Any], headers: Mapping[str, str], timeout_s: float
    ) -> tuple[int, Mapping[str, str], str]:
        """Return status, headers and body of a reply, of which no more is read than is kept."""
        import httpx

        if self._client is None:
            limits = httpx.Limits(max_connections=self._target.max_in_flight, max_keepalive_connections=None)
            self._client = httpx.AsyncClient(limits=limits, follow_redirects=False)
        received = bytearray()
        async with self._client.stream(
            self._target.method,
            str(self._target.url),
            params=request.get("query"),
            json=request.get("body"),
            headers=dict(headers),
            timeout=timeout_s,
        ) as response:
            async for part in response.aiter_bytes():
                received += part
                if len(received) > MAX_REPLY:
                    raise Refused(f"the reply has more than {MAX_REPLY // 1024 // 1024} MiB")
            return response.status_code, response.headers, _text(bytes(received))

    def _clean(self, text: str, headers: Mapping[str, str]) -> str:
        """Return an error text without what the headers contain."""
        for name, written in self._target.headers.items():
            if written != headers[name]:
                for part in headers[name].split():
                    text = text.replace(part, "[key]") if len(part) > 3 else text
        return without_secrets(text)


def _text(data: bytes) -> str:
    return without_surrogates(data.decode("utf-8", "replace"))


def _http_errors() -> tuple[type[Exception], ...]:
    import httpx

    return (httpx.HTTPError, httpx.InvalidURL, OSError)
