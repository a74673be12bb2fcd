"""Log records and uncaught errors without secrets, whoever writes and whoever receives them."""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from leadline.evaluators.ground.error_codes import ErrorCode
from leadline.evaluators.ground.errors import LeadlineError
from leadline.evaluators.ground.secret_values import clean_error, masked

_installed = False


def mask_logs() -> None:
    """Make this process's log records without secrets from now on, and print uncaught errors without them."""
    global _installed
    if _installed:
        return
    _installed = True
    make = logging.getLogRecordFactory()

    def record(*args: Any, **kwargs: Any) -> logging.LogRecord:
        return _masked(make(*args, **kwargs))

    logging.setLogRecordFactory(record)
    sys.excepthook = _print
    threading.excepthook = _print_of_thread


@contextmanager
def without_secrets_in_errors() -> Iterator[None]:
    """Let errors leave the block without secrets, since others write them down: Prefect in states, asyncio in logs."""
    mask_logs()
    try:
        yield
    except BaseException as error:
        if not clean_error(error):
            raise LeadlineError(f"{type(error).__name__}: {error}", code=ErrorCode.RUN_UNEXPECTED) from None
        raise


def masked_traceback(error: BaseException) -> str:
    """Return an error with its traceback, without secrets."""
    return masked("".join(traceback.format_exception(error)))


def _masked(record: logging.LogRecord) -> logging.LogRecord:
    try:
        said = record.getMessage()
    except Exception:  # a message that does not fit its arguments; the handler says so
        return record
    hidden = masked(said)
    if hidden != said:
        record.msg, record.args = hidden, None
    if record.exc_info and record.exc_info[1] is not None:
        record.exc_text = masked_traceback(record.exc_info[1]).rstrip("\n")
    return record


def _print(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    sys.stderr.write(masked("".join(traceback.format_exception(kind, error, trace))))


def _print_of_thread(failed: threading.ExceptHookArgs) -> None:
    if failed.exc_value is None or issubclass(failed.exc_type, SystemExit):
        return
    name = failed.thread.name if failed.thread else "?"
    sys.stderr.write(f"Exception in thread {name}:\n{masked_traceback(failed.exc_value)}")
