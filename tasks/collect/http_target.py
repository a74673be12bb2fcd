"""The wire to an application under test that speaks HTTP and JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from leadline.evaluators.ground.errors import UsageError
from leadline.evaluators.ground.redaction import without_secrets
from leadline.evaluators.judge_client.calls import Reply
from leadline.evaluators.judge_client.http_client import exchange
from leadline.evaluators.judge_client.transport import AttemptError, Refused, failure_of, seconds_of
from leadline.evaluators.settings.judge_config import JudgeConfig
from leadline.evaluators.text.sentences import without_surrogates
from leadline.tasks.collect.cases import Case
from leadline.tasks.collect.targets import Target
from leadline.tasks.collect.templates import render_json, render_text

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

    async def send(
        self,
        config: JudgeConfig,
        messages: list[dict[str, str]],
        schema: Mapping[str, Any] | None,
        max_tokens: int,
    ) -> Reply:
        """See :class:`leadline.evaluators.judge_client.transport.Transport`; the one message is the request as JSON."""
        request = json.loads(messages[0]["content"])
        started = time.perf_counter()
        try:
            headers = self._target.request_headers()
        except UsageError as error:
            raise Refused(str(error), every=True) from None
        body = json.dumps(request["body"]).encode() if "body" in request else None
        if body is not None and "content-type" not in map(str.lower, headers):
            headers = {"Content-Type": "application/json", **headers}
        try:
            response = await exchange(
                self._target.method,
                f"{self._target.url}?{urlencode(request['query'])}" if "query" in request else str(self._target.url),
                headers=headers,
                body=body,
                timeout_s=config.timeout_s,
                most=config.max_reply,
            )
        except AttemptError as error:
            error.message = without_secrets(error.message)
            raise
        raw = without_surrogates(response.body.decode("utf-8", "replace"))
        if response.status != 200:
            retry_after = response.headers.get("retry-after")
            message = f"HTTP {response.status}: {without_secrets(raw[: 10 * _SHOWN])[:_SHOWN]}"
            raise failure_of(response.status, message, seconds_of(retry_after) if retry_after else None)
        seconds = time.perf_counter() - started
        return Reply(text=raw, seconds=seconds, **self._target.reply.numbers(raw))
