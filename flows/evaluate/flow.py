"""The main flow: a file of answers becomes a scored, explained report.

``load → plan → score (fan-out) → gather → aggregate → flips → problems → insights → publish``. The flow contains no
logic: each step is a function of the tasks room, run as a Prefect task that passes paths and counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from prefect import flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.futures import PrefectFuture
from prefect.runtime import flow_run
from prefect.task_runners import ThreadPoolTaskRunner

from leadline.flows.dispatch.lanes import Lanes
from leadline.flows.dispatch.pools import served
from leadline.flows.evaluate.artifacts import Progress, publish_artifacts
from leadline.flows.evaluate.config import EvaluateConfig, EvaluateResult
from leadline.flows.evaluate.prepare import prepare
from leadline.flows.shared.judges import Retries, canaries_of, limits_of
from leadline.flows.shared.reporting import report
from leadline.tasks import pipeline
from leadline.tasks.analyse.findings.tally import what_counts
from leadline.tasks.load import load_dataset
from leadline.tasks.plan.chunks import Chunk
from leadline.tasks.score.chunk import ChunkResult
from leadline.tasks.score.executor import default_processes, drive
from leadline.tasks.store.store import Run, Store

P = ParamSpec("P")
R = TypeVar("R")


_RUNNER: Any = ThreadPoolTaskRunner(max_workers=260)
"""One thread per chunk that may be waiting; the lanes bound what is in work."""


def _step(name: str, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run one step as a Prefect task and report its begin and end."""
    report(name, done=0)
    result = task(name=name, cache_policy=NO_CACHE, persist_result=False)(function)(*args, **kwargs)
    report(name, done=1)
    return result


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
    started = time.monotonic()
    prepared = prepare(config, load=lambda *args, **options: _step("load", load_dataset, *args, **options))
    settings, store = prepared.settings, prepared.store
    processes = config.processes or default_processes()
    workers = served(config.dispatch, {evaluator.spec.lane for evaluator in prepared.choice.evaluators})
    planned = _step(
        "plan",
        pipeline.plan_run,
        store,
        prepared.loaded,
        prepared.choice,
        settings,
        model_keys=config.model_keys,
        processes=processes,
        trials=config.judges.trials,
        limits=limits_of(config.judges),
        canaries=canaries_of(config.judges),
        workers=workers,
        config=config.model_dump(mode="json"),
    )
    run = store.run(planned.run)
    try:
        run.update({"workers": dict(workers)})
        _score(planned.chunks, Lanes(processes, planned.chunks, workers, config.dispatch), Retries(settings.judges))
        return _conclude(store, run, config, planned, started)
    except BaseException as error:
        run.fail(error)
        raise


def _score(chunks: tuple[Chunk, ...], lanes: Lanes, retries: Retries) -> None:
    """Score all chunks, each as a task of its own; a chunk that fails for good leaves its rows unscored."""
    log = get_run_logger()
    totals: dict[str, int] = {}
    for chunk in chunks:
        totals[chunk.lane] = totals.get(chunk.lane, 0) + chunk.scores
    done = dict.fromkeys(totals, 0)
    for lane, total in totals.items():
        report("score", lane, 0, total)
    progress = Progress(sum(totals.values()))
    with lanes:
        score = task(
            name="score",
            task_run_name="score {chunk.name}",
            retries=2,
            retry_delay_seconds=[1, 5],
            retry_condition_fn=lambda *_: not lanes.ending,
            cache_policy=NO_CACHE,
            persist_result=False,
        )(lanes.score)
        judge = score.with_options(
            retry_delay_seconds=retries.delays,
            # Prefect takes any bound method for a "no"
            retry_condition_fn=lambda *_: retries.worth_it() and not lanes.ending,
        )

        def submit(chunk: Chunk) -> PrefectFuture[ChunkResult]:
            return (judge if chunk.lane == "judge" else score).submit(chunk)

        def finished(chunk: Chunk, future: PrefectFuture[ChunkResult]) -> None:
            result = future.result(raise_on_failure=False)
            if isinstance(result, ChunkResult):
                log.info("%s: %d scored, %d not, %s", result.chunk, result.scored, result.unscored, result.seconds)
            else:
                log.error("%s failed for good: %s", chunk.name, result)
            if chunk.lane == "judge":
                retries.learn(result)
            done[chunk.lane] += chunk.scores
            report("score", chunk.lane, done[chunk.lane], totals[chunk.lane])
            progress.update(sum(done.values()))

        drive(chunks, lanes.widths, submit, finished)


def _conclude(
    store: Store, run: Run, config: EvaluateConfig, planned: pipeline.Planned, started: float
) -> EvaluateResult:
    """Turn scores into aggregates, findings and files."""
    _step("gather", pipeline.gather_scores, store, run)
    _step("aggregate", pipeline.aggregate_scores, store, run)
    _step("flips", pipeline.detect_flips, store, run)
    problems = _step("problems", pipeline.detect_problems, store, run)
    _step("insights", pipeline.derive_insights, store, run)
    decision = _step("gate", pipeline.decide_gate, store, run, fail_on=config.fail_on, min_coverage=config.min_coverage)
    counts = pipeline.count_scores(store, run)
    judged = pipeline.count_judge_calls(store, run)
    run.update({"reused": planned.reused, "computed": planned.to_compute, "problems": problems})
    published = _step("publish", pipeline.publish_results, store, run, Path(config.output) if config.output else None)
    seconds = round(time.monotonic() - started, 2)
    run.update({"status": "completed", "seconds": seconds, "report": pipeline.report_location(run, published)})
    record = run.read()
    result = EvaluateResult(
        run=run.id,
        folder=run.path,
        report=published.report,
        report_url=run.report if store.remote else "",
        gate=decision.gate,
        gate_reason=decision.reason,
        gate_counted=what_counts(record),
        problems=problems,
        problems_by_fault=record["problems_by_fault"],
        scored=counts["scored"],
        unscored=counts["unscored"],
        not_applicable=counts["not_applicable"],
        reused=planned.reused,
        computed=planned.to_compute,
        seconds=seconds,
        judge_calls=judged["answered"],
        judge_cost_usd=judged["cost_usd"],
        judge_unknown_price=judged["unknown_price"],
        judge_made_again=judged["made_again"],
    )
    publish_artifacts(store, run, result)
    return result
