"""Scoring what a plan lacks of a dataset's rows into the store's segments, batch by batch."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, TypeAlias

from leadline.evaluators.core.base import Lane
from leadline.evaluators.core.context import EvalContext
from leadline.evaluators.data.row import Reason, RowField
from leadline.tasks.ground.timeline import Span
from leadline.tasks.plan.jobs import EvaluatorJob
from leadline.tasks.score.guard import unscored
from leadline.tasks.score.rows import NeededRow, PlannedRows, read_planned
from leadline.tasks.score.scoring import Ask, score_together
from leadline.tasks.store.parquet_files import AtomicParquetWriter, atomic_parquet
from leadline.tasks.store.segments import StoredScore, segment_rows
from leadline.tasks.store.store import Store

log = logging.getLogger("leadline.score")

BATCH_ROWS: Final[dict[Lane, int]] = {"cpu": 1_000, "gpu": 500, "judge": 250}
"""Rows in memory at a time, for each lane."""

MOST_SPANS: Final = 64
"""Spans that are kept of an evaluator, and of a chunk."""

KeepUnscored: TypeAlias = Callable[[int, Sequence[bytes], Sequence[StoredScore], int], None]
"""Takes the number of an evaluator, keys and scores of rows that are not complete, and their trial."""


class JobScores:
    """The scores that one evaluator gave planned rows in one trial.

    Attributes:
        segment: Where complete scores are.
        scored: How many these are.
        unscored: How many rows have at least one metric that could not be measured.
        down: Message of the first row whose judge could not be reached.
        spans: When it was at work, the first :data:`MOST_SPANS`.
        seconds: The length of all of them.
    """

    def __init__(self, job: EvaluatorJob, trial: int, segment: AtomicParquetWriter) -> None:
        self.job = job
        self.evaluator = job.build()
        self.segment = segment
        self.scored = self.unscored = 0
        self.down = ""
        self.spans: list[Span] = []
        self.seconds = 0.0
        self._trial = trial
        self._place = (job.evaluator_id, trial)

    def needing(self, batch: Sequence[NeededRow]) -> list[NeededRow]:
        """Return the rows of a batch that it is to score."""
        return [needed for needed in batch if self._place in needed.keys]

    def ask(self, rows: Sequence[NeededRow]) -> Ask:
        """Return what puts rows to the evaluator."""
        return Ask(self.evaluator, [needed.row for needed in rows], self._trial)

    def worked(self, stretch: Span) -> None:
        """Note a stretch of work."""
        self.seconds += stretch.seconds
        if len(self.spans) < MOST_SPANS:
            self.spans.append(stretch)

    def keep(self, rows: Sequence[NeededRow], scores: Sequence[StoredScore], keep_unscored: KeepUnscored) -> None:
        """Add complete scores to the segment, and keep the others apart."""
        keyed = [(needed.keys[self._place], score) for needed, score in zip(rows, scores, strict=True)]
        if complete := [(key, score) for key, score in keyed if score.complete]:
            keys, values = zip(*complete, strict=True)
            self.segment.add(segment_rows(self.evaluator.row_metrics, keys, values, self._trial))
        if broken := [(key, score) for key, score in keyed if not score.complete]:
            keys, values = zip(*broken, strict=True)
            keep_unscored(self.job.evaluator_id, keys, values, self._trial)
            self.down = self.down or _judge_down(values)
        self.scored += len(complete)
        self.unscored += len(broken)


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
            JobScores(job, trial, opened.enter_context(atomic_parquet(_segment(store, name, job, trial))))
            for job in jobs
            for trial in range(job.trials)
        ]
        for group in _groups(work, ctx):
            fields = [field for field in RowField if any(field in one.job.reads for one in group)]
            for batch in read_planned(rows, fields, batch=BATCH_ROWS[group[0].job.lane]):
                _score_batch(group, batch, ctx, keep_unscored, quarantined or {})
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
    batch: Sequence[NeededRow],
    ctx: EvalContext,
    keep_unscored: KeepUnscored,
    quarantined: Mapping[int, str],
) -> None:
    """Score a batch and write it, before the next is read."""
    needing = [(one, mine) for one in work if (mine := one.needing(batch))]
    asked = [(one, mine) for one, mine in needing if not quarantined.get(one.job.evaluator_id)]
    found = score_together([one.ask(mine) for one, mine in asked], ctx)
    for (one, mine), (scores, stretch) in zip(asked, found, strict=True):
        one.worked(stretch)
        one.keep(mine, scores, keep_unscored)
    for one, mine in needing:
        if reason := quarantined.get(one.job.evaluator_id):
            one.keep(mine, [unscored(one.evaluator, Reason.QUARANTINED, reason)] * len(mine), keep_unscored)


def _judge_down(scores: Sequence[StoredScore]) -> str:
    """Return the message of the first row whose judge could not be reached, ``""`` if there is none."""
    for score in scores:
        for failure in score.failures:
            if failure.reason is Reason.JUDGE_UNAVAILABLE:
                return failure.message or "It did not answer."
    return ""
