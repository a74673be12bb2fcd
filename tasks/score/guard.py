"""Asking an evaluator for the scores of rows, whatever it does: what it fails at costs those rows and no others."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from leadline.evaluators.core.base import Evaluator
from leadline.evaluators.core.context import EvalContext
from leadline.evaluators.core.requirements import with_pull_command
from leadline.evaluators.data.row import Reason, Row, RowScore, is_number
from leadline.evaluators.ground.errors import ModelUnavailable
from leadline.tasks.store.segments import StoredScore, stored

log = logging.getLogger("leadline.score")

GIVE_UP_AFTER: Final = 5
"""Rows of a batch that may fail one after the other, each tried alone, before the rest of the batch is not tried."""


def score_rows(evaluator: Evaluator, rows: Sequence[Row], ctx: EvalContext) -> list[StoredScore]:
    """Score rows with an evaluator; a failure leaves rows unscored with a reason.

    When a batch fails, its rows are tried alone, so that one bad row costs no other its score.
    """
    try:
        results = _asked(evaluator, rows, ctx)
    except ModelUnavailable as error:
        return [_failed(evaluator, error)] * len(rows)
    except Exception as error:
        log.exception("%s failed on a batch of %d rows", evaluator.spec.id, len(rows))
        return [_failed(evaluator, error)] if len(rows) == 1 else _one_by_one(evaluator, rows, ctx)
    return _all_checked(evaluator, results)


def unscored(evaluator: Evaluator, reason: Reason, message: str) -> StoredScore:
    """Return a row of which nothing could be measured.

    Args:
        message: A message for people.
    """
    return stored(RowScore.unscored(evaluator.row_metrics, reason, message))


def _asked(evaluator: Evaluator, rows: Sequence[Row], ctx: EvalContext) -> list[RowScore]:
    try:
        results = evaluator.score(rows, ctx)
    except ModelUnavailable as error:
        raise with_pull_command(error, evaluator, ctx) from error
    if len(results) != len(rows):
        raise ValueError(f"{evaluator.spec.id} returned {len(results)} results for {len(rows)} rows")
    return results


def _one_by_one(evaluator: Evaluator, rows: Sequence[Row], ctx: EvalContext) -> list[StoredScore]:
    out: list[StoredScore] = []
    in_a_row = 0
    limits = _limits(evaluator)
    for row in rows:
        try:
            out.append(_checked(evaluator, limits, _asked(evaluator, [row], ctx)[0]))
            in_a_row = 0
        except Exception as error:
            out.append(_failed(evaluator, error))
            in_a_row += 1
            if in_a_row == GIVE_UP_AFTER:
                return out + [_not_tried(evaluator, error)] * (len(rows) - len(out))
    return out


def _all_checked(evaluator: Evaluator, results: Sequence[RowScore]) -> list[StoredScore]:
    """Check each result alone: asking again for one that breaks the contract would give the same."""
    out: list[StoredScore] = []
    broken: list[Exception] = []
    limits = _limits(evaluator)
    for result in results:
        try:
            out.append(_checked(evaluator, limits, result))
        except Exception as error:
            broken.append(error)
            out.append(_failed(evaluator, error))
    if broken:
        log.error("%s broke its contract on %d rows: %s", evaluator.spec.id, len(broken), broken[0], exc_info=broken[0])
    return out


def _limits(evaluator: Evaluator) -> dict[str, tuple[float, float]]:
    """Return the metrics that a row has a value of, with their ranges."""
    return {metric.key: metric.range for metric in evaluator.metrics if not metric.dataset_level}


def _checked(evaluator: Evaluator, limits: Mapping[str, tuple[float, float]], score: RowScore) -> StoredScore:
    """Return a result as it is stored, and refuse one that breaks the contract.

    That is a missing metric, something else than a number, NaN, an infinity out of range, or evidence that is no JSON.
    """
    if score.values.keys() != limits.keys():
        raise ValueError(f"{evaluator.spec.id} returned {sorted(score.values)}, not {sorted(limits)}")
    kept = stored(score)
    for key, value in kept.values.items():
        if isinstance(value, float) and not is_number(value, allow_infinite=value in limits[key]):
            raise ValueError(f"{evaluator.spec.id} returned {value} for {key}")
    return kept


def _reason(error: Exception) -> Reason:
    if isinstance(error, ModelUnavailable):
        return Reason.MODEL_UNAVAILABLE
    return Reason.OUT_OF_MEMORY if "OutOfMemory" in type(error).__name__ else Reason.EVALUATOR_ERROR


def _message(error: Exception) -> str:
    return str(error) if isinstance(error, ModelUnavailable) else f"{type(error).__name__}: {error}"


def _failed(evaluator: Evaluator, error: Exception) -> StoredScore:
    return unscored(evaluator, _reason(error), _message(error))


def _not_tried(evaluator: Evaluator, error: Exception) -> StoredScore:
    why = f"Not tried: {GIVE_UP_AFTER} rows before it failed one after the other, the last with this: {_message(error)}"
    return unscored(evaluator, _reason(error), why)
