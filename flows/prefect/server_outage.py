"""Waiting for a Prefect server that went away: a flow goes on where it was when the server is back.

Prefect's client gives up after a minute at most, and at once where it has not reached the server before; a server that
is started anew, with its database, takes longer. :func:`outlast_outages` makes each request of this process wait until
the server answers again, ``LEADLINE_SERVER_WAIT`` seconds at most. It is put around the client's two ``send`` methods,
which every request passes: those of flows, of the engine that runs them, of logs and artifacts.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final

import httpx
from prefect.client import base
from prefect.client.base import PrefectHttpxAsyncClient, PrefectHttpxSyncClient
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.tasks.ground.outages import next_pause_s, server_wait_s

log = logging.getLogger("leadline.server")

_AWAY: Final = (408, 429, 500, 502, 503, 504)
"""What a server says that is busy or whose database is away, or a proxy whose server is."""

_OWN_RETRIES: Final = 1
"""Tries of Prefect's client after the first, where requests wait here: its pauses soon last a minute."""


BUSY_S: Final = 60.0
"""Seconds for which a server that says it is busy is waited for, also where one that is gone is not: SQLite is locked
while several runs begin at once."""


@dataclass
class _Limit:
    """For how many seconds requests wait; 0 once nobody wants their outcome any more.

    Attributes:
        seconds: Where nothing answers.
        busy: Where the server answers that it is busy, or is slow.
    """

    seconds: float
    busy: float

    def after(self, error: Exception) -> float:
        """Return for how many seconds is waited after an error."""
        busy = isinstance(error, (httpx.HTTPStatusError, httpx.ReadTimeout))
        return self.busy if busy else self.seconds


_limits: list[_Limit] = []
"""What holds now, last; without one it is what the environment says."""

_OF_TASKS: Final = (asyncio.CancelledError, GeneratorExit)
"""What ends a task of an event loop, as a time limit does, and not the run."""

_retries: ContextVar[int | None] = ContextVar("retries", default=None)

_patient: ContextVar[bool] = ContextVar("patient", default=True)


def outlast_outages() -> None:
    """Let all requests of this process to a Prefect server wait through its outages; doing it again changes nothing.

    A module with a flow does it when it is imported, because the engine talks to the server before the flow begins.
    """
    if hasattr(PrefectHttpxSyncClient.send, "__wrapped__"):
        return
    base.PREFECT_CLIENT_MAX_RETRIES = _Retries()  # type: ignore[attr-defined]
    PrefectHttpxSyncClient.send = _waiting(PrefectHttpxSyncClient.send)  # type: ignore[method-assign]
    PrefectHttpxAsyncClient.send = _waiting_async(PrefectHttpxAsyncClient.send)  # type: ignore[method-assign]


@contextmanager
def waiting(seconds: float) -> Iterator[None]:
    """Let requests wait for another time while the block runs.

    Args:
        seconds: How long at most; 0 where nobody would start the server again. One that is only busy is waited for
            :data:`BUSY_S` seconds at least.
    """
    limit = _Limit(seconds, max(seconds, BUSY_S))
    _limits.append(limit)
    try:
        yield
    finally:
        _limits.remove(limit)
        limit.seconds = limit.busy = 0  # for logs and events that still wait in other threads


@contextmanager
def not_waiting() -> Iterator[None]:
    """Let the requests of this block fail where the server is away: whoever makes them has something better to do."""
    before = _patient.set(False)
    try:
        yield
    finally:
        _patient.reset(before)


class _Outage:
    """The outage that one request meets."""

    def __init__(self) -> None:
        self._limit = _limits[-1] if _limits else _Limit(server_wait_s(), server_wait_s())
        self._began = time.monotonic()
        self._pause = 0.0
        self.quickly = _is_ending()
        self._patient = _patient.get() and self._limit.busy > 0

    @contextmanager
    def trying(self) -> Iterator[None]:
        """Bound the tries of Prefect's own client in the block, unless the request does not wait here."""
        before = _retries.set(0 if self.quickly else _OWN_RETRIES if self._patient else None)
        try:
            yield
        finally:
            _retries.reset(before)

    def pause(self, error: Exception) -> float:
        """Return how long to wait before the next try; raise the error where there is to be none."""
        _refuse_untrusted(error)
        away, limit = time.monotonic() - self._began, self._limit.after(error)
        if self.quickly or not self._patient or not is_away(error) or away >= limit or _is_ending():
            raise error
        if not self._pause:
            log.warning(
                "Prefect's server does not answer (%s); it is waited for, %.0f s at most.", type(error).__name__, limit
            )
        self._pause = next_pause_s(self._pause)
        return min(self._pause, max(0.0, limit - away))


def is_away(error: BaseException) -> bool:
    """Return whether an error says that the server, or the database behind it, is away for now."""
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code in _AWAY
    return isinstance(error, httpx.TransportError) and not isinstance(error, httpx.UnsupportedProtocol)


def _refuse_untrusted(error: BaseException | None) -> None:
    """Raise an error that says what to do where the server is there, and its certificate is not to be trusted."""
    cause = error
    while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
        cause = cause.__cause__ or cause.__context__
    if cause is not None:
        raise UsageError(
            f"The certificate of Prefect's server is not trusted here: {cause.verify_message}.",
            hint="Name the file of the authority that signed it in PREFECT_API_SSL_CERT_FILE, and the host for which it"
            " was made in PREFECT_API_URL.",
            code=ErrorCode.SERVER_CERTIFICATE,
        ) from error


def interruption(error: BaseException | None) -> BaseException | None:
    """Return what stopped the run, where that led to an error: Ctrl-C, or a signal that Prefect or a command takes."""
    while error is not None and isinstance(error, (Exception, *_OF_TASKS)):
        error = error.__cause__ or error.__context__
    return error


def _is_ending() -> bool:
    """Return whether this thread handles an interruption: who has stopped a run does not want to wait for a server."""
    return interruption(sys.exc_info()[1]) is not None


class _Retries:
    """Stands where Prefect's client looks up how often it tries again; making a setting for each request is slow."""

    def value(self) -> int:
        """Return the number of tries after the first."""
        own, setting = _retries.get(), int(PREFECT_CLIENT_MAX_RETRIES.value())
        return setting if own is None else min(own, setting)


def _waiting(send: Callable[..., httpx.Response]) -> Callable[..., httpx.Response]:
    @wraps(send)
    def wait(self: PrefectHttpxSyncClient, request: httpx.Request, *args: Any, **kwargs: Any) -> httpx.Response:
        outage = _Outage()
        while True:
            try:
                with outage.trying():
                    return send(self, request, *args, **kwargs)
            except (httpx.TransportError, httpx.HTTPStatusError) as error:
                pause = outage.pause(error)
            time.sleep(pause)

    return wait


def _waiting_async(send: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(send)
    async def wait(self: PrefectHttpxAsyncClient, request: httpx.Request, *args: Any, **kwargs: Any) -> httpx.Response:
        outage = _Outage()
        while True:
            try:
                with outage.trying():
                    response: httpx.Response = await send(self, request, *args, **kwargs)
                    return response
            except (httpx.TransportError, httpx.HTTPStatusError) as error:
                pause = outage.pause(error)
            await asyncio.sleep(pause)

    return wait
