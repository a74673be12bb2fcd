"""The contexts of a worker process, with the store's embeddings and the ledger behind them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from threading import Lock
from typing import Final, TypeVar

from leadline.evaluators.core.base import Lane
from leadline.evaluators.core.context import EvalContext
from leadline.evaluators.core.settings import Settings
from leadline.evaluators.text.conditions.time_budget import RegexTimeBudget
from leadline.tasks.plan.jobs import read_limits
from leadline.tasks.store.store import JOBS, Run, Store

KEPT: Final = 8
"""Contexts, and runs, that a long-lived worker remembers; models stay loaded without them."""

T = TypeVar("T")

_contexts: OrderedDict[tuple[object, ...], EvalContext] = OrderedDict()
_regex_budgets: OrderedDict[tuple[object, ...], RegexTimeBudget] = OrderedDict()
_lock = Lock()


def context_for(store: Store, run: Run, settings: Settings, lane: Lane) -> EvalContext:
    """Return the process's context for chunks of a run; only the judge lane's has a ledger, which keeps the budget.

    Evaluators that ask a judge share one client and one limiter per judge, in whichever threads they are. In the other
    lanes all runs with the same store and settings share a context; each run has a regex budget of its own.
    """
    judging = lane == "judge"
    name = (store.root, settings, run.id if judging else "")
    with _lock:
        context = _kept(_contexts, name, lambda: _make(store, run, settings, judging))
        return replace(context, regex_budget=_kept(_regex_budgets, (store.root, run.id), RegexTimeBudget))


def _kept(known: OrderedDict[tuple[object, ...], T], name: tuple[object, ...], make: Callable[[], T]) -> T:
    """Return what is known by a name, made if need be; the ``KEPT`` that were asked for last stay known."""
    if name not in known:
        known[name] = make()
        if len(known) > KEPT:
            known.popitem(last=False)
    known.move_to_end(name)
    return known[name]


def _make(store: Store, run: Run, settings: Settings, judging: bool) -> EvalContext:
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
