"""Choosing the Prefect API of a run.

In this order: the one that the user configured (``PREFECT_API_URL`` in the environment or in a Prefect profile), if
it answers; the one that ``leadline server start`` runs, if it is up; else a temporary one for this run alone.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Literal, Self, TypeAlias

from leadline.evaluators.core.error_codes import ErrorCode
from leadline.evaluators.core.errors import LeadlineError, UsageError
from leadline.flows.prefect_server.background import BackgroundServer, answers, is_loopback, running
from leadline.flows.prefect_server.ephemeral import TemporaryServer
from leadline.flows.prefect_server.server_settings import NO_TELEMETRY

Kind: TypeAlias = Literal["configured", "background", "temporary"]

CLIENT_DRAIN_S: Final = 15.0

CHECK_FIRST_S: Final = 2.0
"""Longest time for which the check of a request delays the start of a server; most checks take less."""

_in_use: list[Api] = []


@dataclass(frozen=True, slots=True)
class Api:
    """A Prefect API that answers.

    Attributes:
        url: Its URL, as ``PREFECT_API_URL`` takes it.
        kind: Whose server it is.
    """

    url: str
    kind: Kind


def _to_stderr(message: str) -> None:
    print(message, file=sys.stderr, flush=True)  # noqa: T201 - messages are for people


@contextmanager
def ensure_api(
    say: Callable[[str], None] = _to_stderr,
    *,
    first: Callable[[], object] = lambda: None,
    meanwhile: Callable[[], None] = lambda: None,
) -> Iterator[Api]:
    """Provide a Prefect API for the block, which has the whole history afterwards.

    Within the block ``PREFECT_API_URL`` names the API, for this process and for those that it starts.

    Args:
        say: Receives messages of one line, possibly in another thread.
        first: Checks the request before an API is looked for; what it raises ends the block. While it takes more than
            :data:`CHECK_FIRST_S`, a temporary server starts beside it.
        meanwhile: Called while a temporary server starts, or at once when none has to. What it raises ends the block.

    Raises:
        LeadlineError: No server answers and none can be started.
    """
    os.environ |= {name: os.environ.get(name, value) for name, value in NO_TELEMETRY.items()}
    with _Search(say) as search:
        first()
        found = search.result()
        meanwhile()
        if isinstance(found, Api):
            with _using(found) as api:
                yield api
            return
        try:
            with _using(Api(found.wait(), "temporary")) as api:
                yield api
        finally:
            if not found.stop():
                say("Prefect's server did not end in time: its history of this run may lack the last moments.")


class _Search(AbstractContextManager["_Search"]):
    """Finds an API that responds or starts a server: on request, or by itself after :data:`CHECK_FIRST_S`.

    A server that it started ends with the block.

    Args:
        say: See :func:`ensure_api`.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._found: Api | TemporaryServer | None = None
        self._lock = threading.Lock()
        self._timer = threading.Timer(CHECK_FIRST_S, self._ahead)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        self._timer.join()
        if isinstance(self._found, TemporaryServer):
            self._found.stop()

    def result(self) -> Api | TemporaryServer:
        """Return an API that answers, or a server that was started."""
        self._timer.cancel()
        with self._lock:
            if self._found is None:
                self._found = _api_or_server(self._say)
            return self._found

    def _ahead(self) -> None:
        with suppress(LeadlineError, OSError):  # result() tries again and raises
            self.result()


def _api_or_server(say: Callable[[str], None]) -> Api | TemporaryServer:
    configured = _configured_url()
    if configured and answers(configured):
        return Api(configured, "configured")
    if configured:
        say(f"Prefect's API at {configured} (PREFECT_API_URL) does not answer; this run will not be recorded there.")
    background = running()
    if background is not None and _shares_home(background) and answers(background.api):
        return Api(background.api, "background")
    say("Starting a temporary Prefect server (3 to 20 s; `leadline server start` starts a lasting one)…")
    return TemporaryServer(_server_environment())


@contextmanager
def lasting_api() -> Iterator[Api]:
    """Use the configured Prefect API, or that of the server in the background, for the block; never a temporary one.

    Raises:
        UsageError: There is none.
        LeadlineError: The configured one does not answer.
    """
    configured, background = _configured_url(), running()
    if configured:
        if not answers(configured):
            raise LeadlineError(
                f"Prefect's API at {configured} (PREFECT_API_URL) does not answer.", code=ErrorCode.SERVER_NONE
            )
        api = Api(configured, "configured")
    elif background is not None and _shares_home(background) and answers(background.api):
        api = Api(background.api, "background")
    else:
        raise UsageError(
            "No Prefect server is running or configured.",
            hint="Set PREFECT_API_URL, or start one on this machine: leadline server start",
            code=ErrorCode.SERVER_NONE,
        )
    os.environ |= {name: os.environ.get(name, value) for name, value in NO_TELEMETRY.items()}
    with _using(api):
        yield api


def current_api() -> Api | None:
    """Return the API that :func:`ensure_api` found for this process, or ``None`` outside of its block."""
    return _in_use[-1] if _in_use else None


def _configured_url() -> str | None:
    from prefect.settings import PREFECT_API_URL

    url = PREFECT_API_URL.value()
    return str(url) if url else None


def _shares_home(server: BackgroundServer) -> bool:
    from prefect.settings import PREFECT_HOME

    return str(PREFECT_HOME.value()) == server.prefect_home


def _server_environment() -> dict[str, str]:
    """Return the environment of a server with the settings of the user's profile, and no API but its own."""
    from prefect.settings import get_current_settings

    settings: Mapping[str, str] = get_current_settings().to_environment_variables(exclude_unset=True)
    return {name: value for name, value in {**os.environ, **settings}.items() if name != "PREFECT_API_URL"}


@contextmanager
def _using(api: Api) -> Iterator[Api]:
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with _environment({"PREFECT_API_URL": api.url, **_direct(api.url)}), temporary_settings({PREFECT_API_URL: api.url}):
        _in_use.append(api)
        try:
            yield api
        finally:
            _in_use.remove(api)
            _send_all()


def _direct(url: str) -> dict[str, str]:
    """Return the variables that keep requests to this machine from going through a proxy."""
    if not is_loopback(url):
        return {}
    exceptions = [os.environ.get("NO_PROXY") or os.environ.get("no_proxy") or "", "127.0.0.1", "localhost"]
    value = ",".join(filter(None, exceptions))
    return {"NO_PROXY": value, "no_proxy": value}


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in changes}
    os.environ |= changes
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _send_all() -> None:
    """Send the events and log lines that still wait in this process: task runs are recorded from events."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    EventsWorker.drain_all(timeout=CLIENT_DRAIN_S)
    APILogWorker.drain_all(timeout=CLIENT_DRAIN_S)
