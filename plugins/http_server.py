"""The HTTP server of webhooks, telemetry and reports: who sends no request in time is dropped; tokens are compared.

uvicorn limits the time between two requests, but not that of a request's headers, and its limit of connections counts
those that have sent nothing. So a few dozen connections with half a request each would shut a server.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import socket
from typing import TYPE_CHECKING, Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from leadline.evaluators.ground import ErrorCode, LeadlineError, UsageError, remember_variable

if TYPE_CHECKING:
    from starlette.types import ASGIApp


HEADERS_S: Final = 10.0
"""Time from a connection, or from the last answer on it, to the next request's last header."""

BODY_S: Final = 20.0
"""Time that a body may take then; the application answers a slow one sooner."""

CONNECTIONS: Final = 256
"""Open connections; with more, the one whose request is soonest out of time is dropped."""

UNREAD: Final = 1024 * 1024
"""Bytes of a body that may still come when its request has been answered, so that the sender reads the answer."""

BACKLOG: Final = 128
ENDING_S: Final = 10
"""Time for requests in work when the server ends."""

SHORTEST: Final = 12
"""Characters of a token at least."""


def listener(host: str, *ports: int) -> socket.socket:
    """Return a socket that listens.

    Args:
        host: Address of the interface.
        *ports: The first of them that is free; 0 for any.

    Raises:
        LeadlineError: None can be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for port in ports:
        try:
            return socket.create_server((host, port), family=family, backlog=BACKLOG)
        except (OSError, OverflowError) as error:
            failure = error
    raise LeadlineError(
        f"Port {ports[0]} of {host} cannot be used: {getattr(failure, 'strerror', None) or failure}.",
        hint="Choose another: --port N",
        code=ErrorCode.SERVER_PORT,
    ) from failure


def server_of(app: ASGIApp) -> uvicorn.Server:
    """Return the server of an application."""
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, http=PatientProtocol, ws="none", timeout_keep_alive=5,
        timeout_graceful_shutdown=ENDING_S, server_header=False,
        proxy_headers=False,  # who asks is who is connected: a header of anybody's could say another address
    )  # fmt: skip
    return uvicorn.Server(config)


def serve(app: ASGIApp, listening: socket.socket) -> None:
    """Serve until SIGTERM or Ctrl-C.

    Args:
        app: The application.
    """
    server_of(app).run([listening])


class PatientProtocol(H11Protocol):
    """uvicorn's protocol with a time limit for headers."""

    _limit: asyncio.TimerHandle | None = None
    _awaited: str = ""
    _unread: int = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._watch()
        idle = [one for one in self.connections if isinstance(one, PatientProtocol) and one._limit]
        if len(self.connections) > CONNECTIONS and idle:
            min(idle, key=PatientProtocol._deadline)._drop()

    def data_received(self, data: bytes) -> None:
        """Read what arrives: headers, or a body; one that goes on and on after its answer is cut off."""
        self._unread = self._unread + len(data) if self.conn.our_state is h11.DONE else 0
        if self._unread > UNREAD:
            self._drop()
            return
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the wait."""
        super().connection_lost(exc)
        self._wait_for("")

    def _watch(self) -> None:
        if self.transport.is_closing():
            self._wait_for("")
        elif self.cycle is None or self.cycle.response_complete:
            self._wait_for("headers")
        else:
            self._wait_for("body" if self.cycle.more_body else "")

    def _wait_for(self, part: str) -> None:
        """Begin to wait for a part of a request, or for nothing; waiting for the same part goes on."""
        if part == self._awaited:
            return
        if self._limit is not None:
            self._limit.cancel()
        seconds = {"headers": HEADERS_S, "body": BODY_S}.get(part)
        self._limit = None if seconds is None else self.loop.call_later(seconds, self._drop)
        self._awaited = part

    def _deadline(self) -> float:
        return self._limit.when() if self._limit else float("inf")

    def _drop(self) -> None:
        self._wait_for("")
        self.transport.abort()


def token_in(variable: str) -> str:
    """Return the token that an environment variable holds, ``""`` where it holds none; it is a secret from now on.

    Raises:
        UsageError: It is too short.
    """
    remember_variable(variable)
    given = os.environ.get(variable, "")
    if given and len(given) < SHORTEST:
        raise UsageError(
            f"{variable} must hold a token of at least {SHORTEST} characters.",
            hint="Draw one: openssl rand -hex 24",
            code=ErrorCode.CONFIG_VARIABLE,
        )
    return given


def same(given: str, wanted: str) -> bool:
    """Return whether two secrets are equal, in a time that says nothing about where they differ.

    Args:
        given: The secret that somebody sent.
        wanted: The right one.
    """
    return hmac.compare_digest(*(hashlib.sha256(text.encode("utf-8", "replace")).digest() for text in (given, wanted)))
