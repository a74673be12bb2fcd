"""Figures of the enrolled judges: their state, and what their last check found."""

from __future__ import annotations

from leadline.plugins.ops.telemetry import families as m
from leadline.plugins.ops.telemetry.families import OTHER, Figures, few
from leadline.tasks.judges.drift.judge_standing import STATES, standings
from leadline.tasks.store.store import Store


def judge_figures(store: Store) -> Figures:
    """Return the figures of a store's judges; of many judges, only the first by name."""
    figures = Figures()
    found = standings(store)
    labels = few([standing.name for standing in found])
    for standing in found:
        name = labels[standing.name]
        if name == OTHER:
            continue
        for state in STATES:
            figures.put(m.JUDGE_STATE, float(standing.state == state), name, state)
        figures.put(m.JUDGE_EPOCH, standing.epoch, name)
        if standing.check is not None:
            figures.put(m.JUDGE_CHECKED, standing.check.at, name)
            figures.put(m.JUDGE_P, standing.check.p, name)
    return figures
