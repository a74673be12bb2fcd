"""The scoring flow: chunks on a worker, one after the other.

Scores go to the store as segments. What the waiting flow has to know travels in states: that of each chunk's task run
has its counts as JSON in the message, or the failure of this chunk, which costs the others nothing; the final state of
the flow run repeats them all. So no result storage of Prefect's is needed, and nothing is lost if nobody reads it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Cancelled, Completed, Failed

from leadline.evaluators.core.error_codes import ErrorCode
from leadline.evaluators.core.secret_values import masked
from leadline.flows.dispatch.fitness import Unfit, check_identities, find_run
from leadline.flows.dispatch.pools import FLOW
from leadline.flows.shared.server_outage import outlast_outages
from leadline.tasks.plan.chunks import Chunk
from leadline.tasks.runs.lookup import status
from leadline.tasks.score.chunk import ChunkResult, JudgeDown
from leadline.tasks.score.subchunks import score_on_all_cores

outlast_outages()

JUDGE_DOWN: Final = "JudgeDown"
"""Name of the final state of a chunk whose judge did not answer, and of a shard in which nothing else failed."""


UNFIT: Final = "Unfit"
"""Name of the final state of chunks that this worker cannot score, while another or the waiting flow could."""


NO_DEVICE: Final = "NoDevice"
"""Name of the final state of such chunks where what this worker lacks is the device that the run asks for."""


def task_run_name(chunk: Chunk) -> str:
    """Return the name of the task run that scores a chunk; by it the waiting flow knows whose state it is."""
    return f"score {chunk.name}"


def flow_run_name(chunks: Sequence[Chunk]) -> str:
    """Return what the UI calls the scoring of chunks; given by who starts it, since the flow knows no attempts."""
    more = f" and {len(chunks) - 1} more" if len(chunks) > 1 else ""
    return f"{task_run_name(chunks[0])}{more} of {chunks[0].run}"


@flow(
    name=FLOW,
    description="Score chunks of a run. Started by the flow that evaluates, not by people.",
    persist_result=False,
)
def score_chunk(chunks: list[Chunk]) -> State[Any]:
    """Score chunks of one lane of a run in turn, each as a task; doing it again writes the same.

    Args:
        chunks: What to score.
    """

    def as_task(chunk: Chunk) -> State[Any]:
        run = task(name="score", task_run_name=task_run_name(chunk), cache_policy=NO_CACHE, persist_result=False)
        return run(score_one)(chunk, return_state=True)

    return score_in_turn(chunks, as_task)


def score_in_turn(chunks: Sequence[Chunk], score: Callable[[Chunk], State[Any]]) -> State[Any]:
    """Score chunks of one lane of a run in turn.

    Args:
        chunks: What to score.
        score: Scores one; returns a state as :func:`score_one` does.

    Returns:
        A completed state with the counts; a failed one where a chunk failed, named ``JudgeDown`` when only verdicts are
        lacking since the judge did not answer; one named ``Unfit`` or ``NoDevice`` when this is the wrong worker; a
        cancelled one when nobody waits for the chunks any more.
    """
    outcomes: dict[str, Mapping[str, Any]] = {}
    try:
        for chunk in chunks:
            run, record = find_run(chunk)
            if (ended := status(record)) != "running":
                return Cancelled(message=f"The run {chunk.run} is {ended}: nobody waits for this chunk.")
            if not outcomes:
                check_identities(run, chunk.lane)
            state = score(chunk)
            scored = _read(state.message) if state.is_completed() else {}
            outcomes[chunk.name] = scored or {"failed": state.name, "message": state.message}
            if len(chunks) > 1:
                scored.pop("spans", None)  # many, and the state of its task run has them
    except Unfit as error:
        return Failed(name=NO_DEVICE if error.code == ErrorCode.MODEL_DEVICE else UNFIT, message=str(error))
    # Not logged as well: where the worker has died, writing a line to its closed pipe would end this process.
    failed = {outcome["failed"] for outcome in outcomes.values() if "failed" in outcome}
    if not failed:
        return Completed(message=json.dumps(outcomes))
    return Failed(name=JUDGE_DOWN if failed == {JUDGE_DOWN} else "Failed", message=json.dumps(outcomes))


def score_one(chunk: Chunk) -> State[Any]:
    """Score one chunk; return a completed state with the counts, or a failed one that says why."""
    try:
        return Completed(message=json.dumps(asdict(score_on_all_cores(chunk))))
    except JudgeDown as error:
        return Failed(name=JUDGE_DOWN, message=str(error))
    except Exception as error:
        return Failed(message=masked(f"{type(error).__name__}: {error}"))


def outcomes_in(message: str | None) -> Mapping[str, Mapping[str, Any]]:
    """Return the outcomes of chunks by their names from the message of a shard's final state; none if it is lost."""
    return {name: outcome for name, outcome in _read(message).items() if isinstance(outcome, dict)}


def read_result(chunk: Chunk, outcome: Mapping[str, Any] | str | None) -> ChunkResult:
    """Read the counts of a chunk that was scored; without them it is scored all the same.

    Args:
        chunk: The chunk.
        outcome: What its shard says of it, or the message of its task run's final state.
    """
    try:
        return ChunkResult.from_plain(outcome if isinstance(outcome, Mapping) else _read(outcome))
    except TypeError:
        return ChunkResult(chunk.name, chunk.scores, 0)


def _read(message: str | None) -> dict[str, Any]:
    try:
        found = json.loads(message or "")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
