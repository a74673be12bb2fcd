"""Choosing the Prefect API of a run.

In this order: the one that the user configured (``PREFECT_API_URL`` in the environment or in a Prefect profile), if it
answers; then, as the user chose, the kept server, which is started where there is none, a temporary one for this run
alone, or none. Where no server can be had in time, the run goes on without one: it lacks nothing but a history.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from leadline.evaluators.ground.error_codes import ErrorCode
from leadline.evaluators.ground.errors import LeadlineError, UsageError
from leadline.flows.prefect import background
from leadline.flows.prefect.background import answers, is_loopback, running
from leadline.flows.prefect.choice import Choice, ServerUse, chosen_server, idle_minutes
from leadline.flows.prefect.ephemeral import TemporaryServer
from leadline.flows.prefect.prefect_settings import configured_api
from leadline.flows.prefect.server_settings import NO_TELEMETRY
from leadline.tasks.ground.outages import server_wait_s
from leadline.tasks.ground.timeline import in_step

if TYPE_CHECKING:
    from prefect.settings.legacy import Setting

Kind: TypeAlias = Literal["configured", "background", "temporary"]

CLIENT_DRAIN_S: Final = 15.0
"""Seconds for which a run's last events and log lines are sent, at most."""

GONE_DRAIN_S: Final = 0.5
"""The same, to a server that does not answer: it was killed, and is not waited for."""

_in_use: list[Api] = []


@dataclass(frozen=True, slots=True)
class Api:
    """A Prefect API that answers.

    Attributes:
        url: Its URL, as ``PREFECT_API_URL`` takes it.
        kind: Whose server it is.
        services: Whether it serves deployments, too.
    """

    url: str
    kind: Kind
    services: bool = True


def _to_stderr(message: str) -> None:
    print(message, file=sys.stderr, flush=True)  # noqa: T201 - messages are for people


@contextmanager
def ensure_api(
    say: Callable[[str], None] = _to_stderr,
    *,
    choice: Choice | None = None,
    first: Callable[[], object] = lambda: None,
    meanwhile: Callable[[], None] = lambda: None,
) -> Iterator[Api | None]:
    """Provide a Prefect API for the block, or ``None`` where the run is to do without.

    Within the block ``PREFECT_API_URL`` names the API, for this process and for those that it starts. A server that
    has to be started starts first, beside the checks.

    Args:
        say: Receives messages of one line.
        choice: Which server to use; by default what the environment and ``leadline.toml`` say.
        first: Checks the request; what it raises ends the block.
        meanwhile: Called while a server starts, unless the run does without. What it raises ends the block.
    """
    os.environ |= {name: os.environ.get(name, value) for name, value in NO_TELEMETRY.items()}
    server_wait_s()  # refuses one that cannot be read
    choice = choice or chosen_server()
    with ExitStack() as stack:
        found = _begin(choice, say, stack)
        first()
        if found is None:
            yield None
            return
        meanwhile()
        try:
            with in_step("server"):
                api = found()
        except LeadlineError as error:
            say(f"{error} This run is done without Prefect, and has no history there.")
            api = None
        if api is None:
            stack.close()
            yield None
            return
        with _using(api):
            yield api


def _begin(choice: Choice, say: Callable[[str], None], stack: ExitStack) -> Callable[[], Api] | None:
    """Begin to look for an API, and return what waits for it; ``None`` where there is to be none."""
    if choice.use == ServerUse.NONE and choice.stated:
        return None
    configured = configured_api()
    if configured and answers(configured):
        return lambda: Api(configured, "configured")
    if configured:
        say(f"Prefect's API at {configured} (PREFECT_API_URL) does not answer; this run will not be recorded there.")
    if choice.use == ServerUse.NONE:
        return None
    if choice.use == ServerUse.TEMPORARY:
        server = TemporaryServer(os.environ)
        stack.callback(_end, server, say)
        return lambda: Api(server.wait(), "temporary", services=False)
    return _kept(say, stack)


def _end(server: TemporaryServer, say: Callable[[str], None]) -> None:
    if not server.stop():
        say("Prefect's server did not end in time: its history of this run may lack the last moments.")


def _kept(say: Callable[[str], None], stack: ExitStack) -> Callable[[], Api]:
    """Begin to use the kept server, starting it if need be."""
    idle = idle_minutes()
    background.launch(idle_minutes=idle)

    def wait() -> Api:
        stack.enter_context(background.use())
        background.launch(idle_minutes=idle)  # it may have ended meanwhile
        try:
            kept = background.wait()
        except LeadlineError:
            if not background.launch(idle_minutes=idle):
                raise
            kept = background.wait()  # another command's, which died as it started
        ours = background.prefect_version()
        if kept.prefect != ours:
            raise LeadlineError(
                f"The kept Prefect server is of version {kept.prefect}, and this is {ours}.",
                hint="End it: leadline server stop",
                code=ErrorCode.SERVER_NONE,
            )
        if background.started_here(kept):
            end = (
                "stays until it is stopped"
                if kept.idle_minutes is None
                else f"ends {kept.idle_minutes:g} min after its last use"
            )
            say(f"A Prefect server was started for this and further commands: {kept.url}. It {end}.")
        return Api(kept.api, "background", services=kept.services == "all")

    return wait


@contextmanager
def lasting_api() -> Iterator[Api]:
    """Use the configured Prefect API, or that of a kept server with all services, for the block.

    Raises:
        UsageError: There is none.
        LeadlineError: The configured one does not answer.
    """
    configured, kept = configured_api(), running()
    if configured:
        if not answers(configured):
            raise LeadlineError(
                f"Prefect's API at {configured} (PREFECT_API_URL) does not answer.", code=ErrorCode.SERVER_NONE
            )
        api = Api(configured, "configured")
    elif kept is not None and kept.services == "all" and answers(kept.api):
        api = Api(kept.api, "background")
    else:
        raise UsageError(
            "No Prefect server that serves deployments is running or configured.",
            hint="Set PREFECT_API_URL, or start one on this machine: leadline server start",
            code=ErrorCode.SERVER_NONE,
        )
    os.environ |= {name: os.environ.get(name, value) for name, value in NO_TELEMETRY.items()}
    with _using(api):
        yield api


def current_api() -> Api | None:
    """Return the API that :func:`ensure_api` found for this process, or ``None`` outside of its block."""
    return _in_use[-1] if _in_use else None


@contextmanager
def _using(api: Api) -> Iterator[Api]:
    from prefect.settings import (
        PREFECT_API_URL,
        PREFECT_CLIENT_MAX_RETRIES,
        PREFECT_FLOWS_HEARTBEAT_FREQUENCY,
        temporary_settings,
    )

    from leadline.flows.prefect.server_outage import outlast_outages, waiting

    outlast_outages()
    changes: dict[Setting, Any] = {PREFECT_API_URL: api.url}
    if not api.services:
        # Nobody looks at heartbeats there, and ending them takes up to a second. A server that was killed is not
        # waited for: the run goes on without it.
        changes |= {PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None, PREFECT_CLIENT_MAX_RETRIES: 1}
    patience = waiting(server_wait_s() if api.services else 0)
    with _environment({"PREFECT_API_URL": api.url, **_direct(api.url)}), temporary_settings(changes), patience:
        _in_use.append(api)
        try:
            yield api
        finally:
            _in_use.remove(api)
            with in_step("history"):
                _send_all(api.url)


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


def _send_all(url: str) -> None:
    """Send the events and log lines that still wait in this process: task runs are recorded from events."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    longest = CLIENT_DRAIN_S if answers(url) else GONE_DRAIN_S

    def send() -> None:
        EventsWorker.drain_all(timeout=longest)
        APILogWorker.drain_all(timeout=longest)

    thread = threading.Thread(target=send)  # beside a running event loop Prefect would not wait, but return coroutines
    thread.start()
    thread.join()
