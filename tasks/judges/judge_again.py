"""Asking a judge once more about one row: its reply is a further trial beside those that the store has.

A run has read the trials that it asked for and keeps its numbers; a later one that asks for as many trials takes what
is here, and pays for none of it twice. Which rows were asked about again has no say in any mean: where only a sample
gets further trials, those of other rows are not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.evaluators.judge_client.budget import Limits
from leadline.evaluators.settings import Settings
from leadline.tasks.db import records, sql
from leadline.tasks.judges.labels.judging import planned_rows, score_missing
from leadline.tasks.ledger.ledger import new_name
from leadline.tasks.plan.cost import Estimate, estimate, require_prices
from leadline.tasks.plan.jobs import EvaluatorJob, keep_identity
from leadline.tasks.plan.planner import segments
from leadline.tasks.plan.trial_rows import ALL_ROWS
from leadline.tasks.score.chunk import scoring_context
from leadline.tasks.store.segments import METRIC_PREFIX, calls_of, read_evidence
from leadline.tasks.store.store import Store

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MOST_TRIALS: Final = 50
"""Trials of a row at most."""


@dataclass(frozen=True, slots=True)
class TrialReply:
    """The outcome of one trial.

    Attributes:
        trial: From 0.
        values: By metric; ``None`` where it has no value.
        calls: Digests of the calls that it rests on.
    """

    trial: int
    values: Mapping[str, float | None]
    message: str
    calls: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RowReplies:
    """The trials of a row that the store has, and what one more would take.

    Attributes:
        further: Calls and price of the next; ``None`` where it asks no judge.
    """

    replies: tuple[TrialReply, ...]
    further: Estimate | None


def row_replies(store: Store, dataset: str, row: int, job: EvaluatorJob, settings: Settings) -> RowReplies:
    """Return what a judge replied to a row so far.

    Args:
        dataset: Digest of the dataset.

    Raises:
        UsageError: The evaluator does not judge this row.
    """
    with _next_trial(store, dataset, row, job) as (connection, replies, following):
        return RowReplies(replies, estimate(connection, following, settings))


def judge_again(
    store: Store, dataset: str, row: int, job: EvaluatorJob, settings: Settings, limits: Limits | None = None
) -> int:
    """Ask a judge about a row once more, keep its reply, and return the number of the trial.

    Raises:
        UsageError: The evaluator does not judge this row, the judge gave no verdict, or money is limited and its price
            is unknown.
    """
    limits, occasion = limits or Limits(), new_name("again")
    require_prices([job.build()], settings, limits)
    with _next_trial(store, dataset, row, job) as (connection, replies, following):
        if len(replies) >= MOST_TRIALS:
            raise UsageError(f"There are {MOST_TRIALS} replies already.", code=ErrorCode.CONFIG_OPTION)
        keep_identity(store, following)
        ctx = scoring_context(store, settings, occasion, limits)
        failed = score_missing(store, dataset, following, ctx, connection, occasion)
    if failed:
        raise UsageError(
            f"The judge gave no verdict: {next(iter(failed.values()))}",
            hint="Its reply, if there was one, is in: leadline judges calls --failed",
            code=ErrorCode.JUDGE_UNAVAILABLE,
        )
    return following.trials - 1


@contextmanager
def _next_trial(
    store: Store, dataset: str, row: int, job: EvaluatorJob
) -> Iterator[tuple[DuckDBPyConnection, tuple[TrialReply, ...], EvaluatorJob]]:
    """Plan the trial of a row after those that the store has, which are given too."""
    once = replace(job, trials=1, trial_rows=ALL_ROWS)
    with planned_rows(store, dataset, [row], once) as (connection, _):
        planned = connection.execute(sql("labels/planned_rows")).fetchall()
        _, state, key = planned[0] if planned else (row, "not_applicable", b"")
        if state != "score":
            raise UsageError(
                f"{job.evaluator} does not judge this answer: {state.replace('_', ' ')}.",
                code=ErrorCode.PLAN_NO_EVALUATOR,
            )
        replies = tuple(_replies(connection, segments(store.scores(job.evaluator, job.config)), key))
    following = replace(once, trials=replies[-1].trial + 2 if replies else 1)
    with planned_rows(store, dataset, [row], following) as (connection, _):
        yield connection, replies, following


def _replies(connection: DuckDBPyConnection, files: str, key: bytes) -> Iterator[TrialReply]:
    if not files:
        return
    for line in records(connection, sql("judge_again/stored_replies").format(segments=files), {"key": key}):
        values = {
            name.removeprefix(METRIC_PREFIX): value for name, value in line.items() if name.startswith(METRIC_PREFIX)
        }
        message = str(read_evidence(line["evidence"]).get("message") or "")
        yield TrialReply(line["trial"], values, message, calls_of(line["evidence"]))
