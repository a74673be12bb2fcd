"""The main flow: a file of answers becomes a scored, explained report, and Prefect keeps the history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast
from uuid import UUID

from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.futures import PrefectFuture
from prefect.runtime import flow_run
from prefect.task_runners import ThreadPoolTaskRunner
from prefect.utilities.annotations import quote

from leadline.evaluators.core.base import Lane
from leadline.flows.dispatch.lanes import Lanes
from leadline.flows.dispatch.pools import served
from leadline.flows.evaluate.artifacts import Progress, publish_artifacts
from leadline.flows.evaluate.config import EvaluateConfig, EvaluateResult
from leadline.flows.evaluate.run import run_evaluation
from leadline.flows.evaluate.steps import Finished
from leadline.flows.prefect.outside_requests import (
    allowed,
    check_judges,
    check_measuring,
    check_store,
    is_from_outside,
)
from leadline.flows.prefect.prefect_steps import TaskSteps, finished, history_may_fail, reporting_no_secrets
from leadline.flows.prefect.server_outage import outlast_outages
from leadline.flows.shared.judge_access import RETRY_DELAYS_S, Retries
from leadline.tasks.plan.chunks import Chunk, lane_file
from leadline.tasks.score.chunk import ChunkResult
from leadline.tasks.score.executor import drive
from leadline.tasks.store.store import Run, Store

outlast_outages()

_RUNNER: Any = ThreadPoolTaskRunner(max_workers=260)
"""One thread per chunk that may be waiting; the lanes bound what is in work."""


class PrefectSteps(TaskSteps):
    """Runs each step, and the scoring of each chunk, as a Prefect task of the flow that runs in this thread."""

    def origin(self) -> Mapping[str, str]:
        """Return the id of the outermost flow run, by which a run in the store is found again."""
        with history_may_fail():
            return {"flow_run": str(flow_run.root_flow_run_id or "")}
        return {}

    def workers(self, dispatch: str, lanes: Iterable[Lane]) -> Mapping[Lane, int]:
        """Return the lanes that workers serve, each with the number of workers online.

        Args:
            dispatch: Where the request wants chunks to be scored.
            lanes: The lanes that the run may need.

        Raises:
            NoWorkers: The request wants workers, and a lane has none.
        """
        return served(dispatch, lanes)

    def score(self, chunks: Sequence[Chunk], lanes: Lanes, retries: Retries, finished: Finished) -> None:
        """Score all chunks, each as a task of its own.

        Args:
            lanes: The lanes, not yet entered.
            retries: Decides about further attempts of the judge lane.
            finished: Called in this thread as each chunk ends.
        """
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
        """Publish the outcome as artifacts and as an event.

        Args:
            result: Its outcome.
        """
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


def _flow_run_name() -> str:
    config = flow_run.parameters.get("config")
    name = config.name or Path(config.dataset).stem if isinstance(config, EvaluateConfig) else ""
    return f"evaluate {name}".strip()


@flow(
    name="evaluate",
    description="Score the answers in a dataset and publish a report.",
    flow_run_name=_flow_run_name,
    task_runner=_RUNNER,
    persist_result=False,
)
def evaluate(config: EvaluateConfig) -> EvaluateResult:
    """Evaluate a dataset.

    Args:
        config: What to evaluate, with which evaluators, and what makes the gate fail.

    Returns:
        The run, where its report is, and what the gate says.
    """
    if is_from_outside():
        check_evaluation(config)
    return finished(reporting_no_secrets(run_evaluation)(config, PrefectSteps(load=Path(config.dataset).name)))


def check_evaluation(config: EvaluateConfig) -> None:
    """Refuse an evaluation that names what requests from outside may not.

    Raises:
        UsageError: It does.
    """
    rules = allowed()
    check_store(rules, config.store)
    check_measuring(rules, config)
    check_judges(rules, config.judges)
