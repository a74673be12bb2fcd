"""A job is written once: its Prefect flow, its command and the call from Python are made of it.

What was checked travels. A command checks before it looks for a server and hands on what that found, so that nothing is
loaded or prepared twice; a flow that a worker runs, in another process, checks itself. Nothing here imports Prefect:
:mod:`leadline.flows.prefect.prefect_steps` makes flows of jobs.

Beside it is what jobs share: their progress, for whoever runs them in this process, how their dataset is read, and
which file they write.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, ParamSpec, Protocol, TypeAlias, TypeVar, cast

from leadline.evaluators.ground import ErrorCode, UsageError, from_home
from leadline.flows.shared.history import NO_HISTORY, History, Logger
from leadline.tasks.load.columns import ColumnMap, project_map

if TYPE_CHECKING:
    from pydantic import BaseModel


@dataclass(frozen=True, slots=True)
class ProgressEvent:
    """Progress of a flow.

    Attributes:
        step: Name of the step: load, plan, score, gather, aggregate, flips, changes, problems, insights, publish.
        lane: Lane of a scoring step, model of a collecting one, ``""`` for the others.
        done: Row scores done in this lane, cases put to this model, or 0 and 1 for a step that starts and ends.
        total: Row scores to compute in this lane, cases of the suite, or 1.
    """

    step: str
    lane: str
    done: int
    total: int


Listener: TypeAlias = Callable[[ProgressEvent], None]

_listeners: list[Listener] = []


@contextmanager
def reporting(listener: Listener) -> Iterator[None]:
    """Send the progress of flows that run in this process to a listener."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def report(step: str, lane: str = "", done: int = 0, total: int = 1) -> None:
    """Send progress to all listeners."""
    event = ProgressEvent(step, lane, done, total)
    for listener in list(_listeners):
        listener(event)


P = ParamSpec("P")
T = TypeVar("T")


class JobForm(Protocol):
    """The settings of a job."""

    @property
    def store(self) -> str | None:
        """Place of the store, or ``None`` for the usual one."""


C = TypeVar("C", bound=JobForm)
K = TypeVar("K")
S = TypeVar("S", bound="JobSteps")
R = TypeVar("R", bound="BaseModel")


class JobSteps:
    """Runs the steps of a job in this process, and tells its history of them.

    :class:`~leadline.flows.prefect.prefect_steps.TaskSteps` makes Prefect tasks of them.

    Args:
        about: What steps are about, by their names, as the names of their task runs say it.
    """

    def __init__(self, history: History = NO_HISTORY, about: Mapping[str, str] = MappingProxyType({})) -> None:
        self.history = history
        self.before: Sequence[str] = ()
        self._about = about

    @property
    def log(self) -> Logger:
        """The run's log."""
        return self.history.log

    def origin(self) -> Mapping[str, str]:
        """Return what a record says of where the history is kept."""
        return self.history.origin()

    def step(self, name: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run one step and return what it returns."""
        label = f"{name} {self._about.get(name, '')}".rstrip()
        with self.history.task_run(name, label, self.before) as task_run:
            result = function(*args, **kwargs)
        self.before = (task_run,)
        return result

    def run_job(self, job: Job[C, Any, Any, R], config: C) -> R:
        """Run another job as a step."""
        with self.history.flow_run(job.name, job.run_name(config), job.parameters(config), self.before) as (own, drawn):
            result = job.carry_out(config, job.plain_steps(config, own))
        self.before = (drawn,)
        return result

    def show(self, key: str, text: str, description: str) -> None:
        """Show a text in Markdown."""
        self.history.artifact(key, "markdown", text, description)

    def table(self, key: str, lines: Sequence[Mapping[str, Any]], description: str) -> None:
        """Show a table."""
        self.history.artifact(key, "table", lines, description)

    def link(self, key: str, address: str, text: str, description: str) -> None:
        """Show a link."""
        self.show(key, f"[{text}]({address})", description)

    def emit(self, event: str, resource: Mapping[str, str], payload: Mapping[str, Any]) -> None:
        """Send an event."""
        self.history.emit(event, resource, payload)


class Job(ABC, Generic[C, K, S, R]):
    """A job: the types of its form, of what its check finds, of its steps and of its outcome are its parameters.

    The docstring of a job is the description of its flow, and that of ``run`` describes the flow's form.

    Attributes:
        name: Name of the flow, and of its runs where :meth:`run_name` says nothing else.
        first_step: Name of the step in which the form is checked, and what it names loaded.
        named: Field of the form with the file that is loaded, after which runs are named; ``""`` without one.
        kept: Sentence for whoever interrupts the command: what is not lost.
        label_width: Characters of the labels before the lines of the outcome.
    """

    name: ClassVar[str]
    Config: type[C]
    first_step: ClassVar[str] = "check"
    named: ClassVar[str] = ""
    kept: ClassVar[str] = "Interrupted."
    label_width: ClassVar[int] = 9

    @abstractmethod
    def check(self, config: C) -> K:
        """Refuse what cannot be done, the cheapest to find first, and return what the job works with.

        Raises:
            LeadlineError: It is refused.
        """

    @abstractmethod
    def run(self, config: C, checked: K, steps: S) -> R:
        """Do the job."""

    def check_outside(self, config: C, rules: Any) -> None:
        """Refuse what only this job has and requests from outside may not name.

        Args:
            rules: :class:`~leadline.flows.prefect.outside_requests.Allowed`.

        Raises:
            UsageError: It is refused.
        """

    def plain_steps(self, config: C, history: History = NO_HISTORY) -> S:
        """Return what runs the steps in this process."""
        return cast("S", JobSteps(history, self.about(config)))

    def task_steps(self, config: C) -> S | None:
        """Return what runs the steps as Prefect tasks in a flow, where that is not what all jobs have."""
        return None

    def run_name(self, config: C) -> str:
        """Return the name of a run of the flow."""
        return f"{self.name} {Path(getattr(config, self.named)).stem}" if self.named else self.name

    def parameters(self, config: C) -> dict[str, Any]:
        """Return the form as JSON, as the history of a run keeps it."""
        form = cast("BaseModel", config)
        return {"config": form.model_dump(mode="json", by_alias=True)}

    def about(self, config: C) -> Mapping[str, str]:
        """Return by the names of steps what their task runs say that they are about."""
        return {self.first_step: Path(getattr(config, self.named)).name} if self.named else {}

    def asks(self, checked: K) -> bool:
        """Return whether calls may be paid for, which a ledger is to record."""
        return True

    def notices(self, checked: K) -> Iterable[str]:
        """Yield what a command says before the work begins."""
        return ()

    def lines(self, result: R) -> Iterable[tuple[str, str]]:
        """Yield the outcome for people: labels and what they are about."""
        return ()

    def notes(self, result: R) -> Iterable[str]:
        """Yield what a command says beside the outcome."""
        return ()

    def record(self, result: R) -> dict[str, Any]:
        """Return the outcome for programs, as JSON."""
        return result.model_dump(mode="json")

    def timed(self, result: R, seconds: float) -> R:
        """Return an outcome that says how long it took, if it says that at all."""
        return result.model_copy(update={"seconds": seconds}) if "seconds" in type(result).model_fields else result

    def __call__(self, config: C) -> R:
        """Do the job in this process, without Prefect."""
        return self.carry_out(config, self.plain_steps(config))

    def carry_out(self, config: C, steps: S, checked: K | None = None) -> R:
        """Check and do the job.

        Args:
            checked: What a check in this process found already; it is not made again then.
        """
        began = time.monotonic()
        check = partial(self.check, config) if checked is None else lambda: checked
        report(self.first_step, done=0)
        found = steps.step(self.first_step, check)
        report(self.first_step, done=1)
        return self.timed(self.run(config, found, steps), round(time.monotonic() - began, 2))


def reading(
    columns: ColumnMap,
    *,
    format: str = "auto",  # noqa: A002
    model_name: str = "",
    corpus: str | None = None,
) -> dict[str, Any]:
    """Return the options of :func:`leadline.tasks.load.dataset.load_dataset` for what a user asked for.

    Args:
        columns: The mapping of columns for this file; that of ``leadline.toml`` comes after it.
        model_name: The model whose answers name none.
        corpus: A file with the texts of documents that were recorded by their ids.

    Raises:
        UsageError: ``leadline.toml`` is broken.
    """
    how = {"format": format, "columns": columns, "default_columns": project_map(), "model_name": model_name}
    return how | ({"corpus": corpus} if corpus else {})


def output_file(given: str | None, default: str, *, sources: Sequence[str]) -> Path:
    """Return the file to write.

    Args:
        default: Its name otherwise, in the working directory.

    Raises:
        UsageError: It is a folder, or one of the sources.
    """
    output = Path(given or default)
    if output.is_dir():
        raise UsageError(f"{output} is a folder.", hint="Name a file: -o FILE", code=ErrorCode.CONFIG_OUTPUT)
    if output.exists() and any(output.resolve() == from_home(name).resolve() for name in sources):
        raise UsageError(f"{output} is the input file.", hint="Write elsewhere: -o FILE", code=ErrorCode.CONFIG_OUTPUT)
    return output
