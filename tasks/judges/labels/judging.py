"""Asking a judge about the rows that people labelled: the same scores as in a run, kept where those are kept.

What the store has is not asked again, replies are in the ledger before they count, and what was scored is written to
the store's segments: a process that is killed loses nothing that was paid for.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from secrets import token_hex
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import orjson

from leadline.evaluators.core import EvalContext
from leadline.evaluators.ground import ErrorCode, UsageError, count
from leadline.evaluators.judge_client.budget import Limits
from leadline.evaluators.settings import JudgeConfig, Settings
from leadline.tasks.analyse.gather import run_threshold
from leadline.tasks.db import attach_dataset, connect, literal, records, sql
from leadline.tasks.ground.files import scratch_folder
from leadline.tasks.ground.numbers import money
from leadline.tasks.judges.labels.judged_rows import JudgedMetric, JudgedRows, row_metric
from leadline.tasks.judges.labels.labelled_rows import LabelledRow, LabelledRows
from leadline.tasks.plan import planner
from leadline.tasks.plan.cost import estimate, require_prices
from leadline.tasks.plan.jobs import EvaluatorJob, keep_identity, make_jobs, read_jobs
from leadline.tasks.plan.selection import choose
from leadline.tasks.policy.policy import DEFAULT, load_policy
from leadline.tasks.score.chunk import BATCH_ROWS, score_planned, scoring_context
from leadline.tasks.score.rows import PlannedRows
from leadline.tasks.store.segments import StoredScore, calls_of
from leadline.tasks.store.store import JOBS, Store

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from leadline.evaluators.core import Evaluator
    from leadline.tasks.statistics.bounded_mean import Floats


@dataclass(frozen=True, slots=True)
class Judging:
    """A judge with the evaluator that asks it.

    Attributes:
        settings: What evaluators see; its first judge is the one that is asked.
    """

    evaluator: Evaluator
    settings: Settings
    job: EvaluatorJob
    metric: JudgedMetric


@dataclass(frozen=True, slots=True)
class LabelsNeed:
    """The calls that judging labelled rows still takes.

    Attributes:
        known: Rows whose score the store has.
        to_judge: Distinct rows to put to the judge.
        cost_usd: Their price, ``None`` where it is unknown.
    """

    known: int
    to_judge: int
    calls: int
    cost_usd: float | None

    @property
    def in_words(self) -> str:
        """The calls and their price in words."""
        if not self.to_judge:
            return f"all {self.known:,} rows are judged already, 0 calls."
        price = "price unknown" if self.cost_usd is None else f"about {money(self.cost_usd)}"
        rows = f"{count(self.to_judge, 'row')} to judge, {self.known:,} known"
        return f"{rows}; at most about {count(self.calls, 'call')}, {price}."


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
        verdicts: One for each of the rows, in their order.
    """

    judging: Judging
    labelled: LabelledRows
    verdicts: tuple[RowVerdict, ...]

    @property
    def problems(self) -> dict[str, int]:
        """The number of rows without a value by the reason."""
        return dict(Counter(verdict.problem for verdict in self.verdicts if verdict.value is None))

    def values(self) -> Floats:
        """Return the judge's values in the order of the rows; not a number where it gave none."""
        return np.array([each.value for each in self.verdicts], dtype=float)

    def judged_rows(self) -> JudgedRows:
        """Return the rows with a value in the form in which the rows of a run are held against labels."""
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
            hint="Compare judges by labels of an evaluator that asks one: leadline evaluators list",
            code=ErrorCode.LABEL_SET,
        )
    [job] = make_jobs([evaluator], settings)
    threshold = run_threshold(evaluator, found, load_policy(DEFAULT).rule(evaluator.spec, found))
    fields = row_metric(evaluator, found) | {"threshold": threshold}
    metric = JudgedMetric(**fields, metric_id=0, name=found.name, description=found.description, config=job.config)
    return Judging(evaluator, settings, job, metric)


def need_of(store: Store, labelled: LabelledRows, judging: Judging) -> LabelsNeed:
    """Return what judging labelled rows still takes."""
    known = missing = calls = 0
    prices: list[float | None] = []
    for dataset, rows in _by_dataset(labelled).items():
        with planned_rows(store, dataset, [row.row_id for row in rows], judging.job) as (connection, need):
            known, missing = known + need.reused, missing + need.to_compute
            estimated = estimate(connection, judging.job, judging.settings) if need.to_compute else None
            if estimated is not None:
                calls += estimated.calls
                prices.append(estimated.cost_usd)
    told = [price for price in prices if price is not None]
    return LabelsNeed(known, missing, calls, sum(told) if len(told) == len(prices) else None)


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
        occasion: The name under which calls are put on record; a new one by default.

    Raises:
        UsageError: Money is limited, and the judge's price is unknown.
    """
    limits, occasion = limits or Limits(), occasion or new_occasion()
    require_prices([judging.evaluator], judging.settings, limits)
    ctx = scoring_context(store, judging.settings, occasion, limits)
    keep_identity(store, judging.job)
    found: dict[tuple[str, int], RowVerdict] = {}
    for number, (dataset, rows) in enumerate(_by_dataset(labelled).items()):
        with planned_rows(store, dataset, [row.row_id for row in rows], judging.job) as (connection, _):
            failed = score_missing(store, dataset, judging.job, ctx, connection, f"{occasion}-{number:03d}")
            found |= {(dataset, row): told for row, told in _verdicts(store, judging, connection, failed)}
    return JudgedLabels(judging, labelled, tuple(found[row.dataset, row.row_id] for row in labelled.rows))


def _by_dataset(labelled: LabelledRows) -> dict[str, list[LabelledRow]]:
    found: defaultdict[str, list[LabelledRow]] = defaultdict(list)
    for row in labelled.rows:
        found[row.dataset].append(row)
    return found


@contextmanager
def planned_rows(
    store: Store, dataset: str, rows: Sequence[int], job: EvaluatorJob
) -> Iterator[tuple[DuckDBPyConnection, planner.Need]]:
    """Open a database in memory in which judging some rows of a dataset is planned."""
    store.use_dataset(dataset)
    with connect(threads=1) as connection:
        attach_dataset(connection, store.dataset(dataset))
        [need] = planner.plan(connection, store, [job], rows=rows)
        yield connection, need


def score_missing(
    store: Store, dataset: str, job: EvaluatorJob, ctx: EvalContext, connection: DuckDBPyConnection, name: str
) -> dict[bytes, str]:
    """Score what the store lacks, so many rows at a time in a segment; return why keys have no score.

    Args:
        connection: From :func:`planned_rows`.
    """
    failed: dict[bytes, str] = {}

    def keep_problems(_: int, keys: Sequence[bytes], scores: Sequence[StoredScore], __: int) -> None:
        for key, score in zip(keys, scores, strict=True):
            why = score.failures[0]
            failed[key] = f"{why.reason}: {why.message}"

    connection.execute(sql("plan/lane").format(only=""), [[job.evaluator_id]])
    windows = connection.execute(sql("plan/windows").format(size=BATCH_ROWS[job.lane])).fetchall()
    with scratch_folder(store.root, "labels") as folder:
        pairs = folder / "pairs.parquet"
        connection.execute(sql("plan/write_lane").format(file=literal(pairs)))
        for number, first, last, *_ in windows:
            rows = PlannedRows(store.dataset(dataset), pairs, first, last)
            scored = score_planned(store, rows, [job], ctx, f"{name}-{job.lane}-{number:04d}", keep_problems)
            store.push(one.segment.path for one in scored if one.segment.rows)
    return failed


def _verdicts(
    store: Store, judging: Judging, connection: DuckDBPyConnection, failed: Mapping[bytes, str]
) -> Iterator[tuple[int, RowVerdict]]:
    """Yield the rows that were planned with what the store has of them now."""
    files = planner.segments(store.scores(judging.job.evaluator, judging.job.config))
    statement = sql("labels/verdicts").format(metric=judging.metric.metric, segments=files)
    held = {line["key"]: line for line in records(connection, statement)} if files else {}
    for row_id, state, key in connection.execute(sql("labels/planned_rows")).fetchall():
        line = held.get(key, {})
        problem = ""
        if line.get("value") is None:
            problem = failed.get(key, "not applicable") if state == "score" else state.replace("_", " ")
            if state == "score" and line.get("unscorable"):
                problem = next(iter(orjson.loads(line["unscorable"]).values()))
        yield row_id, RowVerdict(line.get("value"), problem, calls_of(line.get("evidence")))
