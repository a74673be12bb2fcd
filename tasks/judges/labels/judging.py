"""Asking a judge about the rows that people labelled: the same scores as in a run, kept where those are kept.

What the store has is not asked again, replies are in the ledger before they count, and what was scored is written to
the store's segments: a process that is killed loses nothing that was paid for.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from secrets import token_hex
from typing import TYPE_CHECKING, Any, NamedTuple

from leadline.evaluators.core.context import EvalContext
from leadline.evaluators.data.row import RowField, Unscored
from leadline.evaluators.ground.error_codes import ErrorCode
from leadline.evaluators.ground.errors import UsageError
from leadline.evaluators.judge_client.budget import Limits
from leadline.evaluators.settings.judge_config import JudgeConfig
from leadline.evaluators.settings.settings import Settings
from leadline.tasks.analyse.gather import run_threshold
from leadline.tasks.db.connection import attach_dataset, connect, literal
from leadline.tasks.db.statements import sql
from leadline.tasks.db.tables import records
from leadline.tasks.ground.files import write_json
from leadline.tasks.judges.labels.judged_rows import JudgedMetric, JudgedRows
from leadline.tasks.judges.labels.labelled_rows import LabelledRow, LabelledRows
from leadline.tasks.ledger.location import open_ledger
from leadline.tasks.plan.chunks import lane_file
from leadline.tasks.plan.cost import estimate, require_prices
from leadline.tasks.plan.jobs import EvaluatorJob, make_jobs, read_jobs
from leadline.tasks.plan.planner import plan, segments
from leadline.tasks.plan.selection import choose
from leadline.tasks.policy.policy_file import DEFAULT, load_policy
from leadline.tasks.score.guard import score_rows
from leadline.tasks.score.rows import read_chunk
from leadline.tasks.store.parquet_files import atomic_parquet
from leadline.tasks.store.scratch import scratch_folder
from leadline.tasks.store.segments import StoredScore, segment_rows
from leadline.tasks.store.store import JOBS, Store
from leadline.tasks.store.vectors.vectors import ParquetVectors

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from leadline.evaluators.core.base import Evaluator

BATCH_ROWS = 250
"""Rows that a judge is asked about at a time; each batch is in the store before the next."""


@dataclass(frozen=True, slots=True)
class Judging:
    """A judge with the evaluator that asks it.

    Attributes:
        evaluator: The evaluator with its parameters.
        settings: What evaluators see; its first judge is the one that is asked.
        job: The evaluator in this configuration.
        metric: The metric that people labelled.
    """

    evaluator: Evaluator
    settings: Settings
    job: EvaluatorJob
    metric: JudgedMetric

    @property
    def binary(self) -> bool:
        """True if rows pass or fail by the metric; otherwise they have numbers."""
        return self.metric.is_share or self.metric.threshold is not None


@dataclass(frozen=True, slots=True)
class Need:
    """The calls that judging labelled rows still takes.

    Attributes:
        known: Rows whose score the store has.
        to_judge: Distinct rows to put to the judge.
        calls: About how many calls that takes.
        cost_usd: Their price, ``None`` where it is unknown.
    """

    known: int
    to_judge: int
    calls: int
    cost_usd: float | None


class RowVerdict(NamedTuple):
    """The score of one labelled row.

    Attributes:
        value: The metric's value; ``None`` where there is none.
        problem: Why there is none, ``""`` otherwise.
        calls: Digests of the calls that it rests on.
    """

    value: float | None
    problem: str = ""
    calls: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JudgedLabels:
    """Labelled rows with a judge's verdicts.

    Attributes:
        judging: The judge with its evaluator.
        verdicts: One for each of the rows, in their order.
    """

    judging: Judging
    labelled: LabelledRows
    verdicts: tuple[RowVerdict, ...]

    @property
    def problems(self) -> dict[str, int]:
        """The number of rows without a value by the reason."""
        found: defaultdict[str, int] = defaultdict(int)
        for verdict in self.verdicts:
            if verdict.value is None:
                found[verdict.problem] += 1
        return dict(found)

    def judged_rows(self) -> JudgedRows:
        """Return the rows with a value in the form in which the rows of a run are held against labels."""
        import numpy as np

        told = [
            (row, each.value)
            for row, each in zip(self.labelled.rows, self.verdicts, strict=True)
            if each.value is not None
        ]
        return JudgedRows(
            self.judging.metric,
            np.array([row.row_id for row, _ in told], dtype=np.int64),
            [row.key for row, _ in told],
            [row.case for row, _ in told],
            [row.model for row, _ in told],
            np.array([row.cluster for row, _ in told], dtype=np.int64),
            np.array([value for _, value in told], dtype=float),
        )


def configuration_of(store: Store, labelled: LabelledRows) -> tuple[Settings, dict[str, Any]]:
    """Return the settings and the evaluator's parameters of the run of which rows were drawn, apart from its judge.

    Where no run is known, or its plan is gone, these are the defaults.
    """
    if not labelled.run:
        return Settings(), {}
    run = store.run(labelled.run)
    store.fetch_plan(run)
    if not (run.plan / JOBS).exists():
        return Settings(), {}
    settings, jobs = read_jobs(run.plan / JOBS)
    evaluator = labelled.question.rpartition(".")[0]
    params = next((dict(job.params) for job in jobs if job.evaluator == evaluator), {})
    params.pop("custom_eval_judge_config_key", None)
    return settings, params


def judging_by(
    labelled: LabelledRows, judges: tuple[JudgeConfig, ...], settings: Settings, params: Mapping[str, Any]
) -> Judging:
    """Return a judge with the evaluator that people labelled.

    Args:
        judges: The judge, and after it the others that can be asked.
        settings: What else evaluators see.
        params: The evaluator's parameters by name, those that differ from the defaults.

    Raises:
        UsageError: The evaluator asks no judge, or has no such metric.
    """
    name, _, key = labelled.question.rpartition(".")
    settings = replace(settings, judges=judges)
    [evaluator] = choose(None, [name], {name: params} if params else {}, settings).evaluators
    found = next((metric for metric in evaluator.metrics if metric.key == key), None)
    if not evaluator.spec.judge or found is None or found.dataset_level:
        raise UsageError(
            f"{labelled.question} is no metric of rows that a judge gives.",
            hint="Compare judges by labels of an evaluator that asks one: leadline evaluators",
            code=ErrorCode.LABEL_SET,
        )
    [job] = make_jobs([evaluator], settings)
    metric = JudgedMetric(
        metric_id=0,
        evaluator=name,
        metric=key,
        name=found.name,
        description=found.description,
        config=job.config,
        threshold=run_threshold(evaluator, found, load_policy(DEFAULT).rule(evaluator.spec, found)),
        higher_is_better=found.higher_is_better,
        low=float(found.range[0]),
        high=float(found.range[1]),
        is_share=found.share,
    )
    return Judging(evaluator, settings, job, metric)


def need_of(store: Store, labelled: LabelledRows, judging: Judging) -> Need:
    """Return what judging labelled rows still takes.

    Args:
        judging: The judge with its evaluator.
    """
    known, missing, calls, usd = 0, 0, 0, 0.0
    unknown = False
    for dataset, rows in _by_dataset(labelled).items():
        with _planned(store, dataset, rows, judging.job) as connection:
            ((lacking,),) = connection.execute("SELECT count(*) FROM to_compute").fetchall()
            ((distinct,),) = connection.execute("SELECT count(*) FROM wanted").fetchall()
            estimated = estimate(connection, judging.job, judging.settings)
        known, missing = known + distinct - lacking, missing + lacking
        if estimated is not None and lacking:
            calls += estimated.calls
            unknown = unknown or estimated.cost_usd is None
            usd += estimated.cost_usd or 0.0
    return Need(known, missing, calls, None if unknown else usd)


def new_occasion() -> str:
    """Return a name under which calls are put on record that belong to no run; it sorts by time."""
    return f"{occasion_at(datetime.now(UTC))}-{token_hex(3)}"


def occasion_at(time: datetime) -> str:
    """Return how the names of occasions of a time begin, and with them those of the segments that were written then."""
    return time.astimezone(UTC).strftime("labels-%Y%m%d-%H%M%S")


def judge_labelled_rows(
    store: Store, labelled: LabelledRows, judging: Judging, *, limits: Limits | None = None, occasion: str = ""
) -> JudgedLabels:
    """Return a judge's verdicts on labelled rows, after asking it about those that the store has none of.

    Args:
        judging: The judge with its evaluator.
        limits: What may be spent, under this occasion.
        occasion: The name under which calls are put on record; a new one by default.

    Raises:
        UsageError: Money is limited, and the judge's price is unknown.
    """
    limits, occasion = limits or Limits(), occasion or new_occasion()
    require_prices([judging.evaluator], judging.settings, limits)
    ctx = EvalContext(judging.settings, vectors=ParquetVectors(store), ledger=open_ledger(store, occasion, limits))
    identity = store.scores(judging.job.evaluator, judging.job.config) / "config.json"
    if not identity.exists():
        write_json(identity, judging.job.identity)
        store.push([identity])
    found: dict[tuple[str, int], RowVerdict] = {}
    for number, (dataset, rows) in enumerate(_by_dataset(labelled).items()):
        with _planned(store, dataset, rows, judging.job) as connection:
            failed = _score(store, dataset, judging, ctx, connection, f"{occasion}-{number:03d}")
            for row, verdict in _verdicts(store, judging, connection, failed):
                found[dataset, row] = verdict
    return JudgedLabels(judging, labelled, tuple(found[row.dataset, row.row_id] for row in labelled.rows))


def _by_dataset(labelled: LabelledRows) -> dict[str, list[LabelledRow]]:
    found: defaultdict[str, list[LabelledRow]] = defaultdict(list)
    for row in labelled.rows:
        found[row.dataset].append(row)
    return found


@contextmanager
def _planned(store: Store, dataset: str, rows: list[LabelledRow], job: EvaluatorJob) -> Iterator[DuckDBPyConnection]:
    """Open a database in memory in which judging some rows of a dataset is planned."""
    store.use_dataset(dataset)
    with connect(threads=1) as connection:
        attach_dataset(connection, store.dataset(dataset))
        plan(connection, store, [job], rows=[row.row_id for row in rows])
        yield connection


def _score(
    store: Store, dataset: str, judging: Judging, ctx: EvalContext, connection: DuckDBPyConnection, name: str
) -> dict[bytes, str]:
    """Score what the store lacks, each batch in a segment of its own; returns why keys have no score."""
    connection.execute(sql("plan/lane").format(only=""), [[judging.job.evaluator_id]])
    ((rows, first, last),) = connection.execute("SELECT count(*), min(row_id), max(row_id) FROM lane").fetchall()
    failed: dict[bytes, str] = {}
    if not rows:
        return failed
    lane = judging.job.lane
    fields = [field for field in RowField if field in judging.job.reads]
    with scratch_folder(store, "labels") as folder:
        pairs = folder / f"{lane_file(lane)}.parquet"
        connection.execute(sql("plan/write_lane").format(file=literal(pairs)))
        batches = read_chunk(store.dataset(dataset), pairs, first, last, fields, batch=BATCH_ROWS)
        for number, batch in enumerate(batches):
            scores = score_rows(judging.evaluator, [needed.row for needed in batch], ctx)
            ctx.forget()
            keyed = [(next(iter(needed.keys.values())), score) for needed, score in zip(batch, scores, strict=True)]
            complete = [(key, score) for key, score in keyed if score.complete]
            failed |= {key: _problem(score) for key, score in keyed if not score.complete}
            if not complete:
                continue
            keys, scored = zip(*complete, strict=True)
            path = store.scores(judging.job.evaluator, judging.job.config) / f"{name}-{lane}-{number:04d}.parquet"
            with atomic_parquet(path) as segment:
                segment.add(segment_rows(judging.evaluator.row_metrics, keys, scored, 0))
            store.push([path])
    return failed


def _problem(score: StoredScore) -> str:
    """Return why a row has no score."""
    reasons = [value for value in score.values.values() if isinstance(value, Unscored)]
    return f"{reasons[0].reason.value}: {reasons[0].message}" if reasons else "no score"


def _verdicts(
    store: Store, judging: Judging, connection: DuckDBPyConnection, failed: Mapping[bytes, str]
) -> Iterator[tuple[int, RowVerdict]]:
    """Yield the rows that were planned with what the store has of them now."""
    files = segments(store.scores(judging.job.evaluator, judging.job.config))
    held: dict[bytes, tuple[float | None, str | None, str | None]] = {}
    if files:
        statement = sql("labels/verdicts").format(metric=judging.metric.metric, segments=files)
        held = {
            line["key"]: (line["value"], line["evidence"], line["unscorable"])
            for line in records(connection, statement)
        }
    for row_id, state, key in connection.execute(sql("labels/planned_rows")).fetchall():
        value, evidence, unscorable = held.get(key, (None, None, None))
        calls = tuple(json.loads(evidence).get("data", {}).get("calls", ())) if evidence else ()
        if value is not None:
            yield row_id, RowVerdict(value, "", calls)
        elif state != "score":
            yield row_id, RowVerdict(None, state.replace("_", " "))
        elif unscorable:
            yield row_id, RowVerdict(None, next(iter(json.loads(unscorable).values())), calls)
        else:
            yield row_id, RowVerdict(None, failed.get(key, "not applicable"), calls)
