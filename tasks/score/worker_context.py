"""The contexts of a worker process, with the store's embeddings and the ledger behind them."""

from __future__ import annotations

from dataclasses import replace
from threading import Lock
from typing import Final

from cachetools import LRUCache, cached

from leadline.evaluators.core.base import Lane
from leadline.evaluators.core.context import EvalContext
from leadline.evaluators.settings.settings import Settings
from leadline.evaluators.text.conditions.time_budget import RegexTimeBudget
from leadline.tasks.plan.jobs import read_limits
from leadline.tasks.store.store import JOBS, Run, Store

KEPT: Final = 8
"""Contexts and regex budgets that a long-lived worker keeps; models stay loaded without them."""

_lock = Lock()


def context_for(store: Store, run: Run, settings: Settings, lane: Lane) -> EvalContext:
    """Return the process's context for chunks of a run; only the judge lane's has a ledger, which keeps the budget.

    Evaluators that ask a judge share one client and one limiter per judge, in whichever threads they are. In the other
    lanes all runs with the same store and settings share a context; each run has a regex budget of its own.

    Args:
        settings: The run's settings.
        lane: The lane of the chunk.
    """
    with _lock:
        return replace(_context(store, run, settings, lane == "judge"), regex_budget=_regex_budget(store, run))


@cached(LRUCache(KEPT), key=lambda store, run: (store.root, run.id))
def _regex_budget(store: Store, run: Run) -> RegexTimeBudget:
    return RegexTimeBudget()


@cached(
    LRUCache(KEPT),
    key=lambda store, run, settings, judging: (store.root, settings, run.id if judging else ""),
)
def _context(store: Store, run: Run, settings: Settings, judging: bool) -> EvalContext:
    from leadline.tasks.store.vectors.vectors import ParquetVectors

    vectors = ParquetVectors(store)
    if not judging or not settings.judges:
        return EvalContext(settings, vectors=vectors)
    from leadline.tasks.ledger.location import open_ledger

    return EvalContext(
        settings,
        vectors=vectors,
        ledger=open_ledger(store, run.id, read_limits(run.plan / JOBS)),
    )
