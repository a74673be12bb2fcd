"""Logs: lines as JSON, and files in the user's folder, of servers and of failures.

With ``LEADLINE_LOG_FORMAT=json`` each line on standard error is one object. Its fields are ``time`` (ISO 8601, UTC),
``level``, ``logger``, ``run``, ``evaluator`` and ``message``; ``error`` has the type of an exception, and ``flow_run``
the name of Prefect's flow run. Fields that are not known are left out. No message holds a key, and none is longer than
:data:`LONGEST`.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from leadline.evaluators.ground import ErrorCode, UsageError, without_secrets
from leadline.tasks.ground import log_context
from leadline.tasks.ground.files import state_folder

VARIABLE: Final = "LEADLINE_LOG_FORMAT"
FORMATS: Final = ("plain", "json")
LONGEST: Final = 4_000

CONSOLE_VARIABLE: Final = "PREFECT_LOGGING_HANDLERS_CONSOLE_CLASS"
CONSOLE: Final = "leadline.deployments.orphan_log.OrphanConsoleHandler"
"""Prefect's handler for the terminal, which writes JSON where it is asked for."""


def wants_json() -> bool:
    """Return whether log lines are to be JSON.

    Raises:
        UsageError: The variable names another format.
    """
    named = os.environ.get(VARIABLE) or "plain"
    if named not in FORMATS:
        raise UsageError(
            f"{VARIABLE}={named[:40]!r} is no format of logs.",
            hint="There are plain and json.",
            code=ErrorCode.CONFIG_VARIABLE,
        )
    return named == "json"


def prefect_environment() -> dict[str, str]:
    """Return the settings with which Prefect's processes write the log lines that are wanted."""
    return {CONSOLE_VARIABLE: CONSOLE} if wants_json() else {}


class JsonLines(logging.Formatter):
    """Formats records as JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one line."""
        error = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else ""
        flow_run = str(getattr(record, "flow_run_name", "") or "")
        return json_line(
            record.getMessage(), record.levelname, record.name, created=record.created, error=error, flow_run=flow_run
        )


def json_line(message: str, level: str, logger: str, *, created: float | None = None, **more: str) -> str:
    """Return one line of JSON.

    Args:
        level: Its level, in any case.
        created: When, in seconds since 1970; now if it is not given.
        **more: Further fields; empty ones are left out.
    """
    when = datetime.now(UTC) if created is None else datetime.fromtimestamp(created, UTC)
    fields = {
        "time": when.isoformat(timespec="milliseconds"),
        "level": level.lower(),
        "logger": logger,
        "run": log_context.run.get(),
        "evaluator": log_context.evaluator.get(),
        **more,
        "message": without_secrets(message, longest=LONGEST),
    }
    return json.dumps({name: value for name, value in fields.items() if value}, ensure_ascii=True)


def log_to_stderr(logger: str, level: int = logging.INFO) -> None:
    """Write a server's log to standard error, in the format that is wanted.

    Args:
        level: The least level that it writes; others write warnings.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if wants_json() else logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    logging.getLogger(logger).setLevel(level)


def new_log(name: str) -> Path:
    """Return the path of a new log file of this process; the file does not exist yet."""
    return log_folder() / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"


def log_folder() -> Path:
    """Return the folder of log files, made if need be."""
    folder = state_folder() / "logs"
    folder.mkdir(exist_ok=True, mode=0o700)
    return folder


def tail(log: Path, lines: int = 5) -> str:
    """Return the last lines of a log that are not blank, joined by ``|``."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    filled = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(filled[-lines:])
