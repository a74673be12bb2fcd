"""The job of evaluating: a file of answers becomes a scored, explained report.

``load → plan → score (in chunks) → gather → aggregate → slices → flips → changes → corrections → problems →
insights → gate → publish``. The order of the steps is here, and with ``--stop-when decided`` the waves; what a step
does is a function of the tasks room that takes paths and plain values.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Timer
from typing import Any, Final, ParamSpec, TypeVar

from leadline.evaluators.ground import ErrorCode, LeadlineError, UsageError, count, extensions, nouns
from leadline.evaluators.models.runtime import require_device
from leadline.flows.dispatch.lanes import Dispatcher, Lanes, dispatcher, open_lanes
from leadline.flows.evaluate.config import EvaluateConfig, EvaluateResult
from leadline.flows.evaluate.prepare import Prepared, prepare, prepared_again
from leadline.flows.evaluate.steps import EvaluationSteps, Finished, Retries
from leadline.flows.shared.history import NO_HISTORY, History
from leadline.flows.shared.job import Job, report
from leadline.flows.shared.judge_access import canaries_of, limits_of
from leadline.flows.shared.settings import Dispatch, FailOn, is_dask
from leadline.tasks import pipeline
from leadline.tasks.db import kept_open
from leadline.tasks.ground import log_context
from leadline.tasks.ground.log_context import logged_as
from leadline.tasks.ground.timeline import Timeline, current, timed_by
from leadline.tasks.plan.jobs import Chunk
from leadline.tasks.plan.selection import NO_JUDGE, NOT_HERE
from leadline.tasks.plan.trial_rows import ALL_ROWS
from leadline.tasks.runs.baseline import NONE, find_baseline
from leadline.tasks.runs.heartbeats import giving_signs
from leadline.tasks.runs.run_facts import RunFacts, tally_in_words
from leadline.tasks.runs.run_index import RunLine
from leadline.tasks.runs.run_sentences import cost_line, gate_line, scores_line, work_line
from leadline.tasks.score.chunk import ChunkResult
from leadline.tasks.score.executor import default_processes
from leadline.tasks.stopping.looks import Look
from leadline.tasks.stopping.waves import WaveOutcome, stop_in_words, wave_of
from leadline.tasks.store.store import RESCORED, Run, Store
from leadline.tasks.wave_steps import StopQuestions, end_waves, look_after

LONG_S: Final = 6 * 3600.0
"""Seconds of scoring after which judges are checked again at the end."""

AHEAD_S: Final = 1.5
"""Seconds of judging after which there is time to import what comes after it."""

FINISHED: Final = "leadline.finished"
"""Group of entry points that are called with store, run, times and error at the end of a run; see :func:`_tell`."""

log = logging.getLogger("leadline.run")

P = ParamSpec("P")
R = TypeVar("R")


class Evaluate(Job[EvaluateConfig, Prepared, EvaluationSteps, EvaluateResult]):
    """Score the answers in a dataset and publish a report.

    Args:
        asks_here: Whether judges are asked by this process or its children, so that their keys must be here; workers
            have keys of their own.
    """

    name = "evaluate"
    Config = EvaluateConfig
    first_step = "load"
    named = "dataset"
    kept = "Interrupted. Finished chunks are kept: the same command goes on from there."
    label_width = 10

    def __init__(self, *, asks_here: bool = False) -> None:
        self._asks_here = asks_here

    def check(self, config: EvaluateConfig) -> Prepared:
        """Check the request, load its dataset, and give that to other hosts. See :func:`.prepare.prepare`."""
        prepared = prepare(config, check_key=self._asks_here)
        prepared.store.share_dataset(prepared.loaded.digest)
        return prepared

    def run(self, config: EvaluateConfig, checked: Prepared, steps: EvaluationSteps) -> EvaluateResult:
        """Evaluate a dataset.

        Args:
            config: What to evaluate, with which evaluators, and what makes the gate fail.
        """
        return _Evaluation(config, checked, steps).result()

    def carry_out(
        self, config: EvaluateConfig, steps: EvaluationSteps, checked: Prepared | None = None
    ) -> EvaluateResult:
        """Check and evaluate; the time is that of the command, if there is one, which began before and ends after."""
        if current() is not None:
            return super().carry_out(config, steps, checked)
        with timed_by(Timeline()) as timeline:
            result = super().carry_out(config, steps, checked)
            return record_time(result, Store.open(config.store), timeline)

    def plain_steps(self, config: EvaluateConfig, history: History = NO_HISTORY) -> EvaluationSteps:
        """Return what runs the steps, and the scoring of each chunk, in this process."""
        return EvaluationSteps(history, self.about(config))

    def task_steps(self, config: EvaluateConfig) -> EvaluationSteps:
        """Return what runs the steps, and the scoring of each chunk, as Prefect tasks."""
        from leadline.flows.evaluate.prefect_steps import PrefectSteps  # Prefect takes more than a second

        return PrefectSteps(**self.about(config))

    def run_name(self, config: EvaluateConfig) -> str:
        """Return the name of a run, which has that of the evaluation or of its dataset."""
        return f"evaluate {config.name or Path(config.dataset).stem}"

    def asks(self, checked: Prepared) -> bool:
        """Return whether there is a judge."""
        return bool(checked.settings.judges)

    def notices(self, checked: Prepared) -> Iterable[str]:
        """Yield what is wrong with the columns, and how many evaluators do not run although nobody excluded them."""
        for warning in checked.loaded.column_warnings:
            yield f"Warning: {warning}."
        if left_out := checked.applicable().left_out:
            yield _left_out(left_out)

    def lines(self, result: EvaluateResult) -> Iterable[tuple[str, str]]:
        """Yield what the gate says, what was scored, and where the report is."""
        page = result.report.absolute()
        yield "Gate", gate_line(result)
        for answer in result.questions:
            yield f"  {answer.question}", answer.line
        if result.stopping:
            yield "Judging", result.stopping
        yield "Scores", scores_line(result)
        yield "Rows", work_line(result)
        if result.judge_calls or result.judge_made_again:
            yield "Judge", cost_line(result)
        yield "Problems", tally_in_words(result.problems_by_fault)
        for place, text in enumerate(result.worst):
            yield "" if place else "Worst", text
        for label, text in (
            ("Choose", result.recommendation),
            ("Changed", result.changed),
            ("Embedder", result.embedder),
            ("Time", result.time.in_words()),
            ("Run", result.run),
            ("Report", str(page)),
        ):
            if text:
                yield label, text
        yield "", result.report_url or page.as_uri()
        if not (result.report.parent / "scores.csv").exists():  # the run is too large, and they were not asked for
            how = f"per evaluator, and as CSV: leadline store export {result.run} --as sonar|csv"
            yield "Files", f"every score is in scores.parquet; {how}"

    def record(self, result: EvaluateResult) -> dict[str, Any]:
        """Return the outcome for programs, as JSON, with the report's address."""
        return super().record(result) | {"report_uri": result.report_url or result.report.absolute().as_uri()}


class _Evaluation:
    """A run of an evaluation, from its plan to its report.

    Args:
        config: What to evaluate, with which evaluators, and what makes the gate fail.
        steps: How the steps are run: in this process, or as Prefect tasks.
    """

    def __init__(self, config: EvaluateConfig, prepared: Prepared, steps: EvaluationSteps) -> None:
        self._config, self._steps = config, steps
        self._store, self._settings = prepared.store, prepared.settings
        self._timeline = current() or Timeline()
        self._retries = Retries(prepared.settings.judges)
        self._lasting = is_dask(config.dispatch)
        self._dispatcher: Dispatcher = dispatcher(Dispatch.DASK) if self._lasting else steps
        self._processes = config.processes or default_processes()
        needed = {evaluator.lane for evaluator in prepared.choice.evaluators}
        self._workers = self._dispatcher.workers(config.dispatch, needed, self._processes)
        with self._timeline.part("plan"):
            self._planned = self._step(
                "plan",
                pipeline.plan_run,
                self._store,
                prepared.loaded,
                prepared.choice,
                self._settings,
                model_keys=config.model_keys,
                processes=self._processes,
                trials=config.judges.trials,
                trial_rows=config.judges.trial_rows,
                turns=config.judges.turns,
                limits=limits_of(config.judges),
                canaries=canaries_of(config.judges),
                workers=self._workers,
                origin={**steps.origin(), **({RESCORED: prepared.rescored} if prepared.rescored else {})},
                lasting=self._lasting,
                config=config.model_dump(mode="json") | ({"dataset": prepared.shown} if prepared.shown else {}),
                policy=prepared.policy,
                in_waves=config.stop_when == "decided",
            )
        self._run = self._store.run(self._planned.run)

    def result(self) -> EvaluateResult:
        """Score what is planned, and return the run, where its report is, and what the gate says."""
        with giving_signs(self._store, self._run), logged_as(log_context.run, self._run.id):
            try:
                self._score()
                with kept_open(self._run):
                    return self._conclude()
            except BaseException as error:
                self._run.fail(error, time=self._timeline.so_far().to_json())
                if isinstance(error, Exception):  # whoever interrupts a run does not want to wait
                    _tell(self._store, self._run, self._timeline, error)
                raise

    def _step(self, name: str, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run one step and report its begin and end."""
        report(name, done=0)
        result = self._steps.step(name, function, *args, **kwargs)
        report(name, done=1)
        return result

    def _score(self) -> None:
        planned, config = self._planned, self._config
        if planned.judges:
            with self._timeline.part("score"):
                self._watch()
        with self._timeline.part("score"):
            if any(chunk.lane == "gpu" and chunk.lane not in self._workers for chunk in planned.chunks):
                require_device(self._settings)
            lanes, follow = self._open(planned.chunks)
            with _importing_ahead(planned.chunks):
                if planned.waves:
                    self._score_in_waves(lanes, follow)
                else:
                    self._steps.score(planned.chunks, lanes, self._retries, follow)
        if config.judges.trial_rows != ALL_ROWS:
            self._judge_further("plan further trials", pipeline.plan_further_trials)
            if config.attribute_flips:
                self._judge_further("plan flip causes", pipeline.plan_flip_causes)
        if planned.judges and self._timeline.so_far().parts.get("score", 0.0) > LONG_S:
            self._watch(part=f"end of {self._run.id}")

    def _open(self, chunks: tuple[Chunk, ...]) -> tuple[Lanes, Finished]:
        """Return lanes for chunks, not yet entered, and what takes note of each chunk's end."""
        lanes = open_lanes(self._processes, chunks, self._workers, self._config.dispatch, self._dispatcher)
        return lanes, _follow(self._run, chunks, self._steps, self._retries, self._timeline)

    def _watch(self, part: str = "") -> None:
        """See to it that no judge that changed goes unnoticed; rows are not put to one where a gate depends on them."""
        judges = self._config.judges
        stop = judges.on_drift == "stop" or (judges.on_drift is None and self._config.fail_on != FailOn.NEVER)
        self._step(
            "judges",
            pipeline.watch_judges,
            self._store,
            self._run,
            self._settings,
            self._planned.judges,
            stop=stop,
            limits=limits_of(judges),
            part=part,
        )

    def _judge_further(self, name: str, plan: Callable[..., pipeline.Planned]) -> None:
        """Judge the rows that the first trial calls for, and add them to the plan.

        Args:
            name: Name of the step that plans them.
        """
        with self._timeline.part("plan"):
            again: pipeline.Planned = self._step(
                name,
                plan,
                self._store,
                self._run,
                processes=self._processes,
                workers=self._workers,
                lasting=self._lasting,
            )
        with self._timeline.part("score"):
            lanes, follow = self._open(again.chunks)
            self._steps.score(again.chunks, lanes, self._retries, follow)
        before = self._planned
        self._planned = replace(
            before,
            chunks=before.chunks + again.chunks,
            reused=before.reused + again.reused,
            to_compute=before.to_compute + again.to_compute,
        )

    def _score_in_waves(self, lanes: Lanes, follow: Finished) -> None:
        """Score wave by wave until the outcome is decided, and take what was not judged out of the plan.

        Lanes that ask no judge are scored whole beside the first. A wave is looked at only when all its chunks have
        ended, whether the rest could still change what is asked.
        """
        planned, asked = self._planned, self._asked()
        look: Look | None = None
        wave = 0
        with lanes:
            for wave in range(planned.waves):
                chunks = [chunk for chunk in planned.chunks if wave_of(chunk.part) == wave]
                self._steps.score(chunks, lanes, self._retries, follow)
                if wave == planned.waves - 1:
                    break
                look = self._steps.step("look", look_after, self._store, self._run, wave, asked)
                told = ", ".join(look.open) or look.decision
                said = f"open: {told}" if look.decision == "open" else told
                self._steps.log.info("After wave %d: %s", wave + 1, said)
                if look.decision != "open":
                    break
        self._steps.step("end waves", end_waves, self._store, self._run, wave, planned.waves, look, asked)
        judged = tuple(chunk for chunk in planned.chunks if wave_of(chunk.part) <= wave)
        left = sum(chunk.scores for chunk in planned.chunks) - sum(chunk.scores for chunk in judged)
        self._planned = replace(planned, chunks=judged, to_compute=planned.to_compute - left)

    def _asked(self) -> StopQuestions:
        """Return what must be decided before judging may stop."""
        asked = StopQuestions(self._config.fail_on.value, self._config.min_coverage)
        if self._config.against in (None, NONE):
            return asked
        found = find_baseline(self._store, self._run, self._config.against)
        return replace(asked, against=found.run.id if found.run else None, no_baseline=found.note)

    def _conclude(self) -> EvaluateResult:
        """Turn scores into aggregates, findings and files."""
        store, run, planned, timeline = self._store, self._run, self._planned, self._timeline
        with timeline.part("aggregate"):
            self._find()
        # The report is written before the run ends, and says the time until then.
        known = {"reused": planned.reused, "computed": planned.to_compute}
        seconds = {"chunk_seconds": timeline.chunks, "evaluator_seconds": timeline.evaluators}
        run.update(known | seconds | {"time": timeline.so_far().to_json()}, tell=False)
        output = Path(self._config.output) if self._config.output else None
        with timeline.part("publish"):
            published = self._step("publish", pipeline.publish_results, store, run, output)
        time = timeline.so_far()
        report_at = pipeline.report_location(run, published)
        # Another host that took the run for lost may have written an error.
        record = run.update({"status": "completed", "error": None, "time": time.to_json(), "report": report_at})
        facts = RunFacts(run.id, record)
        result = EvaluateResult(
            run=run.id,
            folder=run.path,
            report=published.report,
            report_url=run.report if store.remote else "",
            gate=facts.gate,
            gate_reason=facts.gate_reason,
            questions=facts.questions,
            gate_counted=facts.gate_counted,
            stopping=facts.stopping,
            changed=record.get("changed", ""),
            worst=[problem.headline for problem in published.summary.worst],
            recommendation=published.summary.recommendation,
            problems=record["problems"],
            problems_by_fault=facts.problems_by_fault,
            scored=facts.scored,
            unscored=facts.unscored,
            not_applicable=facts.not_applicable,
            reused=planned.reused,
            computed=planned.to_compute,
            time=time,
            embedder=record["embedder"],
            judge_calls=facts.judge_calls,
            judge_cost_usd=facts.judge_cost_usd,
            judge_unknown_price=facts.judge_unknown_price,
            judge_made_again=facts.judge_made_again,
        )
        self._steps.conclude(store, run, result)
        return result

    def _find(self) -> None:
        """Aggregate the scores, and find and record what they say."""
        store, run, config = self._store, self._run, self._config
        # A run that stops for its gate alone is not compared unless that was asked.
        against = NONE if config.stop_when == "decided" and config.against is None else config.against

        def step(name: str, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
            with self._timeline.step(name):
                return self._step(name, function, *args, **kwargs)

        step("gather", pipeline.gather_scores, store, run)
        step("aggregate", pipeline.aggregate_scores, store, run)
        step("slices", pipeline.measure_slices, store, run, names=config.slices)
        step("flips", pipeline.detect_flips, store, run)
        if config.attribute_flips:
            step("flip causes", pipeline.attribute_flips, store, run)
        step("changes", pipeline.compare_with_baseline, store, run, against)
        step("corrections", pipeline.correct_scores, store, run, config.labels, config.gate_on)
        problems = step("problems", pipeline.detect_problems, store, run)
        step("insights", pipeline.derive_insights, store, run)
        decision = step(
            "gate", pipeline.decide_gate, store, run, fail_on=config.fail_on, min_coverage=config.min_coverage
        )
        if stopped := WaveOutcome.of(run.read()):
            run.update({"stopped_why": stop_in_words(stopped, decision.gate)}, tell=False)
        pipeline.count_scores(store, run)
        pipeline.count_judge_calls(store, run)
        run.update({"problems": problems}, tell=False)


def record_time(result: EvaluateResult, store: Store, timeline: Timeline) -> EvaluateResult:
    """Bring the time of a run up to date where all is done, in its record and in its result, which is returned."""
    run, time = store.run(result.run), timeline.so_far()
    run.update({"time": time.to_json()})
    _tell(store, run, timeline)
    return result.model_copy(update={"time": time})


def _tell(store: Store, run: Run, timeline: Timeline, error: Exception | None = None) -> None:
    """Tell plug-ins that a run has ended, and record the facts that they return; what fails in them harms no run."""
    for entry in extensions(FINISHED):
        try:
            facts = entry.load()(store, run, timeline, error)
        except Exception as failure:
            log.warning("%s failed after the run: %s: %s", entry.value, type(failure).__name__, failure)
        else:
            if facts and error is None:
                run.update(facts)


@contextmanager
def _importing_ahead(chunks: Iterable[Chunk]) -> Iterator[None]:
    """Import what concluding a run needs while judges are waited for, once the models beside them are loaded."""
    if not any(chunk.lane == "judge" for chunk in chunks):
        yield
        return
    timer = Timer(AHEAD_S, pipeline.import_ahead)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def _follow(
    run: Run, chunks: Sequence[Chunk], steps: EvaluationSteps, retries: Retries, timeline: Timeline
) -> Finished:
    """Return what takes note of each chunk's end; a chunk that fails for good leaves its rows unscored.

    But for a device that is nowhere, which is a fault of the request.
    """
    devices: set[str] = set()
    totals: dict[str, int] = {}
    for chunk in chunks:
        totals[chunk.lane] = totals.get(chunk.lane, 0) + chunk.scores
    done = dict.fromkeys(totals, 0)
    for lane, total in totals.items():
        report("score", lane, 0, total)
        timeline.mark_lane(lane)

    def finished(chunk: Chunk, result: ChunkResult | BaseException) -> None:
        if isinstance(result, ChunkResult):
            steps.log.info("%s: %d scored, %d not, %s", result.chunk, result.scored, result.unscored, result.seconds)
            timeline.add(result.spans)
            timeline.add_chunk(chunk.lane, result.wall_s, result.seconds)
            if result.device not in {"", *devices}:
                devices.add(result.device)
                run.update({"devices": sorted(devices)}, tell=False)
        elif isinstance(result, LeadlineError) and result.code == ErrorCode.MODEL_DEVICE:
            raise UsageError(result.message, hint=result.hint, code=result.code) from result
        else:
            steps.log.error("%s failed for good: %s", chunk.name, result)
        if chunk.lane == "judge":
            retries.learn(result)
        timeline.mark_lane(chunk.lane)
        done[chunk.lane] += chunk.scores
        report("score", chunk.lane, done[chunk.lane], totals[chunk.lane])

    return finished


def _left_out(left_out: Mapping[str, str]) -> str:
    """Say how many evaluators do not run, and which of them a command would bring."""
    absent = sum(why.endswith(NOT_HERE) for why in left_out.values())
    judged = sum(why == NO_JUDGE for why in left_out.values())
    lacks = [f"{judged} for want of a judge (--judge MODEL)"] * bool(judged)
    lacks += [f"{absent} for want of weights (leadline evaluators models lists them)"] * bool(absent)
    number_left = f"{count(len(left_out), 'evaluator')} {nouns(len(left_out), 'is', 'are')} left out"
    return f"{', '.join([number_left, *lacks])}. leadline evaluate --plan says why each is."


class EvaluateAgain(Evaluate):
    """Score the answers of an earlier run again."""

    def __init__(self, line: RunLine) -> None:
        super().__init__(asks_here=True)
        self._line = line

    def check(self, config: EvaluateConfig) -> Prepared:
        """Check the request with the dataset that the run had, and give that to other hosts."""
        prepared = prepared_again(config, self._line, check_key=True)
        prepared.store.share_dataset(prepared.loaded.digest)
        return prepared
