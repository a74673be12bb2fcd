"""Settings that all of Leadline's Prefect servers share."""

from __future__ import annotations

from typing import Final

START_TIMEOUT_S: Final = 90.0
"""Prefect's own limit is 20 s, which a first start with its migrations reaches on a slow machine."""

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

NO_TELEMETRY: Final = {"PREFECT_SERVER_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "1"}
"""Settings that turn off Prefect's telemetry."""
