"""LiteLLM's HTTP transport with the limits of every other wire: bounded bodies, no redirects, no compression.

LiteLLM and the SDKs that it uses read a body whole, however large it is when it is decompressed, and follow redirects
with all headers, of which some providers' hold the key. Here each attempt's reply is read by
:func:`.bounded_body.read_body` before they see it, and kept, since LiteLLM does not say what it could not read.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from leadline.evaluators.judge_client.bounded_body import NOT_COMPRESSED, SAID, read_body
from leadline.evaluators.judge_client.http_client import Response
from leadline.evaluators.judge_client.transport import AttemptError, Unusable

_DONE: Final = ("content-encoding", "content-length", "transfer-encoding")
"""Headers about the form in which a body came, which it has no more."""


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


def bound_replies() -> None:
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
