"""LiteLLM, imported as late as possible since that takes seconds: prices, providers, and bounded HTTP.

Prices are the user's figures, else those of the table that comes with LiteLLM, else unknown. Without LiteLLM the usual
models of OpenAI have one all the same.

LiteLLM and the SDKs that it uses read a body whole, however large it is when it is decompressed, and follow redirects
with all headers, of which some providers' hold the key. Here each attempt's reply is read by
:func:`.bounded_body.read_body` before they see it, and kept, since LiteLLM does not say what it could not read.
"""

from __future__ import annotations

import json
import logging
import os
import tomllib
import warnings
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from leadline.evaluators.judge_client.failures import JudgeRefused
from leadline.evaluators.judge_client.http_client import NOT_COMPRESSED, SAID, Response, read_body
from leadline.evaluators.judge_client.transport import AttemptError, Unusable
from leadline.evaluators.settings import JudgeConfig

_TABLE: Final = "model_prices_and_context_window_backup.json"
_DONE: Final = ("content-encoding", "content-length", "transfer-encoding")
"""Headers about the form in which a body came, which it has no more."""


def price(config: JudgeConfig) -> tuple[float, float] | None:
    """Return USD per input and per output token, ``None`` when unknown; what runs here costs nothing."""
    if config.input_cost_per_token is not None and config.output_cost_per_token is not None:
        return config.input_cost_per_token, config.output_cost_per_token
    if config.kind == "local":
        return 0.0, 0.0
    table = _table() or openai_prices()
    known = table.get(config.model) or table.get(config.model.partition("/")[2]) or {}
    sent, replied = known.get("input_cost_per_token"), known.get("output_cost_per_token")
    if not isinstance(sent, int | float) or not isinstance(replied, int | float):
        return None
    return float(sent), float(replied)


def cost(config: JudgeConfig, input_tokens: int | None, output_tokens: int | None) -> float | None:
    """Return the price of a call in USD, ``None`` when it is unknown.

    Args:
        input_tokens: Tokens of the question; ``None`` when unknown.
        output_tokens: Tokens of the reply; ``None`` when unknown.
    """
    known = price(config)
    if known is None or input_tokens is None or output_tokens is None:
        return None
    return input_tokens * known[0] + output_tokens * known[1]


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


def listed(model: str) -> Mapping[str, Any]:
    """Return what LiteLLM's table says of a model; nothing where it does not list it, or is not installed."""
    known: Mapping[str, Any] = _table().get(model, {})
    return known


@cache
def providers() -> frozenset[str]:
    """Return the providers of LiteLLM's table."""
    return frozenset(str(known.get("litellm_provider")) for known in _table().values())


@cache
def _table() -> dict[str, Any]:
    """Read LiteLLM's table from its package: importing LiteLLM takes seconds."""
    spec = find_spec("litellm")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / _TABLE
        if path.exists():
            return dict(json.loads(path.read_text(encoding="utf-8")))
    return {}


@cache
def openai_prices() -> Mapping[str, Any]:
    """Return the prices of OpenAI's usual models, as LiteLLM's table has them."""
    prices = tomllib.loads(Path(__file__).with_name("openai_prices.toml").read_text(encoding="utf-8"))
    names = ("input_cost_per_token", "output_cost_per_token")
    return {model: dict(zip(names, (each / 1e6 for each in both), strict=True)) for model, both in prices.items()}


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
    body = await read_body(
        response.stream,
        encoding=headers.get("content-encoding", ""),
        most=SAID if failed else exchange.most,
        timeout_s=exchange.timeout_s,
        shorten=failed,
    )
    return Response(response.status_code, headers, body)
