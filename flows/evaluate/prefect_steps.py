"""The steps of an evaluation as tasks of a Prefect flow, which keeps the history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast
from uuid import UUID

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.futures import PrefectFuture
from prefect.utilities.annotations import quote

from leadline.evaluators.core import Lane
from leadline.flows.dispatch.lanes import Lanes
from leadline.flows.dispatch.pools import served
from leadline.flows.evaluate.artifacts import Progress, publish_artifacts
from leadline.flows.evaluate.config import EvaluateResult
from leadline.flows.evaluate.steps import EvaluationSteps, Finished
from leadline.flows.prefect.prefect_steps import TaskSteps, history_may_fail, reporting_no_secrets
from leadline.flows.shared.judge_access import RETRY_DELAYS_S, Retries
from leadline.tasks.plan.jobs import Chunk, lane_file
from leadline.tasks.score.chunk import ChunkResult
from leadline.tasks.score.executor import drive
from leadline.tasks.store.store import Run, Store


class PrefectSteps(TaskSteps, EvaluationSteps):
    """Runs each step, and the scoring of each chunk, as a Prefect task of the flow that runs in this thread."""

    def workers(self, dispatch: str, lanes: Iterable[Lane]) -> Mapping[Lane, int]:
        """Return the lanes that workers serve, each with the number of workers online.

        Raises:
            NoWorkers: The request wants workers, and a lane has none.
        """
        return served(dispatch, lanes)

    def score(self, chunks: Sequence[Chunk], lanes: Lanes, retries: Retries, finished: Finished) -> None:
        """Score all chunks, each as a task of its own."""
        progress = Progress(sum(chunk.scores for chunk in chunks))
        names, scored = _names(chunks), 0
        with lanes:
            score = task(
                name="score",
                task_run_name=cast("Any", lambda parameters: names[parameters["chunk"].name]),
                retries=2,
                retry_delay_seconds=list(RETRY_DELAYS_S),
                retry_condition_fn=lambda *_: not lanes.ending,
                cache_policy=NO_CACHE,
                persist_result=False,
            )(reporting_no_secrets(lanes.score))
            judge = score.with_options(
                retry_delay_seconds=retries.delays,
                # Prefect takes any bound method for a "no"
                retry_condition_fn=lambda *_: retries.worth_it() and not lanes.ending,
            )
            before, task_runs = self.before, list[UUID]()

            def submit(chunk: Chunk) -> PrefectFuture[ChunkResult]:
                by: Any = judge if chunk.lane == "judge" else score  # whose type knows no quote
                future: PrefectFuture[ChunkResult] = by.submit(quote(chunk), wait_for=before)
                task_runs.append(future.task_run_id)
                return future

            def ended(chunk: Chunk, future: PrefectFuture[ChunkResult]) -> None:
                nonlocal scored
                finished(chunk, future.result(raise_on_failure=False))
                scored += chunk.scores
                progress.update(scored)

            drive(chunks, lanes.widths, submit, ended)
        self.come_after(task_runs)

    def conclude(self, store: Store, run: Run, result: EvaluateResult) -> None:
        """Publish the outcome as artifacts and as an event."""
        with history_may_fail():
            publish_artifacts(store, run, result)


def _names(chunks: Sequence[Chunk]) -> Mapping[str, str]:
    """Return the names of the task runs that score chunks, such as ``score cpu 1 of 3``, by those of the chunks."""
    files: dict[str, list[str]] = {}
    for chunk in chunks:
        files.setdefault(lane_file(chunk.lane, chunk.part), []).append(chunk.name)
    return {
        name: f"score {file} {number} of {len(names)}"
        for file, names in files.items()
        for number, name in enumerate(names, start=1)
    }
