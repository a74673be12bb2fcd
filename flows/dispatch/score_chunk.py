"""The scoring flow: one chunk on a worker.

Scores go to the store as segments. What the waiting flow has to know travels in the final state itself: its message
contains the counts as JSON, its name says whether the judge was down. So no result storage of Prefect's is needed, and
nothing is lost if nobody reads it.
"""

from __future__ import annotations

import json
import socket
from dataclasses import asdict
from typing import Any, Final

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Cancelled, Completed, Failed

from leadline.evaluators.core.context import EvalContext
from leadline.evaluators.core.error_codes import ErrorCode
from leadline.evaluators.core.errors import LeadlineError, StoreError, UsageError
from leadline.evaluators.core.row import Json
from leadline.evaluators.core.settings import Settings
from leadline.flows.dispatch.pools import FLOW
from leadline.tasks.plan.chunks import Chunk
from leadline.tasks.plan.jobs import EvaluatorJob, read_jobs
from leadline.tasks.runs.lookup import status
from leadline.tasks.score.chunk import ChunkResult, JudgeDown
from leadline.tasks.score.subchunks import score_on_all_cores
from leadline.tasks.store.files import digest
from leadline.tasks.store.store import JOBS, Run, Store

JUDGE_DOWN: Final = "JudgeDown"
"""Name of the final state of a chunk whose judge did not answer."""


UNFIT: Final = "Unfit"
"""Name of the final state of a chunk that this worker cannot score, while another or the waiting flow could."""


class Unfit(LeadlineError):
    """This worker does not see the store, or would compute something else than was planned, under the wrong key."""

    code = ErrorCode.WORKER_DIFFERENT


def flow_run_name(chunk: Chunk) -> str:
    """Return what the UI calls the scoring of a chunk; given by who starts it, since the flow knows no attempts."""
    return f"score {chunk.name} of {chunk.run}"


@flow(
    name=FLOW,
    description="Score one chunk of a run. Started by the flow that evaluates, not by people.",
    persist_result=False,
)
def score_chunk(chunk: Chunk) -> State[Any]:
    """Score a chunk; doing it again writes the same.

    Args:
        chunk: What to score.

    Returns:
        A completed state with the counts; a failed one named ``JudgeDown`` when rows have no verdict since the judge
        did not answer, or ``Unfit`` when this is the wrong worker; a cancelled one when nobody waits for the chunk any
        more.
    """
    try:
        run, record = _find_run(chunk)
        if (ended := status(record)) != "running":
            return Cancelled(message=f"The run {chunk.run} is {ended}: nobody waits for this chunk.")
        _check_identities(run, chunk)
        result = score_on_all_cores(chunk)
    except JudgeDown as error:
        return Failed(name=JUDGE_DOWN, message=str(error))
    except Unfit as error:
        return Failed(name=UNFIT, message=str(error))
    # Not logged as well: where the worker has died, writing a line to its closed pipe would end this process.
    return Completed(message=json.dumps(asdict(result)))


def read_result(chunk: Chunk, message: str | None) -> ChunkResult:
    """Read the counts from the message of a completed state; without them the chunk is scored all the same.

    Args:
        chunk: The chunk.
        message: Message of its flow run's final state.
    """
    try:
        return ChunkResult(**json.loads(message or ""))
    except (ValueError, TypeError):
        return ChunkResult(chunk.name, chunk.scores, 0)


def _find_run(chunk: Chunk) -> tuple[Run, dict[str, Any]]:
    try:
        store = Store.open(chunk.store)
        run = store.run(chunk.run)
        store.fetch_record(run)
        store.fetch_plan(run)
        return run, run.read()
    except (UsageError, StoreError) as error:
        raise Unfit(
            f"The worker {socket.gethostname()} does not see the run {chunk.run} in the store {chunk.store}: {error}",
            hint="Workers need the run's store, by the same path or URL.",
        ) from error


def _check_identities(run: Run, chunk: Chunk) -> None:
    """Refuse to score where another version, splitter or model file would give scores that belong to another key."""
    settings, jobs = _read_jobs(run)
    ctx = EvalContext(settings)
    for job in jobs:
        if job.lane != chunk.lane or job.error:
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
