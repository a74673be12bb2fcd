"""The HTTP client of judges and models under test: one pool for each event loop, and bodies read within bounds.

Measured with 64 calls in flight, aiohttp takes half a millisecond of processor time a call; httpx, whose pool looks
through all connections at each call, takes nine.

The limit is one of decoded bytes, so that a compressed body cannot grow beyond it either. Compression is not asked for;
what comes by gzip or deflate all the same is read, and what comes in any other form is not.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import ssl
import zlib
from collections.abc import AsyncIterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from leadline.evaluators.judge_client.event_loop import Deadline
from leadline.evaluators.judge_client.transport import Refused, Transient, Unusable
from leadline.evaluators.settings import MEBIBYTE

if TYPE_CHECKING:
    import aiohttp
    from aiohttp.connector import Connection


MAX_HEADER: Final = 64 * 1024
"""Bytes that a header of a reply may have: gateways send policies that are longer than aiohttp's 8 KiB."""

MAX_INTERIM: Final = 100
"""Interim replies ("100 Continue") before the reply; a server without end of them would keep the event loop busy."""

_PROXIES: Final = ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
KEEP_ALIVE_S: Final = 15.0
CLOSING_S: Final = 1.0
_sessions: Final[dict[asyncio.AbstractEventLoop, aiohttp.ClientSession]] = {}
_inherited: Final[list[aiohttp.ClientSession]] = []
"""Connections of the process that this one was forked from, which may be neither used nor closed here."""

SAID: Final = 64 * 1024
"""Bytes that are read of an error's body: its status says what matters."""

NOT_COMPRESSED: Final = {"Accept-Encoding": "identity"}
"""The header by which servers are asked to send no compressed replies."""

_DEFLATED: Final = frozenset({"gzip", "x-gzip", "deflate"})


@dataclass(frozen=True, slots=True)
class Response:
    """A server's reply; the names of its headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


async def exchange(
    method: str, url: str, *, headers: Mapping[str, str], body: bytes | None, timeout_s: float, most: int
) -> Response:
    """Send one request and read its reply whole, by a proxy where the environment names one.

    Redirects are not followed, since headers may hold keys; cookies are not kept. Of an error's body the beginning is
    read.

    Args:
        method: HTTP method.
        url: Address with its query.
        headers: Headers; that of compression is added.
        body: What is sent; ``None`` for nothing.
        timeout_s: Longest time for all of it.
        most: Bytes that the reply may have, when it is decompressed.

    Raises:
        AttemptError: There is no reply, or one that is too large. The text of a cause may hold what was sent; clean it.
    """
    import aiohttp

    try:
        async with (
            Deadline(timeout_s),
            _session().request(
                method,
                url,
                data=body,
                headers={**NOT_COMPRESSED, **headers},
                allow_redirects=False,
                proxy=_proxy(url),
                ssl=trusted_authorities() if url.startswith("https:") else True,
            ) as response,
        ):
            answered = {name.lower(): value for name, value in response.headers.items()}
            failed = not 200 <= response.status < 300
            read = await read_body(
                response.content.iter_any(),
                encoding=answered.get("content-encoding", ""),
                most=SAID if failed else most,
                shorten=failed,
            )
            return Response(response.status, answered, read)
    except TimeoutError:
        raise Transient(f"no reply within {timeout_s:g} s", overloaded=True) from None
    except aiohttp.ClientResponseError as error:  # as a text it has the address, the proxy's with its password
        raise Transient(f"{type(error).__name__}: {error.status}, {error.message}") from None
    except (aiohttp.ClientError, OSError) as error:
        kind = Refused if isinstance(error, aiohttp.InvalidURL) else Transient
        raise kind(f"{type(error).__name__}: {error}") from None
    except ValueError as error:  # a header with a line break, for example
        raise Refused(str(error)) from None


def _proxy(url: str) -> str | None:
    """Return the proxy that the environment names for an address (``HTTPS_PROXY``, ``NO_PROXY`` and the like).

    Raises:
        Refused: It is none that speaks HTTP.
    """
    if not any(name in os.environ for name in _PROXIES):  # reading all of it at each call would take longer
        return None
    parts, proxies = urlsplit(url), getproxies()
    if proxy_bypass(parts.netloc):
        return None
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy:
        return None
    kind, marked, _ = proxy.partition("://")
    if marked and kind.lower() not in ("http", "https"):
        raise Refused(
            f"the environment names a proxy of the kind {kind[:20]!r}, and only http and https are understood: set "
            "HTTPS_PROXY and HTTP_PROXY to one of these, or NO_PROXY to the judge's host",
            every=True,
        )
    return proxy if marked else f"http://{proxy}"


@cache
def trusted_authorities() -> ssl.SSLContext:
    """Return a context that trusts the authorities of the system, of ``SSL_CERT_FILE``, and of certifi."""
    import certifi

    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context


@cache
def _bounded_response() -> type[aiohttp.ClientResponse]:
    """Return aiohttp's response, which waits for no more than some interim replies."""
    import aiohttp

    class BoundedResponse(aiohttp.ClientResponse):
        async def start(self, connection: Connection) -> aiohttp.ClientResponse:
            protocol = connection.protocol
            assert protocol is not None  # noqa: S101 - a connection that was just made has one
            read, interim = protocol.read, 0

            async def counted() -> object:
                nonlocal interim
                interim += 1
                if interim > MAX_INTERIM + 1:
                    raise Unusable(f"more than {MAX_INTERIM} interim replies (100 Continue) and no other came")
                return await read()

            protocol.read = counted  # type: ignore[assignment, method-assign]
            try:
                return await super().start(connection)
            finally:
                del protocol.read

    return BoundedResponse


def _session() -> aiohttp.ClientSession:
    """Return the running loop's pool of connections; how many calls are in flight is the limiter's business."""
    loop = asyncio.get_running_loop()
    session = _sessions.get(loop)
    if session is None or session.closed:
        import aiohttp

        if not _sessions:
            atexit.register(_close_all)
        for old in [old for old in _sessions if old.is_closed()]:
            _abandon(_sessions.pop(old))
        session = _sessions[loop] = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            auto_decompress=False,
            max_field_size=MAX_HEADER,
            response_class=_bounded_response(),
        )
    return session


async def close_connections() -> None:
    """Close the running loop's connections, as a loop must that ends before the process does."""
    session = _sessions.pop(asyncio.get_running_loop(), None)
    if session is not None:
        await session.close()


def _close_all() -> None:
    """Close the connections of the loops that still run, quietly, when the process ends."""
    for loop, session in list(_sessions.items()):
        if loop.is_running():
            closing = asyncio.run_coroutine_threadsafe(session.close(), loop)
            try:
                closing.result(CLOSING_S)
            except TimeoutError:
                closing.cancel()
        elif loop.is_closed():
            _abandon(session)


def _forget() -> None:
    """Leave the connections to the process that this one was forked from."""
    _inherited.extend(_sessions.values())
    _sessions.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def _abandon(session: aiohttp.ClientSession) -> None:
    """Let go of the connections of a loop that is closed: there is nothing to wait for, so one step does it."""
    with suppress(StopIteration):
        session.close().send(None)


async def read_body(parts: AsyncIterable[bytes], *, encoding: str, most: int, shorten: bool = False) -> bytes:
    """Read a body; how long it may take is the caller's business.

    Args:
        parts: Its parts, as they come.
        encoding: The header ``Content-Encoding``.
        most: Decoded bytes that it may have.
        shorten: Return the beginning of a body that is too long or broken, instead of raising.

    Raises:
        Unusable: It has more bytes, or is compressed in another way than by gzip or deflate.
        Transient: It is broken.
    """
    received = bytearray()
    try:
        decoder = _Decoder(encoding)
        async for part in parts:
            received += decoder.decode(part, most + 1 - len(received))
            if len(received) > most:
                raise Unusable(f"the reply has more than {in_mebibytes(most)}")
        decoder.finish()
    except (Unusable, Transient):
        if not shorten:
            raise
        del received[most:]
    return bytes(received)


def in_mebibytes(size: int) -> str:
    """Return a number of bytes in words."""
    return f"{size / MEBIBYTE:.3g} MiB"


class _Decoder:
    """Undoes a body's compression, if it has one.

    Args:
        encoding: The header ``Content-Encoding``.

    Raises:
        Unusable: It names another form than gzip and deflate.
    """

    def __init__(self, encoding: str) -> None:
        form = encoding.strip().lower()
        if form not in _DEFLATED and form not in ("", "identity"):
            raise Unusable(f"the reply is compressed by {form[:40]}, which was not asked for")
        self._inflating = zlib.decompressobj(zlib.MAX_WBITS | 32) if form in _DEFLATED else None
        self._begun = False

    def decode(self, part: bytes, most: int) -> bytes:
        """Return what a part stands for.

        Args:
            part: The next part.
            most: Bytes to return at most.
        """
        self._begun = self._begun or bool(part)
        if self._inflating is None:
            return part[:most]
        try:
            decoded = self._inflating.decompress(part, most)
        except zlib.error as error:
            raise Transient(f"the reply cannot be decompressed: {error}") from None
        if self._inflating.unused_data:  # zlib would keep all of it
            raise Transient("the reply goes on after the end of its compressed data")
        return decoded

    def finish(self) -> None:
        """Check that the body is whole; an empty one is, whatever form was announced."""
        if self._inflating is not None and self._begun and not self._inflating.eof:
            raise Transient("the reply ends in the middle of its compressed data")
