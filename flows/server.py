"""Which Prefect API a run talks to.

In this order: the one that the user configured (``PREFECT_API_URL`` in the environment or in a Prefect profile), if
it answers; the one that ``leadline server start`` keeps, if it is up; else a temporary one for this run alone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from evaluators.errors import LeadlineError, UsageError
from flows.server_kept import KeptServer, answers, is_loopback, running
from flows.server_temporary import PRIVATE, TemporaryServer

Kind: TypeAlias = Literal["configured", "kept", "temporary"]

CLIENT_DRAIN_S: Final = 15.0

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
    say: Callable[[str], None] = _to_stderr, *, meanwhile: Callable[[], None] = lambda: None
) -> Iterator[Api]:
    """Make a Prefect API answer for the block, and see to it that it has the whole history afterwards.

    Within the block ``PREFECT_API_URL`` names the API, for this process and for those that it starts.

    Args:
        say: Told, in one line each, what takes long or is not as configured.
        meanwhile: Called while a temporary server starts, or at once when none has to. What it raises ends the block.

    Raises:
        LeadlineError: No server answers and none can be started.
    """
    os.environ |= {name: os.environ.get(name, value) for name, value in PRIVATE.items()}
    configured = _configured_url()
    if configured and answers(configured):
        meanwhile()
        with _using(Api(configured, "configured")) as api:
            yield api
        return
    if configured:
        say(f"Prefect's API at {configured} (PREFECT_API_URL) does not answer; this run will not be recorded there.")
    kept = running()
    if kept is not None and _shares_home(kept) and answers(kept.api):
        meanwhile()
        with _using(Api(kept.api, "kept")) as api:
            yield api
        return
    say("Starting a temporary Prefect server (3 to 20 s; `leadline server start` keeps one)…")
    with TemporaryServer(_server_environment()) as server:
        meanwhile()
        try:
            with _using(Api(server.wait(), "temporary")) as api:
                yield api
        finally:
            if not server.stop():
                say("Prefect's server did not end in time: its history of this run may lack the last moments.")


@contextmanager
def lasting_api() -> Iterator[Api]:
    """Use the configured or the kept Prefect API for the block, never a temporary one.

    Raises:
        UsageError: There is none.
        LeadlineError: The configured one does not answer.
    """
    configured, kept = _configured_url(), running()
    if configured:
        if not answers(configured):
            raise LeadlineError(f"Prefect's API at {configured} (PREFECT_API_URL) does not answer.")
        api = Api(configured, "configured")
    elif kept is not None and _shares_home(kept) and answers(kept.api):
        api = Api(kept.api, "kept")
    else:
        raise UsageError(
            "There is no Prefect server to talk to.",
            hint="Set PREFECT_API_URL, or keep one on this machine: leadline server start",
        )
    os.environ |= {name: os.environ.get(name, value) for name, value in PRIVATE.items()}
    with _using(api):
        yield api


def current_api() -> Api | None:
    """Return the API that :func:`ensure_api` found for this process, or ``None`` outside of its block."""
    return _in_use[-1] if _in_use else None


def _configured_url() -> str | None:
    from prefect.settings import PREFECT_API_URL

    url = PREFECT_API_URL.value()
    return str(url) if url else None


def _shares_home(kept: KeptServer) -> bool:
    from prefect.settings import PREFECT_HOME

    return str(PREFECT_HOME.value()) == kept.prefect_home


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
