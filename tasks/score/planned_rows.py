"""Scoring what a plan lacks of a dataset's rows into the store's segments, batch by batch."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from leadline.evaluators.core import EvalContext, Evaluator, Lane
from leadline.evaluators.data import Reason, Row, RowField
from leadline.tasks.ground.timeline import TimeSpan
from leadline.tasks.plan.jobs import EvaluatorJob
from leadline.tasks.score.rows import NeededRow, PlannedRows, read_planned
from leadline.tasks.score.scoring import Ask, score_together, unscored
from leadline.tasks.store.parquet_files import AtomicParquetWriter, atomic_parquet
from leadline.tasks.store.segments import StoredScore, segment_rows
from leadline.tasks.store.store import Store

log = logging.getLogger("leadline.score")

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

    def needing(self, batch: Sequence[NeededRow]) -> tuple[list[bytes], list[Row]]:
        """Return the rows of a batch that it is to score, after the keys of their scores."""
        place = (self.job.evaluator_id, self.trial)
        found = [(needed.keys[place], needed.row) for needed in batch if place in needed.keys]
        return [key for key, _ in found], [row for _, row in found]

    def keep(self, keys: Sequence[bytes], scores: Sequence[StoredScore], keep_unscored: KeepUnscored) -> None:
        """Add complete scores to the segment, and keep the others apart."""
        complete = [(key, score) for key, score in zip(keys, scores, strict=True) if score.complete]
        if complete:
            mine, values = zip(*complete, strict=True)
            self.segment.add(segment_rows(self.evaluator.row_metrics, mine, values, self.trial))
        broken = [(key, score) for key, score in zip(keys, scores, strict=True) if not score.complete]
        if broken:
            mine, values = zip(*broken, strict=True)
            keep_unscored(self.job.evaluator_id, mine, values, self.trial)
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
            JobScores(job, trial, job.build(), opened.enter_context(atomic_parquet(_segment(store, name, job, trial))))
            for job in jobs
            for trial in range(job.trials)
        ]
        for group in _groups(work, ctx):
            fields = [name for name in RowField if any(name in one.job.reads for one in group)]
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
    needing = [(one, keys, rows) for one in work for keys, rows in [one.needing(batch)] if keys]
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
