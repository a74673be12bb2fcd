"""Progress of a flow, for whoever runs it in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class ProgressEvent:
    """Progress of a flow.

    Attributes:
        step: Name of the step: load, plan, score, gather, aggregate, flips, changes, problems, insights, publish.
        lane: Lane of a scoring step, model of a collecting one, ``""`` for the others.
        done: Row scores done in this lane, cases put to this model, or 0 and 1 for a step that starts and ends.
        total: Row scores to compute in this lane, cases of the suite, or 1.
    """

    step: str
    lane: str
    done: int
    total: int


Listener: TypeAlias = Callable[[ProgressEvent], None]

_listeners: list[Listener] = []


@contextmanager
def reporting(listener: Listener) -> Iterator[None]:
    """Send the progress of flows that run in this process to a listener."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def report(step: str, lane: str = "", done: int = 0, total: int = 1) -> None:
    """Send progress to all listeners.

    Args:
        step: Name of the step.
        lane: Lane or model.
        done: Units done.
        total: Units in all.
    """
    event = ProgressEvent(step, lane, done, total)
    for listener in list(_listeners):
        listener(event)
