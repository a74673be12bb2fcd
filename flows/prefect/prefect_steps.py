"""Running the steps of a job as Prefect tasks, and keeping the job where the server that records it goes away."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar
from uuid import UUID

import httpx
from prefect import Flow, get_run_logger, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import StateDetails
from prefect.runtime import task_run
from prefect.states import Completed

from leadline.evaluators.ground.log_masking import without_secrets_in_errors
from leadline.evaluators.ground.secret_values import masked
from leadline.flows.prefect.server_outage import interruption
from leadline.flows.shared.plain_steps import Logger

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")

UNREACHABLE: Final = (httpx.TransportError, httpx.HTTPStatusError)
"""Errors of Prefect's client when its server is gone or refuses."""

_log: Final = logging.getLogger(__name__)
_finished: ContextVar[list[Any] | None] = ContextVar("finished", default=None)


class TaskSteps:
    """Runs each step as a Prefect task of the flow that runs in this thread, drawn after the step before it.

    Args:
        **about: What steps are about, by their names, as the names of their task runs say it: ``load="answers.json"``.
    """

    def __init__(self, **about: str) -> None:
        self.log: Logger = get_run_logger()
        self.before: Sequence[Any] = ()
        self._about = about

    def step(self, name: str, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a step as a task that takes and returns paths and counts.

        Args:
            name: Name of the task.
            function: The step.
            **kwargs: Its keyword arguments.
        """
        label = masked(f"{name} {self._about.get(name, '')}".rstrip())

        # The task has no parameters: Prefect would walk through them, and draw an edge from where each was first seen.
        def run() -> R:
            self.come_after([task_run.id])
            return function(*args, **kwargs)

        as_task = task(name=name, task_run_name=lambda: label, cache_policy=NO_CACHE, persist_result=False)
        return as_task(reporting_no_secrets(run))(wait_for=self.before)

    def subflow(self, flow: Flow[[C], R]) -> Callable[[C], R]:
        """Return what runs a flow as a step."""

        def run(config: C) -> R:
            run_after: Any = flow  # whose type knows no wait_for
            result: R = run_after(config, wait_for=self.before)
            self.before = [result]  # Prefect knows of which flow run it is
            return result

        return run

    def come_after(self, task_runs: Iterable[UUID | str]) -> None:
        """Have the next step drawn after task runs.

        Args:
            task_runs: Their ids; with none, it is drawn after what the last one was.
        """
        done: list[Any] = [Completed(data=True, state_details=StateDetails(task_run_id=id_)) for id_ in task_runs]
        self.before = done or self.before

    def show(self, key: str, text: str, description: str) -> None:
        """Publish a text as an artifact.

        Args:
            key: Key of the artifact.
            description: What it is about.
        """
        with history_may_fail():
            create_markdown_artifact(masked(text), key=key, description=masked(description))


def reporting_no_secrets(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function whose errors hold no secrets, as Prefect writes them into states and logs."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with without_secrets_in_errors():
            return function(*args, **kwargs)

    return run


@contextmanager
def history_may_fail() -> Iterator[None]:
    """Let the run go on where the block cannot reach the server that records it."""
    try:
        yield
    except Exception as error:
        if not _is_unreachable(error):
            raise
        _log.warning("Prefect's server does not record all of this run: %s", type(error).__name__)


def recorded(flow: Callable[[C], R], config: C, plainly: Callable[[C], R]) -> R:
    """Run a flow; where only its server fails, return what it found, or do its work without Prefect.

    Args:
        flow: The flow, which hands its result to :func:`finished`.
        config: Its parameter.
        plainly: Does the same without Prefect; what the flow has stored is reused.
    """
    results: list[R] = []
    _finished.set(results)
    try:
        return flow(config)
    except Exception as error:
        if not _is_unreachable(error):
            raise
        if (stopped := interruption(error)) is not None:
            raise stopped from None  # the server could not be told; nobody wants the work done after all
        _log.warning("Prefect's server is gone: this run's history there is incomplete (%s)", type(error).__name__)
        return results[0] if results else plainly(config)
    finally:
        _finished.set(None)


def finished(result: R) -> R:
    """Return a flow's result, after keeping it for the case that the server cannot be told.

    Args:
        result: What the flow found.
    """
    results = _finished.get()
    if results is not None:
        results.append(result)
    return result


def _is_unreachable(error: Exception) -> bool:
    """Return whether an error is that of a server that is away; on the first contact it is a plain ``RuntimeError``."""
    return isinstance(error, UNREACHABLE) or (
        isinstance(error, RuntimeError) and str(error).startswith("Failed to reach API")
    )
