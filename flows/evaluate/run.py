"""An evaluation from its request to its report; the flow and the command line both run this.

``load → plan → score (in chunks) → gather → aggregate → slices → flips → changes → corrections → problems →
insights → gate → publish``. There is no logic here: each step is a function of the tasks room that takes paths and
plain values.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple, ParamSpec, TypeVar

from leadline.evaluators.core import Lane
from leadline.evaluators.ground import ErrorCode, LeadlineError, UsageError, extensions
from leadline.evaluators.models.runtime import require_device
from leadline.evaluators.settings import Settings
from leadline.flows.dispatch.dispatcher import dispatcher
from leadline.flows.dispatch.lanes import open_lanes
from leadline.flows.evaluate.config import EvaluateConfig, EvaluateResult
from leadline.flows.evaluate.prepare import Prepared
from leadline.flows.evaluate.steps import EvaluationSteps
from leadline.flows.evaluate.waves import Scoring, against_of, score_in_waves
from leadline.flows.shared.judge_access import Retries, canaries_of, limits_of
from leadline.flows.shared.reporting import report
from leadline.flows.shared.settings import Dispatch, FailOn, is_dask
from leadline.tasks import pipeline
from leadline.tasks.db import kept_open
from leadline.tasks.ground import log_context
from leadline.tasks.ground.log_context import logged_as
from leadline.tasks.ground.timeline import Timeline, current
from leadline.tasks.plan.jobs import ALL_ROWS, Chunk
from leadline.tasks.runs.run_facts import RunFacts
from leadline.tasks.runs.signs_of_life import giving_signs
from leadline.tasks.score.chunk import ChunkResult
from leadline.tasks.score.executor import default_processes
from leadline.tasks.stopping.waves import WaveOutcome, stop_in_words
from leadline.tasks.store.store import Run, Store

LONG_S: Final = 6 * 3600.0
"""Seconds of scoring after which judges are checked again at the end."""

FINISHED: Final = "leadline.finished"
"""Group of entry points that are called with store, run, times and error at the end of a run; see :func:`_tell`."""

log = logging.getLogger("leadline.run")

P = ParamSpec("P")
R = TypeVar("R")


def run_evaluation(config: EvaluateConfig, prepared: Prepared, steps: EvaluationSteps) -> EvaluateResult:
    """Evaluate a dataset.

    Args:
        config: What to evaluate, with which evaluators, and what makes the gate fail.
        prepared: What that comes to.
        steps: How the steps are run: in this process, or as Prefect tasks.

    Returns:
        The run, where its report is, and what the gate says.
    """
    timeline = current() or Timeline()
    settings, store = prepared.settings, prepared.store
    processes = config.processes or default_processes()
    needed = {evaluator.lane for evaluator in prepared.choice.evaluators}
    dask = is_dask(config.dispatch)
    if dask:
        workers = dispatcher(Dispatch.DASK).workers(config.dispatch, needed, processes)
    else:
        workers = steps.workers(config.dispatch, needed)
    with timeline.part("plan"):
        planned = _step(
            steps,
            "plan",
            pipeline.plan_run,
            store,
            prepared.loaded,
            prepared.choice,
            settings,
            model_keys=config.model_keys,
            processes=processes,
            trials=config.judges.trials,
            trial_rows=config.judges.trial_rows,
            limits=limits_of(config.judges),
            canaries=canaries_of(config.judges),
            workers=workers,
            origin=steps.origin(),
            lasting=dask,
            config=config.model_dump(mode="json") | ({"dataset": prepared.shown} if prepared.shown else {}),
            policy=prepared.policy,
            in_waves=config.stop_when == "decided",
        )
    run = store.run(planned.run)
    with giving_signs(store, run), logged_as(log_context.run, run.id):
        try:
            retries = Retries(settings.judges)
            if planned.judges:
                with timeline.part("score"):
                    _watch(store, run, config, settings, planned, steps)
            with timeline.part("score"):
                if any(chunk.lane == "gpu" and chunk.lane not in workers for chunk in planned.chunks):
                    require_device(settings)
                lanes = open_lanes(processes, planned.chunks, workers, config.dispatch)
                follow = _follow(run, planned.chunks, steps, retries, timeline)
                if planned.waves:
                    planned = score_in_waves(store, run, config, planned, Scoring(steps, lanes, retries, follow))
                else:
                    steps.score(planned.chunks, lanes, retries, follow)
            places = _Places(processes, workers, dask)
            for name, function in _later_parts(config).items():
                further = _Further(name, function, store, run)
                planned = _judge_further(further, planned, places, config, steps, retries, timeline)
            if planned.judges and timeline.so_far().parts.get("score", 0.0) > LONG_S:
                _watch(store, run, config, settings, planned, steps, part=f"end of {run.id}")
            with kept_open(run):
                return _conclude(store, run, config, planned, steps, timeline)
        except BaseException as error:
            run.fail(error, time=timeline.so_far().to_json())
            if isinstance(error, Exception):  # whoever interrupts a run does not want to wait
                _tell(store, run, timeline, error)
            raise


def record_time(result: EvaluateResult, store: Store, timeline: Timeline) -> EvaluateResult:
    """Bring the time of a run up to date where all is done, in its record and in its result, which is returned.

    Args:
        result: What :func:`run_evaluation` returned.
        timeline: The run's time.
    """
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


class _Places(NamedTuple):
    """Places where chunks are scored: processes here, workers by lane, and whether these stay from chunk to chunk."""

    processes: int
    workers: Mapping[Lane, int]
    lasting: bool


class _Further(NamedTuple):
    """A later part of a run's plan: the name of its step, and what plans it."""

    name: str
    plan: Callable[..., pipeline.Planned]
    store: Store
    run: Run


def _later_parts(config: EvaluateConfig) -> Mapping[str, Callable[..., pipeline.Planned]]:
    """Return what plans rows by what the first trial says, by the name of the step."""
    if config.judges.trial_rows == ALL_ROWS:
        return {}
    parts = {"plan further trials": pipeline.plan_further_trials}
    return parts | ({"plan flip causes": pipeline.plan_flip_causes} if config.attribute_flips else {})


def _judge_further(
    further: _Further,
    planned: pipeline.Planned,
    places: _Places,
    config: EvaluateConfig,
    steps: EvaluationSteps,
    retries: Retries,
    timeline: Timeline,
) -> pipeline.Planned:
    """Judge the rows that the first trial calls for; returns the plan with what that added to it."""
    with timeline.part("plan"):
        again = _step(steps, further.name, further.plan, further.store, further.run, **places._asdict())
    with timeline.part("score"):
        lanes = open_lanes(places.processes, again.chunks, places.workers, config.dispatch)
        steps.score(again.chunks, lanes, retries, _follow(further.run, again.chunks, steps, retries, timeline))
    return replace(
        planned,
        chunks=planned.chunks + again.chunks,
        reused=planned.reused + again.reused,
        to_compute=planned.to_compute + again.to_compute,
    )


def _watch(
    store: Store,
    run: Run,
    config: EvaluateConfig,
    settings: Settings,
    planned: pipeline.Planned,
    steps: EvaluationSteps,
    part: str = "",
) -> None:
    """See to it that no judge that changed goes unnoticed; rows are not put to one where a gate depends on them."""
    stop = config.judges.on_drift == "stop" or (config.judges.on_drift is None and config.fail_on != FailOn.NEVER)
    limits = limits_of(config.judges)
    _step(
        steps,
        "judges",
        pipeline.watch_judges,
        store,
        run,
        settings,
        planned.judges,
        stop=stop,
        limits=limits,
        part=part,
    )


def _step(steps: EvaluationSteps, name: str, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run one step and report its begin and end."""
    report(name, done=0)
    result = steps.step(name, function, *args, **kwargs)
    report(name, done=1)
    return result


def _follow(
    run: Run, chunks: tuple[Chunk, ...], steps: EvaluationSteps, retries: Retries, timeline: Timeline
) -> Callable[[Chunk, ChunkResult | BaseException], None]:
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


def _conclude(
    store: Store,
    run: Run,
    config: EvaluateConfig,
    planned: pipeline.Planned,
    steps: EvaluationSteps,
    timeline: Timeline,
) -> EvaluateResult:
    """Turn scores into aggregates, findings and files."""
    with timeline.part("aggregate"):
        _find(store, run, config, steps, timeline)
    # The report is written before the run ends, and says the time until then.
    known = {"reused": planned.reused, "computed": planned.to_compute}
    seconds = {"chunk_seconds": timeline.chunks, "evaluator_seconds": timeline.evaluators}
    run.update(known | seconds | {"time": timeline.so_far().to_json()}, tell=False)
    output = Path(config.output) if config.output else None
    with timeline.part("publish"):
        published = _step(steps, "publish", pipeline.publish_results, store, run, output)
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
    steps.conclude(store, run, result)
    return result


def _find(store: Store, run: Run, config: EvaluateConfig, steps: EvaluationSteps, timeline: Timeline) -> None:
    """Aggregate the scores, and find and record what they say."""

    def step(name: str, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        with timeline.step(name):
            return _step(steps, name, function, *args, **kwargs)

    step("gather", pipeline.gather_scores, store, run)
    step("aggregate", pipeline.aggregate_scores, store, run)
    step("slices", pipeline.measure_slices, store, run, names=config.slices)
    step("flips", pipeline.detect_flips, store, run)
    if config.attribute_flips:
        step("flip causes", pipeline.attribute_flips, store, run)
    step("changes", pipeline.compare_with_baseline, store, run, against_of(config))
    step("corrections", pipeline.correct_scores, store, run, config.labels, config.gate_on)
    problems = step("problems", pipeline.detect_problems, store, run)
    step("insights", pipeline.derive_insights, store, run)
    decision = step("gate", pipeline.decide_gate, store, run, fail_on=config.fail_on, min_coverage=config.min_coverage)
    if stopped := WaveOutcome.of(run.read()):
        run.update({"stopped_why": stop_in_words(stopped, decision.gate)}, tell=False)
    pipeline.count_scores(store, run)
    pipeline.count_judge_calls(store, run)
    run.update({"problems": problems}, tell=False)
