"""Settings that all of Leadline's Prefect servers share."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, TypeAlias

Services: TypeAlias = Literal["runs", "all"]
"""Work of a server beside answering: to record runs, or also to schedule, trigger and clean up for deployments."""

START_TIMEOUT_S: Final = 90.0
"""Prefect's own limit is 20 s, which a first start with its migrations reaches on a slow machine."""

DRAIN_TIMEOUT_S: Final = 15.0
"""How long a server that is to end writes what it has received."""

READY: Final = "ready "
"""Beginning of the line in which a temporary server says where it is."""

START_LOCK: Final = "leadline-start.lock"
"""File in ``PREFECT_HOME``, locked while a server starts: two that create one database at once break each other."""

BATCHED_WRITES: Final = {
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "200",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "200",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_READ_BATCH_SIZE": "200",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_BATCH_SIZE": "200",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_FLUSH_INTERVAL": "1",
}
"""Settings with which the server writes task runs and events in batches: hundreds a second instead of some 30."""

RETENTION: Final = {
    "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs",
    "PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD": str(90 * 86_400),
    "PREFECT_SERVER_EVENTS_RETENTION_PERIOD": "P30D",
}
"""Settings with which the server deletes, every hour, flow runs (with their task runs, logs and artifacts) that ended
more than so many seconds ago, and events older than 30 days. The environment may say otherwise."""

NO_TELEMETRY: Final = {"PREFECT_SERVER_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "1"}
"""Settings that turn off Prefect's telemetry."""

RUNS_ONLY: Final = {"PREFECT_API_BLOCKS_REGISTER_ON_START": "false"} | {
    f"PREFECT_SERVER_SERVICES_{service}_ENABLED": "false"
    for service in (
        *("SCHEDULER", "LATE_RUNS", "CANCELLATION_CLEANUP", "PAUSE_EXPIRATIONS", "REPOSSESSOR", "CLEANUP_RECONCILER"),
        *("FOREMAN", "TRIGGERS"),
    )
}
"""Settings that leave out the services that only deployments, automations and workers need."""


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """The way in which a server process is to serve.

    Attributes:
        log: The log that its output goes to.
        services: What it does beside answering.
        port: Its port; 0 for any free one.
        or_any_port: Take another port where that one is taken.
        record: File that says where the server is while it answers; ``None`` for a temporary server, which says it on
            standard output and ends with its standard input.
        users: File that is locked by those who use a kept server.
        idle_s: Seconds without a request after which it ends; ``None`` for never.
        about: Further entries of the record.
    """

    log: str
    services: Services = "runs"
    port: int = 0
    or_any_port: bool = True
    record: str | None = None
    users: str | None = None
    idle_s: float | None = None
    about: dict[str, Any] | None = None

    def command(self) -> list[str]:
        """Return the command that does it; files such as secrets.py in the working directory shadow no library."""
        return [sys.executable, "-P", "-m", "leadline.flows.prefect.serving", json.dumps(asdict(self))]
