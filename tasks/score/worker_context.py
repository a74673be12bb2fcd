"""The toolboxes of a worker process, with the store's embeddings and the ledger behind them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from threading import Lock
from typing import Final, TypeVar

from leadline.evaluators.core.base import Lane
from leadline.evaluators.core.context import Settings, Toolbox
from leadline.evaluators.text.conditions.time_budget import Patience
from leadline.tasks.plan.configured import read_limits
from leadline.tasks.store.store import JOBS, Run, Store

KEPT: Final = 8
"""Toolboxes, and runs, that a long-lived worker remembers; models stay loaded without them."""

T = TypeVar("T")

_toolboxes: OrderedDict[tuple[object, ...], Toolbox] = OrderedDict()
_patience: OrderedDict[tuple[object, ...], Patience] = OrderedDict()
_lock = Lock()


def toolbox_for(store: Store, run: Run, settings: Settings, lane: Lane) -> Toolbox:
    """Return the process's toolbox for chunks of a run; only the judge lane's has a ledger, which keeps the budget.

    Evaluators that ask a judge share one client and one limiter per judge, in whichever threads they are. In the other
    lanes all runs with the same store and settings share a toolbox, except for the patience, which each has for itself.
    """
    judging = lane == "judge"
    name = (store.root, settings, run.id if judging else "")
    with _lock:
        toolbox = _kept(_toolboxes, name, lambda: _make(store, run, settings, judging))
        return replace(toolbox, patience=_kept(_patience, (store.root, run.id), Patience))


def _kept(known: OrderedDict[tuple[object, ...], T], name: tuple[object, ...], make: Callable[[], T]) -> T:
    """Return what is known by a name, made if need be; the ``KEPT`` that were asked for last stay known."""
    if name not in known:
        known[name] = make()
        if len(known) > KEPT:
            known.popitem(last=False)
    known.move_to_end(name)
    return known[name]


def _make(store: Store, run: Run, settings: Settings, judging: bool) -> Toolbox:
    from leadline.tasks.store.vectors.vectors import ParquetVectors

    vectors = ParquetVectors(store)
    if not judging or not settings.judges:
        return Toolbox(settings, vectors=vectors)
    from leadline.tasks.ledger.location import open_ledger

    return Toolbox(
        settings,
        vectors=vectors,
        ledger=open_ledger(store, run.id, read_limits(run.plan / JOBS)),
    )
