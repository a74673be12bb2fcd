"""The wire to a judge: one attempt of one call, and what its failure means.

LiteLLM speaks to every provider; its retries and those of the provider's SDK are off, because the client above is the
one owner of retries.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any, Final, Protocol

from leadline.evaluators.core.errors import UsageError
from leadline.evaluators.core.redaction import LONGEST, without_secrets
from leadline.evaluators.judge.engine.calls import Reply
from leadline.evaluators.judge.engine.judge_config import JudgeConfig
from leadline.evaluators.judge.engine.litellm_library import cost, litellm
from leadline.evaluators.judge.engine.reply_schemas import strict_schema
from leadline.evaluators.text.sentences import without_surrogates

_PREFIXES: Final = re.compile(r"^(?:(?:litellm\.)?\w+(?:Error|Exception)(?:: | - ))+")
"""What LiteLLM puts before a provider's own words."""

_REFUSES_ALL: Final = frozenset({401, 402, 403, 404})
"""A wrong key, an empty purse, a model that is not there."""

MOST_TOKENS: Final = 100_000_000
"""Ten times the longest context of any model: no question or reply has more."""

_OVERLOADED: Final = frozenset({503, 529})
_MAY_PASS: Final = frozenset({408, 409, 425, 429})
"""Client errors after which another attempt may do."""


class AttemptError(Exception):
    """One attempt of a call failed.

    Args:
        message: What happened, free of secrets.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Throttled(AttemptError):
    """The provider answered 429; ``retry_after`` are the seconds that it asked for, if it did."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Transient(AttemptError):
    """Another attempt may do: a server error, a lost connection.

    Args:
        message: What happened.
        overloaded: Too much at once may be the cause: silence, 503.
        retry_after: Seconds that the server asked for.
    """

    def __init__(self, message: str, *, overloaded: bool = False, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.overloaded = overloaded
        self.retry_after = retry_after


class Refused(AttemptError):
    """Another attempt of this call will not do: a question that is too long, or against the provider's rules.

    Args:
        message: What happened.
        every: No other call will do either: a wrong key, an unknown model.
    """

    def __init__(self, message: str, *, every: bool = False) -> None:
        super().__init__(message)
        self.every = every


class Transport(Protocol):
    """Sends one attempt."""

    async def send(
        self,
        config: JudgeConfig,
        messages: list[dict[str, str]],
        schema: Mapping[str, Any] | None,
        max_tokens: int,
    ) -> Reply:
        """Send a question and return the reply.

        Args:
            config: The judge: model, address, sampling, timeout.
            messages: The conversation as dictionaries of ``role`` and ``content``.
            schema: JSON schema of the reply; ``None`` for free text.
            max_tokens: Most tokens that the reply may have.

        Raises:
            AttemptError: There is none.
        """


class LiteLLMTransport:
    """Any provider by LiteLLM's model name, and any OpenAI-compatible server by ``api_base``.

    Raises:
        JudgeRefused: LiteLLM is not installed.
    """

    def __init__(self) -> None:
        self._api = litellm()

    async def send(
        self,
        config: JudgeConfig,
        messages: list[dict[str, str]],
        schema: Mapping[str, Any] | None,
        max_tokens: int,
    ) -> Reply:
        """See :class:`Transport`."""
        try:
            key = config.api_key()
        except UsageError as error:
            raise Refused(str(error), every=True) from None
        started = time.perf_counter()
        try:
            async with asyncio.timeout(config.timeout_s):
                response = await self._api.acompletion(
                    model=config.model,
                    messages=messages,
                    api_base=config.api_base,
                    api_key=key,
                    temperature=config.temperature,
                    top_p=config.top_p,
                    seed=config.seed,
                    max_tokens=max_tokens,
                    response_format=_response_format(self._api, config, schema),
                    timeout=config.timeout_s,
                    num_retries=0,
                    max_retries=0,
                )
            return _reply(config, response, time.perf_counter() - started)
        except TimeoutError:
            raise Transient(f"no reply within {config.timeout_s:g} s", overloaded=True) from None
        except Exception as error:  # without its cause, which may hold the key
            raise _meaning(self._api, config, error) from None


def _response_format(api: ModuleType, config: JudgeConfig, schema: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if schema is None or config.structured == "off":
        return None
    if config.structured == "json_object":
        return {"type": "json_object"}
    if config.structured == "auto" and not _knows_schemas(api, config.model):
        return None
    name = re.sub(r"\W", "_", str(schema.get("title", "reply")))
    strict = strict_schema(schema)
    sent = {"name": name, "schema": strict or dict(schema), "strict": strict is not None}
    return {"type": "json_schema", "json_schema": sent}


_schemas_known: dict[str, bool] = {}


def _knows_schemas(api: ModuleType, model: str) -> bool:
    if model not in _schemas_known:
        _schemas_known[model] = bool(api.supports_response_schema(model))
    return _schemas_known[model]


def _reply(config: JudgeConfig, response: Any, seconds: float) -> Reply:
    if not response.choices:
        raise Transient("a reply without content")
    choice = response.choices[0]
    sent, replied = _usage(response)
    return Reply(
        text=without_surrogates(choice.message.content or ""),
        finish_reason=choice.finish_reason or "stop",
        input_tokens=sent,
        output_tokens=replied,
        cost_usd=_cost(config, response, sent, replied),
        seconds=seconds,
    )


def _usage(response: Any) -> tuple[int | None, int | None]:
    """Return the tokens of question and reply as far as the server reported them."""
    usage = getattr(response, "usage", None)
    sent, replied = _tokens(getattr(usage, "prompt_tokens", None)), _tokens(getattr(usage, "completion_tokens", None))
    # No question is empty: 0 is LiteLLM's word for a server that does not count.
    return (sent, replied) if sent else (None, replied or None)


def _cost(config: JudgeConfig, response: Any, sent: int | None, replied: int | None) -> float | None:
    if sent is None or replied is None:
        return None  # LiteLLM's price, too, comes from what the server reported of them
    price = cost(config, sent, replied)
    return response._hidden_params.get("response_cost") if price is None else price


def plausible(reply: Reply) -> Reply:
    """Return a reply in which figures that cannot be true are unknown, since a server may say anything.

    An unknown cost counts against a budget as what was set aside, so no reply can raise what a run may spend.
    """
    return replace(
        reply,
        finish_reason=without_surrogates(reply.finish_reason)[:LONGEST],
        input_tokens=_tokens(reply.input_tokens),
        output_tokens=_tokens(reply.output_tokens),
        cost_usd=_price(reply.cost_usd),
    )


def _tokens(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else None


def _price(value: object) -> float | None:
    """Return an amount of money, ``None`` for one that is negative or not finite."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= sys.float_info.max else None


def _meaning(api: ModuleType, config: JudgeConfig, error: Exception) -> AttemptError:
    """Say what a provider's error means for the call."""
    if isinstance(error, AttemptError):
        return error
    status = getattr(error, "status_code", None)
    words = _PREFIXES.sub("", without_secrets(str(error), config))
    message = f"{type(error).__name__}: {words}"
    if isinstance(error, api.RateLimitError):
        return Throttled(message, _retry_after(error))
    if isinstance(error, api.Timeout):
        return Transient(f"no reply within {config.timeout_s:g} s", overloaded=True)
    return failure_of(status if isinstance(status, int) else None, message, _retry_after(error))


def failure_of(status: int | None, message: str, retry_after: float | None) -> AttemptError:
    """Say what an HTTP status other than 200 means for the call; ``None`` where there is no status at all.

    Args:
        status: The status.
        message: What happened, free of secrets.
        retry_after: Seconds that the server asked for.
    """
    if status == 429:
        return Throttled(message, retry_after)
    if status in _REFUSES_ALL:
        return Refused(message, every=True)
    if status is not None and 300 <= status < 500 and status not in _MAY_PASS:
        return Refused(message)
    overloaded = status in _OVERLOADED
    return Transient(message, overloaded=overloaded, retry_after=retry_after if overloaded else None)


def _retry_after(error: Exception) -> float | None:
    for headers in (
        getattr(error, "litellm_response_headers", None),
        getattr(getattr(error, "response", None), "headers", None),
    ):
        value = headers.get("retry-after") if headers else None
        if value is not None:
            return seconds_of(value)
    return None


def seconds_of(retry_after: str) -> float | None:
    """Return the seconds of a ``Retry-After`` header; an HTTP date is left to the back-off."""
    try:
        seconds = float(retry_after)
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None
