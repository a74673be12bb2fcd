"""Scoring a chunk: one pure, idempotent function from a chunk to segments of scores.

It may run in a thread, in a process pool or on another machine; it may be killed and run again. It reads the
dataset's Parquet files and the plan, and writes segments. It never opens the run's database.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from leadline.evaluators.core.base import Lane
from leadline.evaluators.core.context import EvalContext
from leadline.evaluators.data.row import Reason, RowField, Unscored
from leadline.evaluators.ground.error_codes import ErrorCode
from leadline.evaluators.ground.errors import LeadlineError
from leadline.evaluators.ground.log_masking import mask_logs
from leadline.evaluators.models.runtime import device_in_use, require_device
from leadline.tasks.ground import log_context
from leadline.tasks.ground.log_context import logged_as
from leadline.tasks.ground.timeline import TimeSpan, microseconds, span
from leadline.tasks.plan.chunks import Chunk
from leadline.tasks.plan.jobs import EvaluatorJob, quarantined_judges, read_canary_dataset, read_jobs
from leadline.tasks.score.canaries import failed_by, judge_of, read_canaries
from leadline.tasks.score.guard import score_rows, unscored
from leadline.tasks.score.rows import NeededRow, needed_evaluators, read_chunk
from leadline.tasks.score.worker_context import context_for
from leadline.tasks.store.parquet_files import AtomicParquetWriter, atomic_parquet
from leadline.tasks.store.segments import StoredScore, segment_rows, unscored_rows
from leadline.tasks.store.store import JOBS, Run, Store

if TYPE_CHECKING:
    from leadline.evaluators.ground.refs import ModelRef

log = logging.getLogger("leadline.score")

BATCH_ROWS: Final[dict[Lane, int]] = {"cpu": 1_000, "gpu": 500, "judge": 250}
"""Rows in memory at a time, for each lane."""

MOST_SPANS: Final = 64
"""Spans that a chunk's result tells of."""


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
    ctx = context_for(store, run, settings, chunk.lane)
    if chunk.lane == "gpu":
        require_device(settings)
    with ExitStack() as opened:
        work = [
            _Work(job, trial, opened.enter_context(atomic_parquet(_segment(store, chunk, job, trial))))
            for job in mine
            for trial in range(job.trials)
        ]
        failed = opened.enter_context(atomic_parquet(run.unscored / f"{chunk.name}.parquet"))
        if chunk.lane == "judge":
            _quarantine(store, run, chunk, work, ctx)
        _score(store, run, chunk, work, ctx, failed)
    if not failed.rows:
        store.discard(failed.path)  # of an earlier try
    store.push([file.path for file in (*(one.segment for one in work), failed) if file.rows])
    down = next((one.down for one in work if one.down), "")
    if down and settings.judges:
        raise JudgeDown(f"{chunk.name}: the judge gave no verdict for some rows. {down}")
    seconds: defaultdict[str, float] = defaultdict(float)
    for one in work:
        seconds[one.job.evaluator] += one.seconds
    return ChunkResult(
        chunk.name,
        scored=sum(one.scored for one in work),
        unscored=sum(one.unscored for one in work),
        seconds={name: round(s, 3) for name, s in seconds.items() if s},
        spans=(span(chunk.name, "chunk", began), *(each for one in work for each in one.spans))[:MOST_SPANS],
        device=device_in_use(settings) if chunk.lane == "gpu" else "",
    )


def _segment(store: Store, chunk: Chunk, job: EvaluatorJob, trial: int) -> Path:
    name = f"{chunk.run}-{chunk.name}" + (f"-t{trial}" if trial else "")
    return store.scores(job.evaluator, job.config) / f"{name}.parquet"


def _score(
    store: Store, run: Run, chunk: Chunk, work: Sequence[_Work], ctx: EvalContext, failed: AtomicParquetWriter
) -> None:
    """Score a chunk batch by batch, each written before the next is read."""
    pairs = run.plan / chunk.plan_file
    for group in _group_by_model(work, ctx) if chunk.lane == "gpu" else [work]:
        fields = [name for name in RowField if any(name in one.job.reads for one in group)]
        for batch in read_chunk(
            store.dataset(chunk.dataset), pairs, chunk.first, chunk.last, fields, batch=BATCH_ROWS[chunk.lane]
        ):
            if chunk.lane == "judge":
                _judge_batch(group, batch, ctx)
            else:
                _score_batch(group, batch, ctx)
            ctx.forget()
            for one in group:
                one.write(failed)


def _quarantine(store: Store, run: Run, chunk: Chunk, work: Sequence[_Work], ctx: EvalContext) -> None:
    """Put no row to judges that have changed, or that fail rows with known verdicts, which are put to them first."""
    changed = quarantined_judges(run)
    for one in work:
        one.quarantined = changed.get(judge_of(one.evaluator, ctx), "")
    dataset = read_canary_dataset(run.plan / JOBS)
    if not dataset:
        return
    store.has_dataset(dataset)
    needed = needed_evaluators(run.plan / chunk.plan_file, chunk.first, chunk.last)
    asking = {
        one.job.evaluator_id: one.evaluator for one in work if one.job.evaluator_id in needed and not one.quarantined
    }
    failed = failed_by(read_canaries(store.dataset(dataset)), asking.values(), ctx, f"{chunk.run}/{chunk.name}")
    for one in work:
        one.quarantined = one.quarantined or failed.get(judge_of(one.evaluator, ctx), "")
    for message in failed.values():
        log.warning("%s is quarantined. %s", chunk.name, message)


def _group_by_model(work: Sequence[_Work], ctx: EvalContext) -> list[list[_Work]]:
    """Group evaluators by their weights: a device that holds one model at a time loads each once for a chunk."""
    groups: defaultdict[tuple[str, ...], list[_Work]] = defaultdict(list)
    for one in work:
        groups[one.models(ctx)].append(one)
    return [groups[refs] for refs in sorted(groups)]


def _score_batch(work: Sequence[_Work], batch: Sequence[NeededRow], ctx: EvalContext) -> None:
    """Score a batch, one evaluator after the other."""
    _prefetch(work, batch, ctx)
    for one in work:
        one.score(batch, ctx)


def _judge_batch(work: Sequence[_Work], batch: Sequence[NeededRow], ctx: EvalContext) -> None:
    """Score a batch with all evaluators at once, since they only wait for a judge; while the embedder loads, too."""
    with ThreadPoolExecutor(max(1, len(work)) + 1, thread_name_prefix="leadline-judge") as threads:
        asked = [threads.submit(one.score, batch, ctx) for one in work]
        # Chance decides if these are embedded here or by an evaluator that could not wait: so they must be steady.
        for future in (*asked, threads.submit(_prefetch, work, batch, ctx, steady=True)):
            future.result()


def _prefetch(work: Sequence[_Work], batch: Sequence[NeededRow], ctx: EvalContext, *, steady: bool = False) -> None:
    """Embed what all evaluators of the batch need in one pass."""
    texts: dict[ModelRef, dict[str, None]] = {}
    for one in work:
        for ref, wanted in one.texts_to_embed(batch, ctx).items():
            texts.setdefault(ref, {}).update(wanted)
    for ref, wanted in texts.items():
        try:
            ctx.embed(ref, list(wanted), steady=steady)
        except Exception as error:  # each evaluator meets it again and answers for its own rows
            log.warning("Embedding with %s failed: %s", ref, error)


class _Work:
    """One evaluator's share of a chunk, in one trial.

    Attributes:
        segment: Where complete rows go.
        scored: How many went there.
        unscored: How many did not.
        down: Message of the first row whose judge could not be reached.
        seconds: Wall time.
        spans: The stretches of that time.
        quarantined: Why its judge is not asked.
    """

    def __init__(self, job: EvaluatorJob, trial: int, segment: AtomicParquetWriter) -> None:
        self.job = job
        self.evaluator = job.build()
        self.segment = segment
        self.scored = 0
        self.unscored = 0
        self.down = ""
        self.seconds = 0.0
        self.spans: list[TimeSpan] = []
        self.quarantined = ""
        self._trial = trial
        self._needed = (job.evaluator_id, trial)
        self._results: list[tuple[bytes, StoredScore]] = []
        self._warned = False

    def models(self, ctx: EvalContext) -> tuple[str, ...]:
        """Return the weights that the evaluator needs; none if this fails, which scoring will show."""
        try:
            return tuple(sorted(map(str, self.evaluator.models(ctx))))
        except Exception as error:
            self._warn("which models it needs", error)
            return ()

    def texts_to_embed(self, batch: Sequence[NeededRow], ctx: EvalContext) -> dict[ModelRef, dict[str, None]]:
        """Return the texts that the evaluator will embed; none if this fails."""
        rows = [needed.row for needed in batch if self._needed in needed.keys]
        try:
            wanted = self.evaluator.texts_to_embed(rows, ctx) if rows else {}
            return {ref: dict.fromkeys(texts) for ref, texts in wanted.items()}
        except Exception as error:
            self._warn("which texts it will embed", error)
            return {}

    def score(self, batch: Sequence[NeededRow], ctx: EvalContext) -> None:
        """Score the rows of a batch that need it, and keep that until it is written."""
        mine = [needed for needed in batch if self._needed in needed.keys]
        if not mine:
            return
        began = microseconds()
        if self.quarantined:
            results = [unscored(self.evaluator, Reason.QUARANTINED, self.quarantined)] * len(mine)
        else:
            with logged_as(log_context.evaluator, self.job.evaluator):
                results = score_rows(self.evaluator, [needed.row for needed in mine], ctx.in_trial(self._trial))
        stretch = span(self.job.evaluator, "evaluator", began)
        self.seconds += stretch.seconds
        if len(self.spans) < MOST_SPANS:
            self.spans.append(stretch)
        self._results = [(needed.keys[self._needed], result) for needed, result in zip(mine, results, strict=True)]

    def write(self, failed: AtomicParquetWriter) -> None:
        """Add the rows of the batch to the segment, and those that are not complete to what the chunk failed at."""
        complete = [(key, score) for key, score in self._results if score.complete]
        broken = [(key, score) for key, score in self._results if not score.complete]
        self._results = []
        if complete:
            keys, scores = zip(*complete, strict=True)
            self.segment.add(segment_rows(self.evaluator.row_metrics, keys, scores, self._trial))
        if broken:
            keys, scores = zip(*broken, strict=True)
            failed.add(unscored_rows(self.job.evaluator_id, keys, scores, self._trial))
            self.down = self.down or _judge_down(scores)
        self.scored += len(complete)
        self.unscored += len(broken)

    def _warn(self, what: str, error: Exception) -> None:
        if not self._warned:
            log.warning("%s cannot determine %s: %s: %s", self.job.evaluator, what, type(error).__name__, error)
        self._warned = True


def _judge_down(scores: Sequence[StoredScore]) -> str:
    """Return the message of the first row whose judge could not be reached, ``""`` if there is none."""
    for score in scores:
        for value in score.values.values():
            if isinstance(value, Unscored) and value.reason is Reason.JUDGE_UNAVAILABLE:
                return value.message or "It did not answer."
    return ""
