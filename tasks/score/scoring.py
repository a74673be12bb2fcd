"""The one way to score rows: each gets scores or a reason; an evaluator's failure costs those rows alone.

The chunks of runs, canaries, probes, labelled rows and single answers all come here. They differ in where their rows
are from, in the context that they are scored in (its judges, its budget, its cache salt), and in what becomes of the
scores: only those of a dataset's rows are kept, by :mod:`leadline.tasks.score.chunk`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from leadline.evaluators.core import EvalContext, Evaluator
from leadline.evaluators.core.model_evaluator import with_pull_command
from leadline.evaluators.data import Reason, Row, RowScore
from leadline.evaluators.ground import ModelUnavailable
from leadline.tasks.ground import log_context
from leadline.tasks.ground.log_context import logged_as
from leadline.tasks.ground.timeline import TimeSpan, microseconds, span
from leadline.tasks.store.segments import StoredScore, stored

if TYPE_CHECKING:
    from leadline.evaluators.ground import ModelRef

log = logging.getLogger("leadline.score")
GIVE_UP_AFTER: Final = 5
"""Rows of a batch that may fail one after the other, each tried alone, before the rest of the batch is not tried."""


@dataclass(frozen=True, slots=True)
class Ask:
    """An evaluator with the rows that it is to score.

    Attributes:
        trial: Which repetition of the same rows it is.
    """

    evaluator: Evaluator
    rows: Sequence[Row]
    trial: int = 0


class Scored(NamedTuple):
    """The scores of an ask, one for each of its rows, and when they were computed."""

    scores: Sequence[StoredScore]
    span: TimeSpan


def score_together(asks: Sequence[Ask], ctx: EvalContext) -> list[Scored]:
    """Score rows with several evaluators; what one of them fails at costs its own rows and no others.

    Those that only wait for a judge are all asked at once, while the others work one after the other.
    """
    judging = [place for place, ask in enumerate(asks) if ask.evaluator.lane == "judge"]
    with ThreadPoolExecutor(max(1, len(judging)), thread_name_prefix="leadline-judge") as threads:
        waiting = {place: threads.submit(_score, asks[place], ctx) for place in judging}
        # Chance decides if these are embedded here or by an evaluator that could not wait: so they must be steady.
        _embed_all(asks, ctx, steady=bool(judging))
        found = {place: _score(ask, ctx) for place, ask in enumerate(asks) if place not in waiting}
        found |= {place: future.result() for place, future in waiting.items()}
    ctx.forget()
    return [found[place] for place in range(len(asks))]


def _score(ask: Ask, ctx: EvalContext) -> Scored:
    began, id_ = microseconds(), ask.evaluator.spec.id
    with logged_as(log_context.evaluator, id_):
        scores = score_rows(ask.evaluator, ask.rows, ctx.in_trial(ask.trial))
    return Scored(scores, span(id_, "evaluator", began))


def _embed_all(asks: Iterable[Ask], ctx: EvalContext, *, steady: bool) -> None:
    """Embed what all evaluators need in one pass for each model."""
    texts: dict[ModelRef, dict[str, None]] = {}
    for ask in asks:
        for ref, wanted in _texts_to_embed(ask, ctx).items():
            texts.setdefault(ref, {}).update(wanted)
    for ref, distinct in texts.items():
        try:
            ctx.embed(ref, list(distinct), steady=steady)
        except Exception as error:  # each evaluator meets it again and answers for its own rows
            log.warning("Embedding with %s failed: %s", ref, error)


def _texts_to_embed(ask: Ask, ctx: EvalContext) -> Mapping[ModelRef, dict[str, None]]:
    """Return the texts that an evaluator will embed; none if it fails at that, as scoring will show."""
    try:
        wanted = ask.evaluator.texts_to_embed(ask.rows, ctx)
        return {ref: dict.fromkeys(texts) for ref, texts in wanted.items()}
    except Exception as error:
        name = ask.evaluator.spec.id
        log.warning("%s cannot determine which texts it will embed: %s: %s", name, type(error).__name__, error)
        return {}


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
        if isinstance(value, float) and not math.isfinite(value) and value not in limits[key]:
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
