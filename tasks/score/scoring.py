"""The one way to score rows: evaluators are asked about rows, and each gives scores or says why it has none.

The chunks of runs, canaries, probes, labelled rows and single answers all come here. They differ in where their rows
are from, in the context that they are scored in (its judges, its budget, its cache salt), and in what becomes of the
scores: only those of a dataset's rows are kept, by :mod:`leadline.tasks.score.planned_rows`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from leadline.evaluators.core.base import Evaluator
from leadline.evaluators.core.context import EvalContext
from leadline.evaluators.data.row import Row
from leadline.tasks.ground import log_context
from leadline.tasks.ground.log_context import logged_as
from leadline.tasks.ground.timeline import TimeSpan, microseconds, span
from leadline.tasks.score.guard import score_rows
from leadline.tasks.store.segments import StoredScore

if TYPE_CHECKING:
    from leadline.evaluators.ground.refs import ModelRef

log = logging.getLogger("leadline.score")


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
