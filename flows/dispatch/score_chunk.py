"""The scoring flow: chunks on a worker, one after the other.

Scores go to the store as segments. So does what the waiting flow has to know: each chunk's counts, or its failure,
which costs the others nothing, as a small file that the waiting flow takes away. States say it in a sentence, for
people. So no result storage of Prefect's is needed, and nothing is lost if nobody reads it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Cancelled, Completed, Failed

from leadline.evaluators.ground import ErrorCode, count, masked
from leadline.flows.dispatch.fitness import Unfit, check_identities, find_run
from leadline.flows.prefect.server_outage import outlast_outages
from leadline.flows.shared.settings import SCORING_FLOW
from leadline.tasks.ground.files import write_json
from leadline.tasks.plan.jobs import Chunk
from leadline.tasks.runs.lookup import status
from leadline.tasks.score.chunk import ChunkResult, JudgeDown
from leadline.tasks.score.executor import score_on_all_cores
from leadline.tasks.store.store import Store

outlast_outages()

JUDGE_DOWN: Final = "JudgeDown"
"""Name of the final state of a chunk whose judge did not answer, and of a shard in which nothing else failed."""

UNFIT: Final = "Unfit"
"""Name of the final state of chunks that this worker cannot score, while another or the waiting flow could."""

LONGEST: Final = 500
"""Characters of a state's message: Prefect shows all of it, and logs it."""


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
    name=SCORING_FLOW,
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
        return run(score_one)(chunk, str(flow_run.id), return_state=True)

    return score_in_turn(chunks, as_task)


def score_in_turn(chunks: Sequence[Chunk], score: Callable[[Chunk], State[Any]]) -> State[Any]:
    """Score chunks of one lane of a run in turn.

    Args:
        score: Scores one; returns a state as :func:`score_one` does.

    Returns:
        A completed state; a failed one where a chunk failed, named ``JudgeDown`` when only verdicts are lacking since
        the judge did not answer; one named ``Unfit`` or ``NoDevice`` when this is the wrong worker; a cancelled one
        when nobody waits for the chunks any more.
    """
    failed: list[State[Any]] = []
    try:
        for number, chunk in enumerate(chunks):
            run, record = find_run(chunk)
            if (ended := status(record)) != "running":
                return Cancelled(message=f"The run {chunk.run} is {ended}: nobody waits for this chunk.")
            if not number:
                check_identities(run, chunk.lane)
            state = score(chunk)
            if not state.is_completed():
                failed.append(state)
    except Unfit as error:
        lacking = error.code == ErrorCode.MODEL_DEVICE
        return Failed(name=NO_DEVICE if lacking else UNFIT, message=_short(str(error)))
    # Not logged as well: where the worker has died, writing a line to its closed pipe would end this process.
    if not failed:
        return Completed(message=f"{count(len(chunks), 'chunk')} scored")
    name = JUDGE_DOWN if all(state.name == JUDGE_DOWN for state in failed) else "Failed"
    return Failed(
        name=name, message=_short(f"{len(failed)} of {count(len(chunks), 'chunk')} failed: {failed[0].message}")
    )


def score_one(chunk: Chunk, shard: str) -> State[Any]:
    """Score one chunk and leave its outcome in the store; return a completed state, or a failed one that says why."""
    outcome: dict[str, Any]
    state: State[Any]
    try:
        result = score_on_all_cores(chunk)
        outcome = asdict(result)
        state = Completed(message=f"{result.scored} scored, {result.unscored} not, in {result.wall_s:.1f} s")
    except Exception as error:
        down = isinstance(error, JudgeDown)
        message = str(error) if down else masked(f"{type(error).__name__}: {error}")
        state = Failed(name=JUDGE_DOWN if down else "Failed", message=_short(message))
        outcome = {"failed": state.name, "message": message}
    store = Store.open(chunk.store)
    file = _outcome_file(store, chunk, shard)
    write_json(file, outcome)
    store.push([file])
    return state


def take_outcome(chunk: Chunk, shard: object) -> Mapping[str, Any] | None:
    """Return what a shard has left of a chunk, and take it away: counts or a failure; ``None`` if it left nothing."""
    store = Store.open(chunk.store)
    file = _outcome_file(store, chunk, shard)
    store.fetch([file])
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    with suppress(OSError):  # another user's folder
        store.discard(file)
    return found if isinstance(found, dict) else None


def read_result(chunk: Chunk, outcome: Mapping[str, Any] | None) -> ChunkResult:
    """Read the counts of a chunk that was scored; without them it is scored all the same."""
    try:
        return ChunkResult.from_plain(outcome or {})
    except TypeError:
        return ChunkResult(chunk.name, chunk.scores, 0)


def _outcome_file(store: Store, chunk: Chunk, shard: object) -> Path:
    return store.run(chunk.run).outcomes / f"{chunk.name}-{shard}.json"


def _short(message: str) -> str:
    return message if len(message) <= LONGEST else f"{message[: LONGEST - 1]}…"
