"""The steps of an evaluation as tasks of a Prefect flow, which keeps the history, and its artifacts in Prefect's UI.

While it runs, they show its progress; at the end the summary, the leaderboard and the link to the report.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast
from uuid import UUID

from prefect import task
from prefect.artifacts import (
    create_link_artifact,
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.cache_policies import NO_CACHE
from prefect.events import emit_event
from prefect.futures import PrefectFuture
from prefect.utilities.annotations import quote

from leadline.evaluators.core import Lane
from leadline.evaluators.ground import count, rounded
from leadline.flows.dispatch.lanes import Lanes
from leadline.flows.dispatch.pools import served
from leadline.flows.dispatch.shards import Board, Shards
from leadline.flows.evaluate.config import EvaluateResult
from leadline.flows.evaluate.steps import RETRY_DELAYS_S, EvaluationSteps, Finished, Retries
from leadline.flows.prefect.prefect_steps import TaskSteps, history_may_fail, reporting_no_secrets
from leadline.flows.prefect.report_links import run_link
from leadline.flows.prefect.server_outage import not_waiting
from leadline.flows.shared.judge_change import judge_changed
from leadline.flows.shared.settings import Gate
from leadline.tasks.db import open_run, records, sql
from leadline.tasks.judges.drift.judge_standing import JUDGES
from leadline.tasks.plan.jobs import Chunk, lane_file
from leadline.tasks.runs.run_facts import SYMBOLS, tally_in_words
from leadline.tasks.runs.run_sentences import cost_line, gate_reason, scores_line, work_line
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


_ENDINGS: Final[dict[Gate, str]] = {"pass": "passed", "fail": "failed", "inconclusive": "inconclusive"}

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


def publish_artifacts(store: Store, run: Run, result: EvaluateResult) -> None:
    """Publish the summary, the leaderboard, the work of each evaluator, the problems and the link to the report.

    Args:
        result: Its outcome.
    """
    with open_run(store, run, read_only=True) as connection:
        board = records(connection, sql("leaderboard"))
        work = records(connection, sql("evaluator_work"))
        problems = records(
            connection, "SELECT severity, type, description, actions FROM problems ORDER BY problem_id LIMIT 200"
        )
    seconds = run.read().get("evaluator_seconds") or {}
    link = run_link(store, run, result.report)
    devices = run.read().get("devices", ())
    create_markdown_artifact(_summary(result, link, devices), key="leadline-summary", description=f"Run {run.id}")
    create_table_artifact(
        [{key: rounded(value) for key, value in line.items()} for line in board],
        key="leadline-leaderboard",
        description="Primary metric of each evaluator by model, with 95 % interval and coverage",
    )
    create_table_artifact(
        [line | {"seconds": seconds.get(line["evaluator"], 0.0)} for line in work],
        key="leadline-evaluators",
        description="Work of each evaluator: rows, distinct scores found and computed, seconds but for shared models",
    )
    create_table_artifact(problems, key="leadline-problems", description="Problems, worst first")
    create_link_artifact(link, link_text="Report", key="leadline-report", description=str(run.id))
    _announce(run, result, link)
    for name, judge in (run.read().get(JUDGES) or {}).items():
        if judge["newly_changed"]:
            emit_event(**judge_changed(name, judge))


def _announce(run: Run, result: EvaluateResult, link: str) -> None:
    """Send the event ``leadline.gate.passed``, ``.failed`` or ``.inconclusive`` of a run that was to pass a gate."""
    config = run.read().get("config")
    if not isinstance(config, dict) or config.get("fail_on") == "never":
        return
    name = str(config.get("name") or Path(str(config.get("dataset", ""))).stem)
    emit_event(
        event=f"leadline.gate.{_ENDINGS[result.gate]}",
        resource={"prefect.resource.id": f"leadline.run.{run.id}", "prefect.resource.name": f"{name} ({run.id})"},
        payload={
            "gate": result.gate,
            "reason": result.gate_reason,
            "changed": result.changed,
            "worst": result.worst,
            "report": link,
        },
    )


def _summary(result: EvaluateResult, link: str, devices: Sequence[str] = ()) -> str:
    return "\n".join(
        [
            f"# {result.gate.upper()}",
            "",
            *([f"({result.gate_counted})", ""] if result.gate_counted else []),
            *([reason, ""] if (reason := gate_reason(result)) else []),
            *(f"- {SYMBOLS[each.outcome]} **{each.words}** {each.line}" for each in result.questions),
            "",
            "| | |",
            "|---|---|",
            f"| Scores | {scores_line(result)} |",
            f"| Rows | {work_line(result)} |",
            f"| Judge | {cost_line(result)} |",
            *([f"| Device of models | {', '.join(devices)} |"] if devices else []),
            f"| Problems | {tally_in_words(result.problems_by_fault)} |",
            f"| Report | <{link}> |"
            if link.startswith("http")
            else f"| Report | `{result.report_url or result.report}` |",
        ]
    )
