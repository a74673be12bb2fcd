"""Scoring one answer without a run, for assertions and for the scorers of other tools.

Judge calls are put on record in the store's ledger, so that the same question is never paid for twice, and embeddings
are kept there too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from leadline.evaluators.core.base import Evaluator
from leadline.evaluators.core.context import EvalContext
from leadline.evaluators.data.row import Row, RowField
from leadline.evaluators.judge_client.budget import Limits
from leadline.evaluators.settings.settings import Settings
from leadline.evaluators.text.conditions.time_budget import RegexTimeBudget
from leadline.tasks.score.guard import score_rows
from leadline.tasks.store.segments import StoredScore
from leadline.tasks.store.store import Store

_EMPTY: Final = Row("", "")


def scoring_context(store: Store, settings: Settings, session: str, limits: Limits) -> EvalContext:
    """Return the tools that score single answers: judges with their ledger, models, embeddings.

    Args:
        store: The store with the ledger and the embeddings.
        settings: Settings of judges and models.
        session: Name under which judge calls are put on record; those of one name share a budget.
        limits: That budget.
    """
    from leadline.tasks.ledger.location import open_ledger
    from leadline.tasks.store.vectors.vectors import ParquetVectors

    vectors = ParquetVectors(store)
    if not settings.judges:
        return EvalContext(settings, vectors=vectors)
    return EvalContext(settings, vectors=vectors, ledger=open_ledger(store, session, limits))


def missing_inputs(evaluator: Evaluator, row: Row) -> list[RowField]:
    """Return the inputs that an evaluator requires and an answer lacks.

    Args:
        row: The answer.
    """
    return [name for name in evaluator.required if getattr(row, name.attribute) in (None, ())]


def score_answer(evaluator: Evaluator, row: Row, context: EvalContext) -> StoredScore:
    """Score an answer by just the fields that the evaluator reads, as in a run.

    Args:
        row: The answer.
        context: Its tools; each answer has the whole time for regular expressions.
    """
    kept = {"case", "model", *(name.attribute for name in evaluator.reads)}
    empty = {name: getattr(_EMPTY, name) for name in Row.__dataclass_fields__ if name not in kept}
    [score] = score_rows(evaluator, [replace(row, **empty)], replace(context, regex_budget=RegexTimeBudget()))
    return score
