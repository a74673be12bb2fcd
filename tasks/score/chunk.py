"""Scoring a chunk: one pure, idempotent function from a chunk to segments of scores, and the context it works in.

It may run in a thread, in a process pool or on another machine; it may be killed and run again. It reads the
dataset's Parquet files and the plan, and writes segments, batch by batch. It never opens the run's database.
"""

from __future__ import annotations

import gc
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import Any, Final, TypeAlias

from cachetools import LRUCache, cached

from leadline.evaluators.core import EvalContext, Evaluator, Lane
from leadline.evaluators.data import Reason, RowField
from leadline.evaluators.ground import ErrorCode, LeadlineError
from leadline.evaluators.ground.secret_values import mask_logs
from leadline.evaluators.judge_client.budget import Limits
from leadline.evaluators.models.runtime import device_in_use, require_device
from leadline.evaluators.settings import Settings
from leadline.evaluators.text.time_budget import RegexTimeBudget
from leadline.tasks.ground import log_context
from leadline.tasks.ground.log_context import logged_as
from leadline.tasks.ground.processes import without_collection
from leadline.tasks.ground.timeline import TimeSpan, microseconds, span
from leadline.tasks.ledger.ledger import open_ledger
from leadline.tasks.plan.jobs import (
    Chunk,
    EvaluatorJob,
    quarantined_judges,
    read_canary_dataset,
    read_jobs,
    read_limits,
)
from leadline.tasks.score.canaries import failed_by, judge_of, read_canaries
from leadline.tasks.score.rows import NeededRows, PlannedRows, read_planned
from leadline.tasks.score.scoring import Ask, score_together, unscored
from leadline.tasks.store.parquet_files import AtomicParquetWriter, atomic_parquet
from leadline.tasks.store.segments import StoredScore, segment_rows, unscored_rows
from leadline.tasks.store.store import JOBS, Run, Store

log = logging.getLogger("leadline.score")

MOST_SPANS: Final = 64
"""Spans that a chunk's result tells of."""

KEPT: Final = 8
"""Contexts and regex budgets that a long-lived worker keeps; models stay loaded without them."""

_lock = Lock()


@dataclass(frozen=True, slots=True)
class ChunkResult:
    """The outcome of a chunk.

    Attributes:
        chunk: Its name.
        scored: Row scores written to segments.
        unscored: Row scores with at least one metric that could not be measured.
        seconds: Wall time by evaluator id.
        spans: When the chunk and its evaluators were at work, the first :data:`MOST_SPANS`.
        device: On which models ran, where the chunk is one of models.
    """

    chunk: str
    scored: int
    unscored: int
    seconds: Mapping[str, float] = field(default_factory=dict)
    spans: tuple[TimeSpan, ...] = ()
    device: str = ""

    @property
    def wall_s(self) -> float:
        """Seconds from its start to its end."""
        return sum(each.seconds for each in self.spans if each.kind == "chunk")

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> ChunkResult:
        """Return a result from the plain values that ``dataclasses.asdict`` made of it, to travel.

        Raises:
            TypeError: They are something else.
        """
        return cls(**{**values, "spans": tuple(TimeSpan(**each) for each in values.get("spans", ()))})


class JudgeDown(LeadlineError):
    """Rows of a chunk have no verdict since the judge did not answer; the others are written. Worth a retry."""

    code = ErrorCode.JUDGE_UNAVAILABLE


def score_chunk(chunk: Chunk) -> ChunkResult:
    """Score a chunk and write its segments; doing it again writes the same.

    Raises:
        UsageError: Models are to run on a device that this machine lacks.
        JudgeDown: The judge did not answer for some rows. They are written as unscored, the others as scored, and
            scoring the chunk again asks only for what is missing.
    """
    with logged_as(log_context.run, chunk.run):
        return _score_chunk(chunk)


def _score_chunk(chunk: Chunk) -> ChunkResult:
    began = microseconds()
    mask_logs()  # of a process that does nothing else
    store = Store.open(chunk.store)
    run = store.run(chunk.run)
    store.fetch_plan(run, chunk.plan_file)
    store.has_dataset(chunk.dataset)
    settings, jobs = read_jobs(run.plan / JOBS)
    mine = [job for job in jobs if job.lane == chunk.lane and not job.error]
    rows = PlannedRows(store.dataset(chunk.dataset), run.plan / chunk.plan_file, chunk.first, chunk.last)
    ctx = context_for(store, run, settings, chunk.lane)
    if chunk.lane == "gpu":
        require_device(settings)
    quarantined = _quarantined(store, run, chunk, rows, mine, ctx) if chunk.lane == "judge" else {}
    with atomic_parquet(run.unscored / f"{chunk.name}.parquet") as failed:
        work = score_planned(
            store,
            rows,
            mine,
            ctx,
            f"{chunk.run}-{chunk.name}",
            lambda *unscored: failed.add(unscored_rows(*unscored)),
            quarantined,
        )
    if not failed.rows:
        store.discard(failed.path)  # of an earlier try
    store.push([file.path for file in (*(one.segment for one in work), failed) if file.rows])
    down = next((one.down for one in work if one.down), "")
    if down and settings.judges:
        raise JudgeDown(f"{chunk.name}: the judge gave no verdict for some rows. {down}")
    seconds: defaultdict[str, float] = defaultdict(float)
    for one in work:
        seconds[one.job.evaluator] += sum(each.seconds for each in one.spans)
    return ChunkResult(
        chunk.name,
        scored=sum(one.scored for one in work),
        unscored=sum(one.unscored for one in work),
        seconds={name: round(s, 3) for name, s in seconds.items() if s},
        spans=(span(chunk.name, "chunk", began), *(each for one in work for each in one.spans))[:MOST_SPANS],
        device=device_in_use(settings) if chunk.lane == "gpu" else "",
    )


def _quarantined(
    store: Store, run: Run, chunk: Chunk, rows: PlannedRows, jobs: Sequence[EvaluatorJob], ctx: EvalContext
) -> dict[int, str]:
    """Return the evaluators that no row is put to, with the reason, by number.

    Their judges have changed, or fail rows with known verdicts, which are put to them first.
    """
    judges = {job.evaluator_id: judge_of(job.build(), ctx) for job in jobs}
    reasons = dict(quarantined_judges(run))
    dataset = read_canary_dataset(run.plan / JOBS)
    if dataset:
        store.has_dataset(dataset)
        needed = rows.evaluators() - {number for number, judge in judges.items() if judge in reasons}
        asked = [job.build() for job in jobs if job.evaluator_id in needed]
        salted = ctx.with_cache_salt(f"{chunk.run}/{chunk.name}")
        failed = failed_by(read_canaries(store.dataset(dataset)), asked, salted)
        for message in failed.values():
            log.warning("%s is quarantined. %s", chunk.name, message)
        reasons |= failed
    return {number: reasons[judge] for number, judge in judges.items() if judge in reasons}


def scoring_context(store: Store, settings: Settings, occasion: str = "", limits: Limits | None = None) -> EvalContext:
    """Return a new context: embeddings are kept in the store, and judge calls put on record in its ledger.

    Args:
        occasion: Name under which calls are put on record, such as a run's id, and share a budget; without one there is
            no ledger.
    """
    from leadline.tasks.store.vectors import ParquetVectors  # a plan imports no NumPy

    ledger = open_ledger(store, occasion, limits) if occasion and settings.judges else None
    return EvalContext(settings, vectors=ParquetVectors(store), ledger=ledger)


def kept_context(store: Store, settings: Settings, occasion: str = "", limits: Limits | None = None) -> EvalContext:
    """Return the process's one context for this, so that all who ask a judge share its client and its limiter."""
    with _lock:
        return _kept_context(store, settings, occasion, limits)


def context_for(store: Store, run: Run, settings: Settings, lane: Lane) -> EvalContext:
    """Return the process's context for chunks of a run; only the judge lane's has a ledger, which keeps the budget.

    In the other lanes all runs with the same store and settings share one; each run has a regex budget of its own.
    """
    occasion = run.id if lane == "judge" else ""
    limits = read_limits(run.plan / JOBS) if occasion and settings.judges else None
    with _lock:
        kept = _kept_context(store, settings, occasion, limits)
        return replace(kept, regex_budget=_regex_budget(store, run))


@cached(LRUCache(KEPT), key=lambda store, run: (store.root, run.id))
def _regex_budget(store: Store, run: Run) -> RegexTimeBudget:
    return RegexTimeBudget()


@cached(LRUCache(KEPT), key=lambda store, settings, occasion, limits: (store.root, settings, occasion, limits))
def _kept_context(store: Store, settings: Settings, occasion: str, limits: Limits | None) -> EvalContext:
    return scoring_context(store, settings, occasion, limits)


BATCH_ROWS: Final[dict[Lane, int]] = {"cpu": 1_000, "gpu": 500, "judge": 250}
"""Rows in memory at a time, for each lane."""

KeepUnscored: TypeAlias = Callable[[int, Sequence[bytes], Sequence[StoredScore], int], None]
"""Takes the number of an evaluator, keys and scores of rows that are not complete, and their trial."""


@dataclass
class JobScores:
    """The scores that one evaluator gave planned rows in one trial.

    Attributes:
        segment: Where complete scores are.
        scored: How many these are.
        unscored: How many rows have at least one metric that could not be measured.
        down: Message of the first row whose judge could not be reached.
        spans: When it was at work.
    """

    job: EvaluatorJob
    trial: int
    evaluator: Evaluator
    segment: AtomicParquetWriter
    scored: int = 0
    unscored: int = 0
    down: str = ""
    spans: list[TimeSpan] = field(default_factory=list)

    def keep(self, keys: Sequence[bytes], scores: Sequence[StoredScore], keep_unscored: KeepUnscored) -> None:
        """Add complete scores to the segment, and keep the others apart."""
        found: dict[bool, tuple[list[bytes], list[StoredScore]]] = {True: ([], []), False: ([], [])}
        for key, score in zip(keys, scores, strict=True):
            mine, values = found[score.complete]
            mine.append(key)
            values.append(score)
        complete, broken = found[True], found[False]
        if complete[0]:
            self.segment.add(segment_rows(self.evaluator.row_metrics, *complete, self.trial))
        if broken[0]:
            keep_unscored(self.job.evaluator_id, *broken, self.trial)
            self.down = self.down or _judge_down(broken[1])
        self.scored += len(complete[0])
        self.unscored += len(broken[0])


def score_planned(
    store: Store,
    rows: PlannedRows,
    jobs: Sequence[EvaluatorJob],
    ctx: EvalContext,
    name: str,
    keep_unscored: KeepUnscored,
    quarantined: Mapping[int, str] | None = None,
) -> list[JobScores]:
    """Score planned rows and write their segments; doing it again writes the same.

    Args:
        jobs: The evaluators, all of one lane.
        name: Begins the names of the segments, which the caller gives to other hosts.
        quarantined: Why rows are not put to evaluators, by their number.
    """
    with ExitStack() as opened:
        work = [
            JobScores(job, trial, job.build(), opened.enter_context(atomic_parquet(_segment(store, name, job, trial))))
            for job in jobs
            for trial in range(job.trials)
        ]
        for group in _groups(work, ctx):
            fields = [name for name in RowField if any(name in one.job.reads for one in group)]
            lane = group[0].job.lane
            with without_collection() if lane == "cpu" else nullcontext():
                for batch in read_planned(rows, fields, batch=BATCH_ROWS[lane]):
                    _score_batch(group, batch, ctx, keep_unscored, quarantined or {})
                    del batch
                    gc.collect(0)  # what evaluators left in cycles
    return work


def _segment(store: Store, name: str, job: EvaluatorJob, trial: int) -> Path:
    return store.scores(job.evaluator, job.config) / f"{name}{f'-t{trial}' if trial else ''}.parquet"


def _groups(work: Sequence[JobScores], ctx: EvalContext) -> list[list[JobScores]]:
    """Group evaluators by their weights: a device that holds one model at a time loads each once for all rows."""
    groups: defaultdict[tuple[str, ...], list[JobScores]] = defaultdict(list)
    for one in work:
        groups[_models(one, ctx) if one.job.lane == "gpu" else ()].append(one)
    return [groups[refs] for refs in sorted(groups)]


def _models(one: JobScores, ctx: EvalContext) -> tuple[str, ...]:
    """Return the weights that an evaluator needs; none if it fails at that, as scoring will show."""
    try:
        return tuple(sorted(map(str, one.evaluator.models(ctx))))
    except Exception as error:
        log.warning("%s cannot determine which models it needs: %s: %s", one.job.evaluator, type(error).__name__, error)
        return ()


def _score_batch(
    work: Sequence[JobScores],
    batch: NeededRows,
    ctx: EvalContext,
    keep_unscored: KeepUnscored,
    quarantined: Mapping[int, str],
) -> None:
    """Score a batch and write it, before the next is read."""
    needing = [(one, keys, rows) for one in work for keys, rows in [batch.of(one.job.evaluator_id, one.trial)] if keys]
    asked = [each for each in needing if each[0].job.evaluator_id not in quarantined]
    found = score_together([Ask(one.evaluator, rows, one.trial) for one, _, rows in asked], ctx)
    for (one, keys, _), (scores, stretch) in zip(asked, found, strict=True):
        one.spans.append(stretch)
        one.keep(keys, scores, keep_unscored)
    for one, keys, _ in needing:
        if reason := quarantined.get(one.job.evaluator_id):
            one.keep(keys, [unscored(one.evaluator, Reason.QUARANTINED, reason)] * len(keys), keep_unscored)


def _judge_down(scores: Iterable[StoredScore]) -> str:
    """Return the message of the first row whose judge could not be reached, ``""`` if there is none."""
    failures = (failure for score in scores for failure in score.failures)
    down = (each.message or "It did not answer." for each in failures if each.reason is Reason.JUDGE_UNAVAILABLE)
    return next(down, "")
