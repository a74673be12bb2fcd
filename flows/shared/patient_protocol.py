"""HTTP for Leadline's servers: who does not send a request in time is dropped, and never keeps others out.

uvicorn limits the time between two requests, but not that of a request's headers, and its limit of connections counts
those that have sent nothing. So a few dozen connections with half a request each would shut a server.
"""

from __future__ import annotations

import asyncio
from typing import Final

from uvicorn.protocols.http.h11_impl import H11Protocol

HEADERS_S: Final = 10.0
"""Time from a connection, or from the last answer on it, to the next request's last header."""

BODY_S: Final = 20.0
"""Time that a body may take then; the application answers a slow one sooner."""

CONNECTIONS: Final = 256
"""Open connections; with more, the one whose request is soonest out of time is dropped."""


class PatientProtocol(H11Protocol):
    """uvicorn's protocol with a time limit for headers."""

    _limit: asyncio.TimerHandle | None = None
    _awaited: str = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._watch()
        idle = [one for one in self.connections if isinstance(one, PatientProtocol) and one._limit]
        if len(self.connections) > CONNECTIONS and idle:
            min(idle, key=PatientProtocol._deadline)._drop()

    def data_received(self, data: bytes) -> None:
        """Read what arrives: headers, or a body."""
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
