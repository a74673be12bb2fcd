"""Running the steps of an evaluation in this process, and what its history shows of it: artifacts and events.

``PrefectSteps`` (:mod:`.prefect_steps`) makes a Prefect task of each. What a run leaves in the store is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Final, TypeAlias

from leadline.evaluators.core import Lane
from leadline.evaluators.ground import ErrorCode, UsageError, count, rounded
from leadline.evaluators.settings import JudgeConfig
from leadline.flows.dispatch.lanes import Elsewhere, Lanes, NoWorkers
from leadline.flows.evaluate.config import EvaluateResult
from leadline.flows.prefect.report_links import run_link
from leadline.flows.shared.history import NO_HISTORY
from leadline.flows.shared.job import JobSteps
from leadline.flows.shared.judge_access import judge_changed
from leadline.flows.shared.settings import Dispatch, Gate
from leadline.tasks.db import open_run, records, sql
from leadline.tasks.plan.jobs import Chunk, lane_file
from leadline.tasks.runs.run_facts import SYMBOLS, tally_in_words
from leadline.tasks.runs.run_sentences import cost_line, gate_reason, scores_line, work_line
from leadline.tasks.score.chunk import ChunkResult, JudgeDown
from leadline.tasks.score.executor import drive
from leadline.tasks.store.store import JUDGES, Run, Store

Finished: TypeAlias = Callable[[Chunk, ChunkResult | BaseException], None]
"""Called with each chunk and its result, or the error of its last attempt."""

RETRY_DELAYS_S: Final = (1.0, 5.0)
"""Pauses before the further attempts of a chunk that asks no judge."""


class Retries:
    """Decides how chunks of the judge lane are tried again when the judge is down.

    A judge that is being restarted is back within the delays. Once a chunk found it down to the last, the chunks after
    it are tried only once each, so that a run with a dead judge ends soon; the first one that succeeds ends that.
    """

    def __init__(self, judges: tuple[JudgeConfig, ...]) -> None:
        pause = max((judge.down_after_s for judge in judges), default=0.0)
        self.delays = [1.25 * pause, 4 * pause]
        self._given_up = Event()

    def worth_it(self) -> bool:
        """Return whether a chunk that failed is to be tried again."""
        return not self._given_up.is_set()

    def learn(self, result: object) -> None:
        """Take note of how a chunk ended."""
        if isinstance(result, JudgeDown):
            self._given_up.set()
        elif isinstance(result, ChunkResult):
            self._given_up.clear()


def task_run_names(chunks: Sequence[Chunk]) -> Mapping[str, str]:
    """Return the names of the task runs that score chunks, such as ``score cpu 1 of 3``, by those of the chunks."""
    files: dict[str, list[str]] = {}
    for chunk in chunks:
        files.setdefault(lane_file(chunk.lane, chunk.part), []).append(chunk.name)
    return {
        name: f"score {file} {number} of {len(names)}"
        for file, names in files.items()
        for number, name in enumerate(names, start=1)
    }


class EvaluationSteps(JobSteps):
    """Runs the steps, and the scoring of each chunk, in this process."""

    def workers(self, dispatch: str, lanes: Collection[Lane], processes: int) -> Mapping[Lane, int]:
        """Return no workers: they are found through a Prefect server. See :class:`.Dispatcher`.

        Raises:
            UsageError: The request wants workers.
        """
        if dispatch == Dispatch.WORKERS:
            raise UsageError(
                "Workers are reached through a Prefect server, and this run has none.",
                hint="Set PREFECT_API_URL, start one (leadline service server start), or use --dispatch inline.",
                code=ErrorCode.WORKER_NONE,
            )
        return {}

    def elsewhere(self, dispatch: str, workers: Mapping[Lane, int]) -> Elsewhere:
        """Refuse to have chunks scored elsewhere: there are no workers."""
        raise NoWorkers("This run has no workers.")

    def score(self, chunks: Sequence[Chunk], lanes: Lanes, retries: Retries, finished: Finished) -> None:
        """Score all chunks, each in a thread.

        Args:
            lanes: The lanes, not yet entered.
            finished: Called in this thread as each chunk ends.
        """
        total, scored = sum(chunk.scores for chunk in chunks), 0
        progress = self.history.progress(f"{count(total, 'row score')} to compute")
        if not chunks:
            progress(1)
            return
        leaving = Event()
        names, task_runs, before = task_run_names(chunks), list[str](), self.before

        def attempts(chunk: Chunk) -> ChunkResult:
            judged = chunk.lane == "judge"
            for delay in retries.delays if judged else RETRY_DELAYS_S:
                try:
                    return lanes.score(chunk)
                except Exception as error:
                    if leaving.is_set() or lanes.ending or (judged and not retries.worth_it()):
                        raise
                    self.log.info("%s is tried again in %g s: %s", chunk.name, delay, error)
                    if leaving.wait(delay):
                        raise
            return lanes.score(chunk)

        def kept(chunk: Chunk) -> ChunkResult:
            with self.history.task_run("score", names[chunk.name], before) as task_run:
                task_runs.append(task_run)
                return attempts(chunk)

        def ended(chunk: Chunk, future: Future[ChunkResult]) -> None:
            nonlocal scored
            finished(chunk, future.exception() or future.result())
            scored += chunk.scores
            progress(scored / max(1, total))

        # The lanes end before the threads are waited for: an interrupted run gives up what is in work.
        with ThreadPoolExecutor(sum(lanes.widths.values()), "score") as threads, lanes:
            try:
                drive(chunks, lanes.widths, lambda chunk: threads.submit(kept, chunk), ended)
            finally:
                leaving.set()
        self.before = task_runs

    def conclude(self, store: Store, run: Run, result: EvaluateResult) -> None:
        """Show the outcome where the history is kept."""
        if self.history is not NO_HISTORY:
            publish_artifacts(self, store, run, result)


_ENDINGS: Final[dict[Gate, str]] = {"pass": "passed", "fail": "failed", "inconclusive": "inconclusive"}


def publish_artifacts(steps: JobSteps, store: Store, run: Run, result: EvaluateResult) -> None:
    """Publish the summary, the leaderboard, the work of each evaluator, the problems and the link to the report."""
    with open_run(store, run, read_only=True) as connection:
        board = records(connection, sql("leaderboard"))
        work = records(connection, sql("evaluator_work"))
        problems = records(
            connection, "SELECT severity, type, description, actions FROM problems ORDER BY problem_id LIMIT 200"
        )
    seconds = run.read().get("evaluator_seconds") or {}
    link = run_link(store, run, result.report)
    devices = run.read().get("devices", ())
    steps.show("leadline-summary", _summary(result, link, devices), f"Run {run.id}")
    steps.table(
        "leadline-leaderboard",
        [{key: rounded(value) for key, value in line.items()} for line in board],
        "Primary metric of each evaluator by model, with 95 % interval and coverage",
    )
    steps.table(
        "leadline-evaluators",
        [line | {"seconds": seconds.get(line["evaluator"], 0.0)} for line in work],
        "Work of each evaluator: rows, distinct scores found and computed, seconds but for shared models",
    )
    steps.table("leadline-problems", problems, "Problems, worst first")
    steps.link("leadline-report", link, "Report", str(run.id))
    _announce(steps, run, result, link)
    for name, judge in (run.read().get(JUDGES) or {}).items():
        if judge["newly_changed"]:
            steps.emit(**judge_changed(name, judge))


def _announce(steps: JobSteps, run: Run, result: EvaluateResult, link: str) -> None:
    """Send the event ``leadline.gate.passed``, ``.failed`` or ``.inconclusive`` of a run that was to pass a gate."""
    config = run.read().get("config")
    if not isinstance(config, dict) or config.get("fail_on") == "never":
        return
    name = str(config.get("name") or Path(str(config.get("dataset", ""))).stem)
    steps.emit(
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
