"""Drawing the rows that a judge is to be asked about again, from a run or a dataset."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from leadline.evaluators.core import EvalContext, Evaluator, asked_judge
from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.evaluators.settings import JudgeConfig, Settings
from leadline.tasks.db import attach_dataset, connect
from leadline.tasks.judges.drift.enrolment import Probe, ProbedMetric, metric_of
from leadline.tasks.judges.drift.epochs import judge_key
from leadline.tasks.judges.labels.judged_rows import JudgedRows, read_judged_rows
from leadline.tasks.load.dataset import LoadedDataset, load_dataset
from leadline.tasks.plan.jobs import read_jobs
from leadline.tasks.plan.selection import applicable_to, choose
from leadline.tasks.runs.lookup import status
from leadline.tasks.score.canaries import read_canaries
from leadline.tasks.score.rows import missing_inputs, read_rows, reduced
from leadline.tasks.store.store import JOBS, Run, Store

if TYPE_CHECKING:
    from leadline.tasks.statistics.bounded_mean import Ints

MOST_CANARIES: Final = 20
"""Canaries that are probes, too."""

_SPARE: Final = 4
"""Rows that are looked at for each probe where it is not known which of them have what an evaluator needs."""


def probes_of_run(
    store: Store, run: Run, judge: JudgeConfig, number: int, evaluators: Sequence[str] = ()
) -> tuple[list[ProbedMetric], list[Probe]]:
    """Draw rows of a run by the verdicts of a judge: half near the threshold, the others as many of either verdict.

    Args:
        number: Probes wanted, which the evaluators share.
        evaluators: Only for these evaluators; all of the run that ask the judge when empty.

    Raises:
        UsageError: No such evaluator of the run asked this judge.
    """
    store.fetch_plan(run)
    if not (run.plan / JOBS).exists():
        raise run.without_results()
    settings, jobs = read_jobs(run.plan / JOBS)
    ctx = EvalContext(settings)
    kinds = [job.build() for job in jobs if not job.error and (not evaluators or job.evaluator in evaluators)]
    asking = [kind for kind in kinds if _asks(kind, ctx, judge)]
    if not asking:
        raise UsageError(
            f"No evaluator of run {run.id} asked the judge {judge.key!r}"
            + (f" as it is configured now: {', '.join(evaluators)}." if evaluators else " as it is configured now."),
            hint="Evaluate with it, or name a file: --probes FILE",
            code=ErrorCode.DRIFT_ENROLMENT,
        )
    metrics, wanted = [], []
    for kind in asking:
        metric = metric_of(kind)
        if metric is not None:
            metrics.append(metric)
            wanted.append(read_judged_rows(store, run, f"{metric.evaluator}.{metric.metric}"))
    probes = []
    dataset = store.dataset(str(run.read()["dataset"]))
    for place, (metric, judged) in enumerate(zip(metrics, wanted, strict=True)):
        chosen = drawn(judged, metric, _share(number, place, len(metrics)))
        rows = read_rows(dataset, judged.rows[chosen].tolist(), metric.build().reads)
        probes += [Probe(place, row) for row in rows]
    return metrics, probes


def probes_of_file(
    store: Store, file: str, judge: JudgeConfig, settings: Settings, number: int, evaluators: Sequence[str] = ()
) -> tuple[list[ProbedMetric], list[Probe]]:
    """Draw rows of a dataset; by the judge's verdicts where it judged them in an earlier run, else at random.

    Args:
        settings: The settings, whose judge this is.
        number: Probes wanted, which the evaluators share.
        evaluators: The evaluators; those that suit the dataset when empty.

    Raises:
        UsageError: None of the evaluators asks a judge and nothing else, or no row has what they need.
    """
    loaded = load_dataset(store, file)
    for run in reversed(store.runs()):
        record = run.read()
        if record.get("dataset") == loaded.digest and status(record) == "completed":
            try:
                return probes_of_run(store, run, judge, number, evaluators)
            except UsageError:  # another judge's, or its results are gone
                continue
    choice = applicable_to(choose(None, tuple(evaluators), {}, settings), loaded.path)
    ctx = EvalContext(settings)
    metrics = [metric for kind in choice.evaluators if _asks(kind, ctx, judge) and (metric := metric_of(kind))]
    probes = []
    for place, metric in enumerate(metrics):
        share = _share(number, place, len(metrics))
        evaluator = metric.build()
        drawn_rows = read_rows(loaded.path, _any_rows(loaded, _SPARE * share), evaluator.reads)
        rows = [row for row in drawn_rows if not missing_inputs(evaluator, row)]
        probes += [Probe(place, row) for row in rows[:share]]
    if not probes:
        raise UsageError(
            f"{file} has no row for an evaluator that asks the judge {judge.key!r}.",
            hint="Name one: --evaluator ID",
            code=ErrorCode.DRIFT_ENROLMENT,
        )
    return metrics, probes


def canary_probes(store: Store, file: str, metrics: Sequence[ProbedMetric]) -> list[Probe]:
    """Return canaries of the evaluators that are probed."""
    found = []
    for canary in read_canaries(load_dataset(store, file).path, source=file):
        for place, metric in enumerate(metrics):
            if metric.evaluator in canary.expected:
                found.append(Probe(place, reduced(canary.row, metric.build().reads)))
    return found[:MOST_CANARIES]


def _asks(evaluator: Evaluator, ctx: EvalContext, judge: JudgeConfig) -> bool:
    """Return whether an evaluator asks a judge and depends on no other model."""
    config = asked_judge(evaluator, ctx)
    return config is not None and judge_key(config) == judge_key(judge) and not evaluator.models(ctx)


def _share(number: int, place: int, parts: int) -> int:
    return number // parts + (place < number % parts)


def drawn(judged: JudgedRows, metric: ProbedMetric, number: int) -> Ints:
    """Return places of judged rows: half of them near the limit of verdicts, the others of either verdict."""
    values = judged.values
    passes = metric.passes(values)
    order = np.array(_shuffled(range(len(values)), judged.keys), np.int64)
    chosen: list[int] = []
    if len(np.unique(values)) > 2:  # else no row is nearer to the threshold than another
        chosen = order[np.argsort(np.abs(values[order] - metric.limit), kind="stable")][: number // 2].tolist()
    rest = [int(place) for place in order if place not in set(chosen)]
    good, bad = [place for place in rest if passes[place]], [place for place in rest if not passes[place]]
    wanted = number - len(chosen)
    few = min(len(good), len(bad), wanted // 2)
    first, second = (good, bad) if len(good) <= len(bad) else (bad, good)
    chosen += first[: max(few, min(len(first), wanted // 2))]
    chosen += second[: number - len(chosen)]
    return np.array(sorted(chosen), np.int64)


def _shuffled(places: Iterable[int], keys: Sequence[str]) -> list[int]:
    return sorted(places, key=lambda place: hashlib.sha256(f"probes-v1\0{keys[place]}".encode()).digest())


def _any_rows(loaded: LoadedDataset, number: int) -> list[int]:
    with connect(threads=1) as connection:
        attach_dataset(connection, loaded.path)
        found = connection.execute(
            "SELECT row_id FROM rows ORDER BY md5('probes-v1' || row_id::VARCHAR), row_id LIMIT ?", [number]
        ).fetchall()
    return [int(row) for (row,) in found]
