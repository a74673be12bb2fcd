"""The toolboxes of a worker process: one per run, with the store's embeddings and the ledger behind it."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Final

from evaluators.base import Lane
from evaluators.toolbox import Settings, Toolbox
from tasks.jobs import read_limits
from tasks.store import JOBS, Run, Store

KEPT: Final = 8
"""Toolboxes that a long-lived worker keeps; models stay loaded without them."""

_toolboxes: OrderedDict[tuple[object, ...], Toolbox] = OrderedDict()
_lock = Lock()


def toolbox_for(store: Store, run: Run, settings: Settings, lane: Lane) -> Toolbox:
    """Return the process's toolbox for chunks of a run; only the judge lane's has a ledger, which keeps the budget.

    Evaluators that ask a judge share one toolbox, and so one client and one limiter per judge, in whichever threads
    they are.
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
        ledger=open_ledger(store, run.id, read_limits(run.plan / JOBS)),
    )
