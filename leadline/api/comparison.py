"""Comparing two runs from Python: what the command ``compare`` does, as a function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from leadline.api.settings import checked
from leadline.flows.compare import Compare, CompareConfig
from leadline.tasks.store.store import Store

if TYPE_CHECKING:
    from leadline.tasks.compare import Comparison


class Evaluated(Protocol):
    """The result of an evaluation."""

    @property
    def run(self) -> str:
        """Id of the run."""


def compare(baseline: str | Evaluated = "", candidate: str | Evaluated = "latest", **options: Any) -> Comparison:
    """Compare a candidate with a baseline, case by case, and decide whether it is worse.

    Args:
        baseline: What :func:`evaluate` returned, or a run: its id, the beginning of it, ``latest``, ``latest~1``,
            ``tag:NAME``, or one of its models as ``RUN:MODEL``. Left out where ``versions`` are named.
            Results are compared in their store.
        candidate: What is new, named in the same way; ``:MODEL`` is a model of the baseline's run.
        **options: Fields of :class:`~leadline.flows.compare.CompareConfig`, for example ``margin=0.02``.

    Returns:
        The verdict, the reason, each metric with its interval, and where the report is.

    Raises:
        UsageError: There is no such run, model, metric or option.
    """
    sides = {name: getattr(side, "run", side) for name, side in (("baseline", baseline), ("candidate", candidate))}
    stores = (getattr(side, "store", None) for side in (baseline, candidate))
    found = {store.location for store in stores if isinstance(store, Store)}
    place = {"store": found.pop()} if len(found) == 1 else {}
    return Compare().check(checked(CompareConfig, place | options | sides)).compared()
