"""The steps of an evaluation as tasks of a Prefect flow, which keeps the history, and its artifacts in Prefect's UI.

While it runs, they show its progress; at the end the summary, the leaderboard and the link to the report.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, cast
from uuid import UUID

from prefect import task
from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.cache_policies import NO_CACHE
from prefect.futures import PrefectFuture
from prefect.utilities.annotations import quote

from leadline.evaluators.core import Lane
from leadline.evaluators.ground import count
from leadline.flows.dispatch.lanes import Lanes
from leadline.flows.dispatch.pools import served
from leadline.flows.dispatch.shards import Board, Shards
from leadline.flows.evaluate.config import EvaluateResult
from leadline.flows.evaluate.steps import (
    RETRY_DELAYS_S,
    EvaluationSteps,
    Finished,
    Retries,
    publish_artifacts,
    task_run_names,
)
from leadline.flows.prefect.prefect_steps import TaskSteps, history_may_fail, reporting_no_secrets
from leadline.flows.prefect.server_outage import not_waiting
from leadline.tasks.plan.jobs import Chunk
from leadline.tasks.score.chunk import ChunkResult
from leadline.tasks.score.executor import drive
from leadline.tasks.store.store import Run, Store


class PrefectSteps(TaskSteps, EvaluationSteps):
    """Runs each step, and the scoring of each chunk, as a Prefect task of the flow that runs in this thread."""

    def workers(self, dispatch: str, lanes: Collection[Lane], processes: int) -> Mapping[Lane, int]:
        """Return the lanes that workers serve, each with the number of workers online.

        Raises:
            NoWorkers: The request wants workers, and a lane has none.
        """
        return served(dispatch, lanes)

    def elsewhere(self, dispatch: str, workers: Mapping[Lane, int]) -> Shards:
        """Return what has chunks scored by Prefect's workers."""
        return Shards(workers, changed=Board().show)

    def score(self, chunks: Sequence[Chunk], lanes: Lanes, retries: Retries, finished: Finished) -> None:
        """Score all chunks, each as a task of its own."""
        progress = Progress(sum(chunk.scores for chunk in chunks))
        names, scored = task_run_names(chunks), 0
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
            publish_artifacts(self, store, run, result)


UNREACHABLE_REST_S: Final = 60.0
"""How long progress is not shown after the server could not be reached: each try takes seconds."""


class Progress:
    """A progress artifact that is updated at whole percents only."""

    def __init__(self, total: int) -> None:
        self._total = max(1, total)
        self._shown = 0
        self._rests_until = 0.0
        self._id: UUID | None = None
        with history_may_fail():
            start = create_progress_artifact(
                progress=0.0 if total else 100.0,
                key="leadline-progress",
                description=f"{count(total, 'row score')} to compute",
            )
            self._id = cast("UUID", start)

    def update(self, done: int) -> None:
        """Show that ``done`` row scores are computed."""
        percent = int(100 * done / self._total)
        if self._id is None or percent <= self._shown or time.monotonic() < self._rests_until:
            return
        with history_may_fail(), not_waiting():
            update_progress_artifact(self._id, progress=float(percent))
            self._shown = percent
            return
        self._rests_until = time.monotonic() + UNREACHABLE_REST_S
