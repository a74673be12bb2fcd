"""Choosing the Prefect API of a run: the one that is configured, else the kept server of this machine, else none.

Nothing here starts a server. A run that has none takes the same steps in its own process: it lacks nothing but a
history, and one line says how to keep one.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Literal

from leadline.evaluators.ground import FILE, ErrorCode, LeadlineError, UsageError, settings_table
from leadline.flows.prefect.background import answers, is_loopback, running
from leadline.flows.prefect.prefect_settings import NO_TELEMETRY, configured_api
from leadline.tasks.ground.outages import server_wait_s
from leadline.tasks.ground.timeline import in_step

if TYPE_CHECKING:
    from prefect.settings.legacy import Setting

CLIENT_DRAIN_S: Final = 15.0
"""Seconds for which a run's last events and log lines are sent, at most."""

GONE_DRAIN_S: Final = 0.5
"""The same, to a server that does not answer: it was killed, and is not waited for."""

NO_SERVER: Final = "No Prefect server: this run is not in a UI. Start one with: leadline service server start"


class ServerUse(StrEnum):
    """Choice of a run: the Prefect server that there is, or none."""

    AUTO = "auto"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Api:
    """A Prefect API that answers.

    Attributes:
        url: Its URL, as ``PREFECT_API_URL`` takes it.
        kind: Whose server it is.
    """

    url: str
    kind: Literal["configured", "kept"]


def chosen_server(option: str | None = None) -> ServerUse:
    """Return whether a run uses a server: what was said, else the one that there is.

    Args:
        option: Value of ``--server``; comes before ``$LEADLINE_SERVER`` and ``[server]`` of ``leadline.toml``.

    Raises:
        UsageError: There is no such choice.
    """
    for source, value in (
        ("--server", option),
        ("LEADLINE_SERVER", os.environ.get("LEADLINE_SERVER")),
        (f"{FILE}, [server] use", settings_table("server", ("use",)).get("use")),
    ):
        if value:
            try:
                return ServerUse(str(value))
            except ValueError:
                raise UsageError(
                    f"{source}: {str(value)[:40]!r} is not {' or '.join(ServerUse)}.", code=ErrorCode.CONFIG_OPTION
                ) from None
    return ServerUse.AUTO


def _to_stderr(message: str) -> None:
    print(message, file=sys.stderr, flush=True)  # noqa: T201 - messages are for people


@contextmanager
def ensure_api(say: Callable[[str], None] = _to_stderr, use: ServerUse | None = None) -> Iterator[Api | None]:
    """Provide the Prefect API that there is for the block, or ``None``.

    Within the block ``PREFECT_API_URL`` names the API, for this process and for those that it starts.

    Args:
        say: Receives messages of one line.
        use: Whether to use one; by default what the environment and ``leadline.toml`` say.
    """
    wait_s = server_wait_s()
    with in_step("server"):
        found = None if (use or chosen_server()) is ServerUse.NONE else _find()
    if isinstance(found, Api):
        # Nobody starts a kept server again: where it was killed, the run goes on without it.
        with _using(found, wait_s if found.kind == "configured" else 0):
            yield found
        return
    if found:
        say(f"{found}: this run is not recorded there.")
    elif found is not None and not _on_ci():
        say(NO_SERVER)
    yield None


@contextmanager
def lasting_api() -> Iterator[Api]:
    """Use the Prefect API that there is for the block.

    Raises:
        UsageError: There is none.
        LeadlineError: It does not answer.
    """
    found = _find()
    if isinstance(found, Api):
        with _using(found, server_wait_s()):
            yield found
    elif found:
        raise LeadlineError(f"{found}.", code=ErrorCode.SERVER_NONE)
    else:
        raise UsageError(
            "No Prefect server is running or configured.",
            hint="Set PREFECT_API_URL, or start one on this machine: leadline service server start",
            code=ErrorCode.SERVER_NONE,
        )


def _find() -> Api | str:
    """Return the API that answers, or why it cannot be used; the empty text where there is none."""
    if configured := configured_api():
        if answers(configured):
            return Api(configured, "configured")
        return f"Prefect's API at {configured} (PREFECT_API_URL) does not answer"
    kept = running()
    if kept is None:
        return ""
    return kept.problem() or Api(kept.api, "kept")


def _on_ci() -> bool:
    """Return whether nobody looks at a UI of this machine."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false", "no", "off")


@contextmanager
def _using(api: Api, wait_s: float) -> Iterator[None]:
    """Let Prefect use an API within the block, and send it all that is to be recorded at its end."""
    from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings

    from leadline.flows.prefect.server_outage import outlast_outages, waiting

    outlast_outages()
    changes: dict[Setting, Any] = {PREFECT_API_URL: api.url} | ({} if wait_s else {PREFECT_CLIENT_MAX_RETRIES: 1})
    quiet = {name: os.environ.get(name, value) for name, value in NO_TELEMETRY.items()}
    variables = {"PREFECT_API_URL": api.url, **_direct(api.url), **quiet}
    with _environment(variables), temporary_settings(changes), waiting(wait_s):
        try:
            yield
        finally:
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
