"""Prefect's settings: what Leadline's servers have in common, and what the user says, read without importing Prefect.

A command decides about a server before Prefect is imported, which takes most of a second. The sources and their order
are Prefect's own: the environment, ``.env``, ``prefect.toml`` and ``pyproject.toml`` in the working directory, and the
active profile.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

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


def prefect_home() -> Path:
    """Return the folder with Prefect's database and profiles."""
    return Path(_setting("PREFECT_HOME", "home") or Path.home() / ".prefect").expanduser().absolute()


def configured_api() -> str | None:
    """Return the API that the user configured, ``None`` without one."""
    return _setting("PREFECT_API_URL", "api", "url") or None


def _setting(name: str, *path: str) -> str | None:
    if os.environ.get(name):
        return os.environ[name]
    sources: tuple[Callable[[], Any], ...] = (
        lambda: _dotenv().get(name),
        lambda: _at(_table(Path("prefect.toml")), *path),
        lambda: _at(_table(Path("pyproject.toml")), "tool", "prefect", *path),
        lambda: _at(_profile(), name),
    )
    return next((str(value) for source in sources if (value := source())), None)


def _profile() -> Mapping[str, Any]:
    """Return the settings of the active profile."""
    place = _dotenv().get("PREFECT_PROFILES_PATH") or _at(_table(Path("prefect.toml")), "profiles_path")
    home = os.environ.get("PREFECT_HOME") or Path.home() / ".prefect"
    file = Path(os.environ.get("PREFECT_PROFILES_PATH") or place or Path(home, "profiles.toml"))
    profiles = _table(file)
    active = os.environ.get("PREFECT_PROFILE") or profiles.get("active")
    found = _at(profiles, "profiles", str(active))
    return found if isinstance(found, dict) else {}


def _dotenv() -> Mapping[str, str | None]:
    if not Path(".env").is_file():
        return {}
    import dotenv

    return dotenv.dotenv_values(".env")


def _table(file: Path) -> Mapping[str, Any]:
    """Return what a TOML file contains; nothing where Prefect too will say what is wrong with it."""
    import tomllib

    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return {}


def _at(table: Mapping[str, Any], *path: str) -> Any:
    found: Any = table
    for part in path:
        found = found.get(part) if isinstance(found, Mapping) else None
    return found
