"""The context of log lines: the run that a thread is at, and the evaluator that scores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

run: ContextVar[str] = ContextVar("log_run", default="")
evaluator: ContextVar[str] = ContextVar("log_evaluator", default="")


@contextmanager
def logged_as(variable: ContextVar[str], value: str) -> Iterator[None]:
    """Let log lines of the block say the run, or the evaluator, that they belong to."""
    before = variable.set(value)
    try:
        yield
    finally:
        variable.reset(before)
