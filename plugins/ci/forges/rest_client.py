"""A REST client for forges: retries what may be repeated, waits as long as a forge asks, and lets no token out.

A redirection is not followed, since the token would go along; nor is a token sent without encryption but to this host.
"""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPException
from typing import IO, Any, Final
from urllib.parse import urlsplit

from leadline.evaluators.ground import without_secrets

ATTEMPTS: Final = 4
REPLY_S: Final = 20.0
"""Longest silence within a reply, and longest time for all of it."""
PATIENCE_S: Final = 90.0
"""Longest wait for a forge that asks for one; a job that pays by the minute does not wait for an hour."""
LARGEST: Final = 16 * 2**20
"""Bytes of a reply."""
MOST_PAGES: Final = 50

_LIMITED: Final = (403, 429)
_BUSY: Final = (500, 502, 503, 504)
_SAFE: Final = ("GET", "PATCH", "PUT")
"""Methods that may be repeated when nobody knows whether they were carried out."""
_NEXT: Final = re.compile(r'<([^>]+)>\s*;[^,]*\brel="?next"?')
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


class ForgeRefusal(Exception):
    """A forge that refused, or could not be reached.

    Attributes:
        status: HTTP's status; 0 where there was no answer.
    """

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(without_secrets(message))
        self.status = status


@dataclass(frozen=True, slots=True)
class RestReply:
    """A reply: its status, its headers in small letters, and its JSON."""

    status: int
    headers: Mapping[str, str]
    content: Any


class RestClient:
    """Requests to one API.

    Args:
        api: Address that paths are put behind.
        headers: Headers of each request, the token among them.
        sleep: Waits for a number of seconds.
        clock: Tells the seconds since whenever.

    Raises:
        ForgeRefusal: The address is none, or a token would go over the network without encryption.
    """

    def __init__(
        self,
        api: str,
        headers: Mapping[str, str],
        *,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        parts = urlsplit(api)
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
            raise ForgeRefusal("invalid API address; expected https://HOST/PATH without credentials")
        if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
            raise ForgeRefusal("the API's address is http://, and a token is sent by https:// only")
        self._api = api.rstrip("/")
        self._origin = (parts.scheme, parts.netloc)
        self._headers = {"User-Agent": "leadline", "Content-Type": "application/json"} | dict(headers)
        self._sleep = sleep
        self._clock = clock
        self._opener = urllib.request.build_opener(_NoRedirection())

    def send(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> RestReply:
        """Send a request and return the reply to it.

        Args:
            method: HTTP's method.
            path: Path behind the API's address, or a whole address of the same host.
            body: JSON to send.

        Raises:
            ForgeRefusal: The forge refused, could not be reached, or asks for too long a wait.
        """
        address = path if "://" in path else f"{self._api}{path}"
        waited = 0.0
        for attempt in range(1, ATTEMPTS + 1):
            reply, failure = self._attempt(method, address, body)
            if reply is not None and reply.status < 300:
                return reply
            wait = self._wait(reply, attempt, method)
            if wait is None or attempt == ATTEMPTS:
                break
            if waited + wait > PATIENCE_S:
                raise ForgeRefusal(f"it asks to wait for {wait:,.0f} s", reply.status if reply else 0)
            waited += wait
            self._sleep(wait)
        raise ForgeRefusal(failure or _said(reply), reply.status if reply else 0)

    def pages(self, path: str) -> Iterator[Any]:
        """Yield the items of a list, page after page.

        Args:
            path: Path of the first page.

        Raises:
            ForgeRefusal: As :meth:`send`; or a page is no list.
        """
        following = path
        for _ in range(MOST_PAGES):
            reply = self.send("GET", following)
            if not isinstance(reply.content, list):
                raise ForgeRefusal("it sent no list of comments", reply.status)
            yield from reply.content
            link = _NEXT.search(reply.headers.get("link", ""))
            if link is None or urlsplit(link[1])[:2] != self._origin:
                return
            following = link[1]

    def _attempt(self, method: str, address: str, body: Mapping[str, Any] | None) -> tuple[RestReply | None, str]:
        """Return the reply to one request, or why there is none."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(address, data=data, headers=self._headers, method=method)  # noqa: S310
        try:
            with self._opener.open(request, timeout=REPLY_S) as stream:
                return _reply(stream.status, stream.headers, stream), ""
        except urllib.error.HTTPError as error:
            with error:
                return _reply(error.code, error.headers, error), ""
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            return None, f"it cannot be reached: {type(error).__name__}: {reason}"

    def _wait(self, reply: RestReply | None, attempt: int, method: str) -> float | None:
        """Return the seconds after which to try again, ``None`` for not at all."""
        pause = 2.0 ** (attempt - 1)
        if reply is None or reply.status in _BUSY:
            asked = None if reply is None else _number(reply.headers.get("retry-after"))
            return max(pause, asked or 0.0) if method in _SAFE else None
        if reply.status not in _LIMITED:
            return None
        if (asked := _number(reply.headers.get("retry-after"))) is not None:
            return max(asked, 0.0)
        for name in ("x-ratelimit", "ratelimit"):
            reset = _number(reply.headers.get(f"{name}-reset"))
            if reply.headers.get(f"{name}-remaining") == "0" and reset is not None:
                return max(reset - self._clock(), 1.0)
        return pause if reply.status == 429 or "rate limit" in _said(reply).lower() else None


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> urllib.request.Request | None:
        """Follow nothing: the token would go along."""
        return None


def _reply(status: int, headers: Message, stream: Any) -> RestReply:
    content: Any = None
    with suppress(ValueError, OSError, HTTPException, RecursionError):  # a proxy's page is no JSON
        content = json.loads(_body(stream))
    return RestReply(status, {name.lower(): value for name, value in headers.items()}, content)


def _body(stream: Any) -> bytes:
    """Return a body that is neither too large nor comes too slowly.

    Raises:
        TimeoutError: It trickles.
    """
    until, body = time.monotonic() + REPLY_S, b""
    while len(body) < LARGEST and (part := stream.read1(min(LARGEST - len(body), 2**16))):
        body += part
        if time.monotonic() > until:
            raise TimeoutError
    return body


def _said(reply: RestReply | None) -> str:
    """Return a refusal in words: the status and the forge's own message."""
    if reply is None:
        return "it cannot be reached"
    content = reply.content
    message = content.get("message") or content.get("error") if isinstance(content, dict) else ""
    return f"it answered {reply.status}" + (f": {json.dumps(message)[:200]}" if message else "")


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text is not None else None
    except ValueError:
        return None
