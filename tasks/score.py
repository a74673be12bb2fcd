"""Scoring a chunk: one pure, idempotent function from a chunk to segments of scores.

It may run in a thread, in a process pool or on another machine; it may be killed and run again. It reads the
dataset's Parquet files and the plan, and writes segments. It never opens the run's database.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from evaluators.base import Evaluator, Lane
from evaluators.errors import LeadlineError, ModelUnavailable
from evaluators.models.weights import asked_by
from evaluators.toolbox import Toolbox
from evaluators.types import Field, Reason, Row, RowScore, Unscored, is_number
from tasks.canaries import failed_by, judge_of, read_canaries
from tasks.chunk_rows import NeededRow, needed_evaluators, read_chunk
from tasks.jobs import Job, read_canary_dataset, read_jobs
from tasks.segments import write_segment, write_unscored
from tasks.store import JOBS, Run, Store
from tasks.tools import toolbox_for

log = logging.getLogger("leadline.score")

BATCH_ROWS: Final[dict[Lane, int]] = {"cpu": 1_000, "gpu": 500, "judge": 250}
"""Rows in memory at a time, for each lane."""

GIVE_UP_AFTER: Final = 5
"""Single rows that may fail in a batch, each tried alone, before the rest of the batch is given up."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one task scores: a window of rows of one lane. Plain values, so that it can travel as JSON.

    Attributes:
        store: The store, as ``Store.open`` takes it: a path, or a URL on whichever host.
        run: Id of the run.
        dataset: Digest of the dataset.
        lane: The lane.
        number: Position among the lane's chunks.
        first: First row.
        last: Last row, inclusive.
        rows: Rows to look at.
        scores: Row scores to compute.
    """

    store: str
    run: str
    dataset: str
    lane: Lane
    number: int
    first: int
    last: int
    rows: int
    scores: int

    @property
    def name(self) -> str:
        """Name of the chunk within its run."""
        return f"{self.lane}-{self.number:04d}"


@dataclass(frozen=True, slots=True)
class ChunkResult:
    """What became of a chunk.

    Attributes:
        chunk: Its name.
        scored: Row scores written to segments.
        unscored: Row scores with at least one metric that could not be measured.
        seconds: Wall time by evaluator id.
    """

    chunk: str
    scored: int
    unscored: int
    seconds: Mapping[str, float] = field(default_factory=dict)


class JudgeDown(LeadlineError):
    """Rows of a chunk have no verdict since the judge did not answer; what there is was written. Worth a retry."""


def score_chunk(chunk: Chunk) -> ChunkResult:
    """Score a chunk and write its segments; doing it again writes the same.

    Raises:
        JudgeDown: The judge did not answer for some rows. They are written as unscored, the others as scored, and
            scoring the chunk again asks only for what is missing.
    """
    store = Store.open(chunk.store)
    run = store.run(chunk.run)
    store.fetch_plan(run)
    store.has_dataset(chunk.dataset)
    settings, jobs = read_jobs(run.plan / JOBS)
    mine = [job for job in jobs if job.lane == chunk.lane and not job.error]
    tools = toolbox_for(store, run, settings, chunk.lane)
    work = [_Work(job, job.build(), trial) for job in mine for trial in range(job.trials)]
    pairs = run.plan / f"{chunk.lane}.parquet"
    if chunk.lane == "judge":
        _quarantine(store, run, chunk, work, tools)
    for group in _by_model(work, tools) if chunk.lane == "gpu" else [work]:
        fields = [name for name in Field if any(name in one.job.reads for one in group)]
        for batch in read_chunk(
            store.dataset(chunk.dataset), pairs, chunk.first, chunk.last, fields, batch=BATCH_ROWS[chunk.lane]
        ):
            _prefetch(group, batch, tools)
            _score_batch(group, batch, tools, together=chunk.lane == "judge")
            tools.forget()
    written = [path for one in work if (path := one.write(store, f"{chunk.run}-{chunk.name}"))]
    failed = [line for one in work for line in one.failed]
    unscored = run.unscored / f"{chunk.name}.parquet"
    if failed:
        write_unscored(unscored, failed)
        written.append(unscored)
    else:
        store.discard(unscored)  # of an earlier try
    store.push(written)
    if settings.judges:
        _raise_if_down(chunk, failed)
    seconds: defaultdict[str, float] = defaultdict(float)
    for one in work:
        seconds[one.job.evaluator] += one.seconds
    scored = sum(len(one.keys) for one in work)
    return ChunkResult(chunk.name, scored, len(failed), {name: round(s, 3) for name, s in seconds.items() if s})


def _quarantine(store: Store, run: Run, chunk: Chunk, work: Sequence[_Work], tools: Toolbox) -> None:
    """Ask the judges about rows with known verdicts; what a judge that fails them would score is not put to it."""
    dataset = read_canary_dataset(run.plan / JOBS)
    if not dataset:
        return
    store.has_dataset(dataset)
    needed = needed_evaluators(run.plan / f"{chunk.lane}.parquet", chunk.first, chunk.last)
    asking = {one.job.evaluator_id: one.evaluator for one in work if one.job.evaluator_id in needed}
    failed = failed_by(read_canaries(store.dataset(dataset)), asking.values(), tools, f"{chunk.run}/{chunk.name}")
    for one in work:
        one.quarantined = failed.get(judge_of(one.evaluator, tools), "")
    for message in failed.values():
        log.warning("%s is quarantined. %s", chunk.name, message)


def _by_model(work: Sequence[_Work], tools: Toolbox) -> list[list[_Work]]:
    """Group evaluators by their weights: a device that holds one model at a time loads each once for a chunk."""
    groups: defaultdict[tuple[str, ...], list[_Work]] = defaultdict(list)
    for one in work:
        groups[tuple(sorted(map(str, one.evaluator.models(tools))))].append(one)
    return [groups[refs] for refs in sorted(groups)]


def _score_batch(work: Sequence[_Work], batch: Sequence[NeededRow], tools: Toolbox, *, together: bool) -> None:
    """Score a batch, one evaluator after the other, or all together where they only wait for a judge."""
    if not together:
        for one in work:
            one.score(batch, tools)
        return
    with ThreadPoolExecutor(max(1, len(work)), thread_name_prefix="leadline-judge") as threads:
        for future in [threads.submit(one.score, batch, tools) for one in work]:
            future.result()


def _raise_if_down(chunk: Chunk, failed: Sequence[tuple[int, int, bytes, RowScore]]) -> None:
    messages = [
        value.message
        for *_, score in failed
        for value in score.values.values()
        if isinstance(value, Unscored) and value.reason == Reason.JUDGE_UNAVAILABLE
    ]
    if messages:
        raise JudgeDown(f"{chunk.name}: the judge gave no verdict for some rows. {messages[0]}")


def _prefetch(work: Sequence[_Work], batch: Sequence[NeededRow], tools: Toolbox) -> None:
    """Embed what all evaluators of the batch need in one pass."""
    texts: dict[object, dict[str, None]] = {}
    refs = {}
    for one in work:
        rows = one.rows(batch)
        if not rows:
            continue
        for ref, wanted in one.evaluator.texts_to_embed(rows, tools).items():
            refs[ref] = ref
            texts.setdefault(ref, {}).update(dict.fromkeys(wanted))
    for ref in refs.values():
        try:
            tools.embed(ref, list(texts[ref]))
        except Exception as error:  # each evaluator meets it again and answers for its own rows
            log.warning("Embedding with %s failed: %s", ref, error)


class _Work:
    """One evaluator's share of a chunk, in one trial."""

    def __init__(self, job: Job, evaluator: Evaluator, trial: int) -> None:
        self.job = job
        self.evaluator = evaluator
        self.keys: list[bytes] = []
        self.scores: list[RowScore] = []
        self.failed: list[tuple[int, int, bytes, RowScore]] = []
        self.seconds = 0.0
        self.quarantined = ""
        self._trial = trial
        self._needed = (job.evaluator_id, trial)

    def rows(self, batch: Sequence[NeededRow]) -> list[Row]:
        return [needed.row for needed in batch if self._needed in needed.keys]

    def score(self, batch: Sequence[NeededRow], tools: Toolbox) -> None:
        mine = [needed for needed in batch if self._needed in needed.keys]
        if not mine:
            return
        started = time.perf_counter()
        if self.quarantined:
            results = [RowScore.unscored(self.evaluator.row_metrics, Reason.QUARANTINED, self.quarantined)] * len(mine)
        else:
            results = score_rows(self.evaluator, [needed.row for needed in mine], tools.in_trial(self._trial))
        self.seconds += time.perf_counter() - started
        for needed, result in zip(mine, results, strict=True):
            key = needed.keys[self._needed]
            if result.complete:
                self.keys.append(key)
                self.scores.append(result)
            else:
                self.failed.append((*self._needed, key, result))

    def write(self, store: Store, name: str) -> Path | None:
        """Write the segment, if anything was scored, and return where it is."""
        if not self.keys:
            return None
        trial = f"-t{self._trial}" if self._trial else ""
        path = store.scores(self.job.evaluator, self.job.config) / f"{name}{trial}.parquet"
        write_segment(path, self.evaluator.row_metrics, self.keys, self.scores, trial=self._trial)
        return path


def score_rows(evaluator: Evaluator, rows: Sequence[Row], tools: Toolbox) -> list[RowScore]:
    """Score rows with an evaluator, whatever it does: a failure leaves rows unscored with a reason.

    When a batch fails, its rows are tried alone, so that one bad row costs no other its score.
    """
    try:
        return [_checked(evaluator, result) for result in _all(evaluator, rows, tools)]
    except ModelUnavailable as error:
        return [RowScore.unscored(evaluator.row_metrics, Reason.MODEL_UNAVAILABLE, str(error))] * len(rows)
    except Exception as error:
        log.exception("%s failed on a batch of %d rows", evaluator.spec.id, len(rows))
        if len(rows) == 1:
            return [_failed(evaluator, error)]
    return _one_by_one(evaluator, rows, tools)


def _one_by_one(evaluator: Evaluator, rows: Sequence[Row], tools: Toolbox) -> list[RowScore]:
    out: list[RowScore] = []
    failures = 0
    for row in rows:
        try:
            out.append(_checked(evaluator, _all(evaluator, [row], tools)[0]))
        except Exception as error:
            failures += 1
            out.append(_failed(evaluator, error))
            if failures == GIVE_UP_AFTER:
                out += [out[-1]] * (len(rows) - len(out))
                break
    return out


def _all(evaluator: Evaluator, rows: Sequence[Row], tools: Toolbox) -> list[RowScore]:
    with asked_by(evaluator, tools):
        results = evaluator.score(rows, tools)
    if len(results) != len(rows):
        raise ValueError(f"{evaluator.spec.id} returned {len(results)} results for {len(rows)} rows")
    return results


def _failed(evaluator: Evaluator, error: Exception) -> RowScore:
    reason = Reason.OUT_OF_MEMORY if "OutOfMemory" in type(error).__name__ else Reason.EVALUATOR_ERROR
    return RowScore.unscored(evaluator.row_metrics, reason, f"{type(error).__name__}: {error}")


def _checked(evaluator: Evaluator, score: RowScore) -> RowScore:
    """Refuse a result that breaks the contract: a missing metric, NaN, or an infinity out of range."""
    if set(score.values) != set(evaluator.row_metrics):
        raise ValueError(f"{evaluator.spec.id} returned {sorted(score.values)}, not {sorted(evaluator.row_metrics)}")
    limits = {metric.key: metric.range for metric in evaluator.metrics}
    for key, value in score.values.items():
        if isinstance(value, float | int) and not is_number(value, allow_infinite=value in limits[key]):
            raise ValueError(f"{evaluator.spec.id} returned {value} for {key}")
    return score
