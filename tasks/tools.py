"""The toolboxes of a worker process: one per run, with the store's embeddings and the ledger behind it."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Final

from evaluators.base import Lane
from evaluators.judge.budget import Budget, Limits
from evaluators.toolbox import Settings, Toolbox
from tasks.jobs import read_limits
from tasks.store import Run, Store

KEPT: Final = 8
"""Toolboxes that a long-lived worker keeps; models stay loaded without them."""

_toolboxes: OrderedDict[tuple[object, ...], Toolbox] = OrderedDict()
_lock = Lock()


def toolbox_for(store: Store, run: Run, settings: Settings, lane: Lane) -> Toolbox:
    """Return the process's toolbox for chunks of a run; only the judge lane's has a ledger and a budget.

    Evaluators that ask a judge share one toolbox, and so one client, one limiter and one budget per judge, in
    whichever threads they are.
    """
    judging = lane == "judge"
    name = (store.root, settings, run.id if judging else "")
    with _lock:
        if name not in _toolboxes:
            _toolboxes[name] = _make(store, run, settings, judging)
            if len(_toolboxes) > KEPT:
                _toolboxes.popitem(last=False)
        _toolboxes.move_to_end(name)
        return _toolboxes[name]


def _make(store: Store, run: Run, settings: Settings, judging: bool) -> Toolbox:
    from tasks.vectors import ParquetVectors

    vectors = ParquetVectors(store)
    if not judging or not settings.judges:
        return Toolbox(settings, vectors=vectors)
    from tasks.ledger.place import open_ledger

    return Toolbox(
        settings,
        vectors=vectors,
        ledger=open_ledger(store, run.id),
        budget=_budget(store, run, read_limits(run.plan / "jobs.json")),
    )


def _budget(store: Store, run: Run, limits: Limits) -> Budget:
    """Return the run's budget, less what a process that was killed has spent of it."""
    from tasks.ledger.place import read_ledger

    if limits == Limits():
        return Budget(limits)
    spent = read_ledger(store).total(run.id)
    return Budget(limits, spent_calls=spent.answered + spent.lost, spent_usd=spent.cost_usd)
