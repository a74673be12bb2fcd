"""The wire to every provider that LiteLLM knows; its retries and those of the provider's SDK are off.

LiteLLM is imported as late as possible, since that takes seconds. It and the SDKs that it uses read a body whole,
however large it is when it is decompressed, and follow redirects with all headers, of which some providers' hold the
key. Here each attempt's reply is read by :func:`.http_client.read_body` before they see it, and kept, since LiteLLM
does not say what it could not read.
"""

from __future__ import annotations

import logging
import os
import re
import time
import warnings
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, Final

from leadline.evaluators.ground import UsageError, without_secrets
from leadline.evaluators.judge_client.budget import cost
from leadline.evaluators.judge_client.calls import JudgeRefused, Reply
from leadline.evaluators.judge_client.event_loop import Deadline
from leadline.evaluators.judge_client.http_client import NOT_COMPRESSED, SAID, Response, read_body
from leadline.evaluators.judge_client.openai_protocol import document_of, reply_of, shown
from leadline.evaluators.judge_client.reply_parsing import response_format
from leadline.evaluators.judge_client.transport import (
    AttemptError,
    Refused,
    Throttled,
    Transient,
    Unusable,
    end_of,
    failure_of,
    name_of,
    request_of,
    seconds_of,
    text_of,
    tokens_of,
    with_calls,
)
from leadline.evaluators.settings import JudgeConfig

_PREFIXES: Final = re.compile(r"^(?:(?:litellm\.)?\w+(?:Error|Exception)(?:: | - ))+")
"""What LiteLLM puts before a provider's own words."""

_TRACEBACK: Final = "Traceback (most recent call last)"
"""Begins what LiteLLM appends to the messages of some of its errors."""

READY_S: Final = 60.0
"""Seconds that LiteLLM may take, on top of the judge's, until its first call is back: it imports and builds clients in
threads, and on a busy machine that takes longer than many a judge."""


class LiteLLMTransport:
    """Any provider by LiteLLM's model name.

    LiteLLM gives up a silent connection after the judge's ``timeout_s``. The deadline around that, for what trickles,
    counts LiteLLM's own work, too, so it is longer until a first call is back.

    Raises:
        JudgeRefused: LiteLLM is not installed.
    """

    def __init__(self) -> None:
        self._api = litellm()
        self._ready = False

    async def send(
        self, config: JudgeConfig, messages: list[dict[str, str]], schema: Mapping[str, Any] | None, max_tokens: int
    ) -> Reply:
        """See :class:`Transport`."""
        try:
            key = config.api_key()
        except UsageError as error:
            raise Refused(str(error), every=True) from None
        started = time.perf_counter()
        asked, calls_tools = request_of(messages)
        exchange = Exchange(config.max_reply, config.timeout_s)
        token = current.set(exchange)
        try:
            async with Deadline(config.timeout_s + (0.0 if self._ready else READY_S)):
                response = await self._api.acompletion(
                    model=config.model,
                    **asked,
                    api_base=config.api_base,
                    api_key=key,
                    temperature=config.temperature,
                    top_p=config.top_p,
                    seed=config.seed,
                    max_tokens=max_tokens,
                    response_format=_form(self._api, config, schema),
                    timeout=config.timeout_s,
                    num_retries=0,
                    max_retries=0,
                )
            return _reply(config, response, time.perf_counter() - started, calls_tools)
        except TimeoutError:
            raise Transient(f"no reply within {config.timeout_s:g} s", overloaded=True) from None
        except Exception as error:  # without its cause, which may hold the key
            reply = _own_reading(config, exchange, time.perf_counter() - started, calls_tools)
            if reply is not None:
                return reply
            raise _meaning(self._api, config, error, exchange) from None
        finally:
            current.reset(token)
            self._ready = True


def _form(api: ModuleType, config: JudgeConfig, schema: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if schema is None or config.structured == "off":
        return None
    if config.structured == "json_object":
        return {"type": "json_object"}
    if config.structured == "auto" and not _knows_schemas(api, config.model):
        return None
    return response_format(schema)


_schemas_known: dict[str, bool] = {}


def _knows_schemas(api: ModuleType, model: str) -> bool:
    if model not in _schemas_known:
        _schemas_known[model] = bool(api.supports_response_schema(model))
    return _schemas_known[model]


def _reply(config: JudgeConfig, response: Any, seconds: float, calls_tools: bool) -> Reply:
    if not response.choices:
        raise Transient("what came has no message", answered=True)
    choice = response.choices[0]
    usage = getattr(response, "usage", None)
    sent, replied = tokens_of({name: getattr(usage, name, None) for name in ("prompt_tokens", "completion_tokens")})
    content = choice.message.content
    text = text_of(content) or text_of(getattr(choice.message, "refusal", None))
    calls = [call.model_dump() for call in choice.message.tool_calls or ()] if calls_tools else None
    return Reply(
        text=text if calls is None else with_calls(text, calls),
        finish_reason=end_of(choice.finish_reason or "stop", text, content),
        input_tokens=sent,
        output_tokens=replied,
        cost_usd=_cost(config, response, sent, replied),
        seconds=seconds,
        served_model=name_of(getattr(response, "model", None)),
        fingerprint=name_of(getattr(response, "system_fingerprint", None)),
    )


def _cost(config: JudgeConfig, response: Any, sent: int | None, replied: int | None) -> float | None:
    if sent is None or replied is None:
        return None  # LiteLLM's price, too, comes from what the server reported of them
    price = cost(config, sent, replied)
    return response._hidden_params.get("response_cost") if price is None else price


def _own_reading(config: JudgeConfig, exchange: Exchange, seconds: float, calls_tools: bool) -> Reply | None:
    """Return a reply of the OpenAI protocol that LiteLLM cannot read, such as one whose content is no text.

    Args:
        exchange: What came.
        seconds: Time that it took.
        calls_tools: Whether it may call tools.
    """
    response = exchange.response
    if exchange.failure is not None or response is None or not 200 <= response.status < 300:
        return None
    try:
        return reply_of(config, response, seconds, calls_tools=calls_tools)
    except AttemptError:
        return None


def _meaning(api: ModuleType, config: JudgeConfig, error: Exception, exchange: Exchange) -> AttemptError:
    """Say what a provider's error means for the call."""
    if isinstance(error, AttemptError):
        return error
    if exchange.failure is not None:
        exchange.failure.message = without_secrets(exchange.failure.message)
        return exchange.failure
    if isinstance(error, api.Timeout):
        return Transient(f"no reply within {config.timeout_s:g} s", overloaded=True)
    response = exchange.response
    if response is not None and 200 <= response.status < 300:
        kind = Transient if document_of(response) is None else Unusable
        return kind(f"LiteLLM cannot read the reply: {shown(response)}")
    status = getattr(error, "status_code", None)
    words = _PREFIXES.sub("", without_secrets(str(error).partition(_TRACEBACK)[0]))
    message = f"{type(error).__name__}: {words}"
    if isinstance(error, api.RateLimitError):
        return Throttled(message, _retry_after(error))
    return failure_of(status if isinstance(status, int) else None, message, _retry_after(error))


def _retry_after(error: Exception) -> float | None:
    for headers in (
        getattr(error, "litellm_response_headers", None),
        getattr(getattr(error, "response", None), "headers", None),
    ):
        value = headers.get("retry-after") if headers else None
        if value is not None:
            return seconds_of(value)
    return None


_DONE: Final = ("content-encoding", "content-length", "transfer-encoding")
"""Headers about the form in which a body came, which it has no more."""


@cache
def litellm() -> ModuleType:
    """Import LiteLLM (seconds) with its network access at import, telemetry and chatter off.

    Raises:
        JudgeRefused: It is not installed.
    """
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    try:
        import litellm as module
    except ImportError as error:
        raise JudgeRefused(
            f"LiteLLM cannot be imported: {error}.", hint="Install it: pip install -c constraints.txt -e '.[judge]'"
        ) from None

    module.suppress_debug_info = True
    module.telemetry = False
    module.drop_params = True
    logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)  # it would show what servers say as they say it
    warnings.filterwarnings("ignore", message="Pydantic serializer warnings", module="pydantic")
    _bound_replies()
    return module


@dataclass
class Exchange:
    """The reply of one attempt, and the limits of it.

    Attributes:
        most: Bytes that the reply may have.
        timeout_s: Longest time for the body.
        response: The last reply.
        failure: Why it was not read.
    """

    most: int
    timeout_s: float
    response: Response | None = None
    failure: AttemptError | None = None


current: Final[ContextVar[Exchange | None]] = ContextVar("leadline_litellm_exchange", default=None)
"""The attempt that the running task makes."""


def _bound_replies() -> None:
    """Have LiteLLM make its connections by a transport with limits; to be called once, after it was imported."""
    import httpx
    from litellm.llms.custom_httpx import aiohttp_transport

    theirs = aiohttp_transport.LiteLLMAiohttpTransport

    class BoundedTransport(theirs):  # type: ignore[misc, valid-type]
        """LiteLLM's transport, for attempts that say how much they may receive."""

        async def handle_async_request(self, request: Any) -> Any:
            exchange = current.get()
            if exchange is None:
                return await super().handle_async_request(request)
            request.headers.update(NOT_COMPRESSED)
            response = await super().handle_async_request(request)
            try:
                exchange.response = await _received(response, exchange)
            except AttemptError as failure:
                exchange.failure = failure
                raise httpx.ReadError(failure.message) from None
            finally:
                await response.aclose()
            kept = [(name, value) for name, value in response.headers.multi_items() if name.lower() not in _DONE]
            return httpx.Response(response.status_code, headers=kept, content=exchange.response.body, request=request)

    aiohttp_transport.LiteLLMAiohttpTransport = BoundedTransport  # type: ignore[misc]


async def _received(response: Any, exchange: Exchange) -> Response:
    """Read a reply.

    Raises:
        AttemptError: It is a redirect, has too many bytes, or is broken.
    """
    headers = {name.lower(): value for name, value in response.headers.items()}
    if 300 <= response.status_code < 400:
        raise Unusable(f"HTTP {response.status_code}: it redirects to {headers.get('location', 'nowhere')}")
    failed = not 200 <= response.status_code < 300
    async with Deadline(exchange.timeout_s):
        body = await read_body(
            response.stream,
            encoding=headers.get("content-encoding", ""),
            most=SAID if failed else exchange.most,
            shorten=failed,
        )
    return Response(response.status_code, headers, body)
