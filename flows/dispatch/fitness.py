"""Checking whether a worker can score a chunk: it sees the run, and would compute what was planned."""

from __future__ import annotations

import socket
from typing import Any

from leadline.evaluators.core import EvalContext, Lane
from leadline.evaluators.data import Json
from leadline.evaluators.ground import ErrorCode, LeadlineError, StoreError, UsageError
from leadline.evaluators.models.runtime import require_device
from leadline.evaluators.settings import Settings
from leadline.tasks.ground.files import digest
from leadline.tasks.plan.jobs import Chunk, EvaluatorJob, read_jobs
from leadline.tasks.store.store import JOBS, Run, Store


class Unfit(LeadlineError):
    """This worker does not see the store, or would compute something else than was planned, under the wrong key."""

    code = ErrorCode.WORKER_DIFFERENT


def find_run(chunk: Chunk) -> tuple[Run, dict[str, Any]]:
    """Return the run of a chunk and its record.

    Raises:
        Unfit: This worker does not see them.
    """
    try:
        store = Store.open(chunk.store)
        run = store.run(chunk.run)
        store.fetch_record(run)
        store.fetch_plan(run, chunk.plan_file)
        return run, run.read()
    except (UsageError, StoreError) as error:
        raise Unfit(
            f"The worker {socket.gethostname()} does not see the run {chunk.run} in the store {chunk.store}: {error}",
            hint="Workers need the run's store, by the same path or URL.",
        ) from error


def check_identities(run: Run, lane: Lane) -> None:
    """Refuse to score where another version, splitter or model file would give scores that belong to another key.

    Args:
        lane: The lane whose evaluators are looked at.

    Raises:
        Unfit: An evaluator is another one here, or the device of models is not here.
    """
    settings, jobs = _read_jobs(run)
    if lane == "gpu":
        try:
            require_device(settings)
        except UsageError as error:
            raise Unfit(f"The worker {socket.gethostname()}: {error.message}", code=error.code) from error
    ctx = EvalContext(settings)
    for job in jobs:
        if job.lane != lane or job.error:
            continue
        here = _identity(job, ctx)
        if digest(here) != job.config:
            names = sorted(name for name in {*here, *job.identity} if here.get(name) != job.identity.get(name))
            raise Unfit(
                f"{job.evaluator} is not the same on this worker as where the run was planned: its {', '.join(names)} "
                f"differ{'s' if len(names) == 1 else ''}.",
                hint="Install the same version of Leadline with the same extras and data on all workers.",
            )


def _read_jobs(run: Run) -> tuple[Settings, tuple[EvaluatorJob, ...]]:
    try:
        return read_jobs(run.plan / JOBS)
    except UsageError as error:  # the user's own evaluators are not under this path, or others are
        raise _lacks("what the run was planned with", error) from error


def _identity(job: EvaluatorJob, ctx: EvalContext) -> dict[str, Json]:
    """Return what an evaluator's scores depend on here; it was found where the run was planned."""
    try:
        return job.build().identity(ctx)
    except Exception as error:
        raise _lacks(f"what {job.evaluator} needs", error) from error


def _lacks(what: str, error: Exception) -> Unfit:
    reason = error.message if isinstance(error, LeadlineError) else f"{type(error).__name__}: {error}"
    return Unfit(
        f"The worker {socket.gethostname()} does not have {what}: {reason}",
        hint="Workers need the same Leadline with the same extras, and folders of models and evaluators by the same "
        "path.",
    )
