"""The contexts that rows are scored in, with the store's embeddings and the ledger behind them."""

from __future__ import annotations

from dataclasses import replace
from threading import Lock
from typing import Final

from cachetools import LRUCache, cached

from leadline.evaluators.core.base import Lane
from leadline.evaluators.core.context import EvalContext
from leadline.evaluators.judge_client.budget import Limits
from leadline.evaluators.settings.settings import Settings
from leadline.evaluators.text.conditions.time_budget import RegexTimeBudget
from leadline.tasks.plan.jobs import read_limits
from leadline.tasks.store.store import JOBS, Run, Store

KEPT: Final = 8
"""Contexts and regex budgets that a long-lived worker keeps; models stay loaded without them."""

_lock = Lock()


def scoring_context(store: Store, settings: Settings, occasion: str = "", limits: Limits | None = None) -> EvalContext:
    """Return a new context: embeddings are kept in the store, and judge calls put on record in its ledger.

    Args:
        occasion: Name under which calls are put on record, such as a run's id, and share a budget; without one there is
            no ledger.
        limits: That budget.
    """
    from leadline.tasks.ledger.location import open_ledger
    from leadline.tasks.store.vectors.vectors import ParquetVectors

    ledger = open_ledger(store, occasion, limits) if occasion and settings.judges else None
    return EvalContext(settings, vectors=ParquetVectors(store), ledger=ledger)


def kept_context(store: Store, settings: Settings, occasion: str = "", limits: Limits | None = None) -> EvalContext:
    """Return the process's one context for this, so that all who ask a judge share its client and its limiter."""
    with _lock:
        return _kept_context(store, settings, occasion, limits)


def context_for(store: Store, run: Run, settings: Settings, lane: Lane) -> EvalContext:
    """Return the process's context for chunks of a run; only the judge lane's has a ledger, which keeps the budget.

    In the other lanes all runs with the same store and settings share one; each run has a regex budget of its own.
    """
    occasion = run.id if lane == "judge" else ""
    limits = read_limits(run.plan / JOBS) if occasion and settings.judges else None
    with _lock:
        kept = _kept_context(store, settings, occasion, limits)
        return replace(kept, regex_budget=_regex_budget(store, run))


@cached(LRUCache(KEPT), key=lambda store, run: (store.root, run.id))
def _regex_budget(store: Store, run: Run) -> RegexTimeBudget:
    return RegexTimeBudget()


@cached(LRUCache(KEPT), key=lambda store, settings, occasion, limits: (store.root, settings, occasion, limits))
def _kept_context(store: Store, settings: Settings, occasion: str, limits: Limits | None) -> EvalContext:
    return scoring_context(store, settings, occasion, limits)
