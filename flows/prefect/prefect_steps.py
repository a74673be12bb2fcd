"""Running jobs as Prefect flows, their steps as tasks, and keeping a job where the server that records it goes away."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar, cast
from uuid import UUID

import httpx
from prefect import Flow, get_run_logger, task
from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import StateDetails
from prefect.context import FlowRunContext
from prefect.events import emit_event
from prefect.runtime import flow_run, task_run
from prefect.states import Completed
from prefect.task_runners import ThreadPoolTaskRunner
from pydantic import BaseModel

from leadline.evaluators.ground import masked
from leadline.evaluators.ground.errors import without_secrets_in_errors
from leadline.flows.prefect.outside_requests import check_request
from leadline.flows.prefect.server_outage import interruption, outlast_outages
from leadline.flows.shared.history import Logger
from leadline.flows.shared.job import C, Job, JobSteps, K, R, S

P = ParamSpec("P")
T = TypeVar("T")

UNREACHABLE: Final = (httpx.TransportError, httpx.HTTPStatusError)
"""Errors of Prefect's client when its server is gone or refuses."""

_log: Final = logging.getLogger(__name__)

_RUNNER: Final[Any] = ThreadPoolTaskRunner(max_workers=260)
"""One thread per chunk that may be waiting; the lanes bound what is in work."""


class TaskSteps(JobSteps):
    """Runs each step as a Prefect task of the flow that runs in this thread, drawn after the step before it.

    Args:
        **about: What steps are about, by their names, as the names of their task runs say it: ``load="answers.json"``.
    """

    def __init__(self, **about: str) -> None:
        super().__init__(about=about)
        self.before: Sequence[Any] = ()
        self._log = get_run_logger()

    @property
    def log(self) -> Logger:
        """The flow run's log."""
        return self._log

    def origin(self) -> Mapping[str, str]:
        """Return the id of the outermost flow run, by which what is in the store is found again."""
        with history_may_fail():
            return {"flow_run": str(flow_run.root_flow_run_id or "")}
        return {}

    def step(self, name: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a step as a task that takes and returns paths and counts."""
        label = masked(f"{name} {self._about.get(name, '')}".rstrip())

        # The task has no parameters: Prefect would walk through them, and draw an edge from where each was first seen.
        def run() -> T:
            self.come_after([task_run.id])
            return function(*args, **kwargs)

        as_task = task(name=name, task_run_name=lambda: label, cache_policy=NO_CACHE, persist_result=False)
        return as_task(reporting_no_secrets(run))(wait_for=self.before)

    def run_job(self, job: Job[C, Any, Any, R], config: C) -> R:
        """Run another job as a flow of its own, drawn as a step."""
        run_after: Any = flow_of(job)  # whose type knows no wait_for
        result: R = run_after(config, wait_for=self.before)
        self.before = [result]  # Prefect knows of which flow run it is
        return result

    def come_after(self, task_runs: Iterable[UUID | str]) -> None:
        """Have the next step drawn after task runs.

        Args:
            task_runs: Their ids; with none, it is drawn after what the last one was.
        """
        done: list[Any] = [Completed(data=True, state_details=StateDetails(task_run_id=id_)) for id_ in task_runs]
        self.before = done or self.before

    def show(self, key: str, text: str, description: str) -> None:
        """Publish a text as an artifact."""
        with history_may_fail():
            create_markdown_artifact(masked(text), key=key, description=masked(description))

    def table(self, key: str, lines: Sequence[Mapping[str, Any]], description: str) -> None:
        """Publish a table as an artifact."""
        with history_may_fail():
            create_table_artifact(list(map(dict, lines)), key=key, description=masked(description))

    def link(self, key: str, address: str, text: str, description: str) -> None:
        """Publish a link as an artifact."""
        with history_may_fail():
            create_link_artifact(address, link_text=text, key=key, description=masked(description))

    def emit(self, event: str, resource: Mapping[str, str], payload: Mapping[str, Any]) -> None:
        """Send an event."""
        with history_may_fail():
            emit_event(event=event, resource=dict(resource), payload=dict(payload))


def reporting_no_secrets(function: Callable[P, T]) -> Callable[P, T]:
    """Return a function whose errors hold no secrets, as Prefect writes them into states and logs."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
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


@dataclass
class _HandOver:
    """A job that this process runs as a flow, with what its check found; the flow's parameters are its form alone.

    Attributes:
        results: Outcome of the flow, once there is one, for the case that the server cannot be told.
    """

    config: Any
    checked: Any
    results: list[Any] = field(default_factory=list)


_handed_over: ContextVar[_HandOver | None] = ContextVar("handed_over", default=None)


def is_from_outside() -> bool:
    """Return whether the flow that runs here was started as a deployment: by a form, a schedule, an event, the API.

    A flow that another one runs was checked with that one.
    """
    context = FlowRunContext.get()
    return context is not None and context.flow_run is not None and context.flow_run.deployment_id is not None


class _JobFlow(Flow[P, R]):
    """A flow whose parameter is the form of a job.

    Prefect's own ways of checking and writing parameters import Pydantic 1 and FastAPI, a third of a second, for what
    a form does by itself.
    """

    def validate_parameters(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters; those that are no forms yet, as Prefect's UI sends them, are made forms."""
        if all(isinstance(value, BaseModel) for value in parameters.values()):
            return parameters
        return super().validate_parameters(parameters)

    def serialize_parameters(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters as JSON."""
        if all(isinstance(value, BaseModel) for value in parameters.values()):
            return {name: form.model_dump(mode="json", by_alias=True) for name, form in parameters.items()}
        return super().serialize_parameters(parameters)


def flow_of(job: Job[C, K, S, R]) -> Flow[[C], R]:
    """Return a job as a Prefect flow."""
    outlast_outages()

    def run(config: Any) -> Any:
        if is_from_outside():
            check_request(job, config)
        steps = job.task_steps(config) or cast("S", TaskSteps(**job.about(config)))
        handed = _handed_over.get()
        if handed is None or handed.config != config:  # a worker runs it, or another flow
            return reporting_no_secrets(job.carry_out)(config, steps)
        handed.results.append(reporting_no_secrets(job.carry_out)(config, steps, handed.checked))
        return handed.results[0]

    def run_name() -> str:
        config = flow_run.parameters.get("config")
        return job.run_name(config) if isinstance(config, job.Config) else job.name

    run.__doc__ = job.run.__doc__  # which describes the form
    run.__annotations__ = {"config": job.Config}
    description = " ".join(str(job.__doc__).partition("\n\n")[0].split())
    made: Flow[[C], R] = _JobFlow(
        run, name=job.name, description=description, flow_run_name=run_name, task_runner=_RUNNER, persist_result=False
    )
    return made


def recorded_by_engine(job: Job[C, K, S, R], config: C, checked: K) -> R:
    """Run a job as a flow; where only its server fails, return what it found, or do its work without Prefect."""
    handed = _HandOver(config, checked)
    before = _handed_over.set(handed)
    try:
        return flow_of(job)(config)
    except Exception as error:
        if not _is_unreachable(error):
            raise
        if (stopped := interruption(error)) is not None:
            raise stopped from None  # the server could not be told; nobody wants the work done after all
        _log.warning("Prefect's server is gone: this run's history there is incomplete (%s)", type(error).__name__)
        # What the flow has stored is reused.
        return (
            cast("R", handed.results[0]) if handed.results else job.carry_out(config, job.plain_steps(config), checked)
        )
    finally:
        _handed_over.reset(before)


def _is_unreachable(error: Exception) -> bool:
    """Return whether an error is that of a server that is away; on the first contact it is a plain ``RuntimeError``."""
    return isinstance(error, UNREACHABLE) or (
        isinstance(error, RuntimeError) and str(error).startswith("Failed to reach API")
    )
