"""Leadline from Python: evaluating data in memory or in files, its results as DataFrames, comparing, and the store.

:func:`.evaluation.evaluate` is the way in, and asks a function for the answers first where it is given one.
:mod:`.inputs` turns what a program holds into a file of a dataset, :mod:`.metric_choice` says what is measured, and
:mod:`.result` is what comes back. ``docs/python.md`` is the page for users.
"""

from __future__ import annotations

from leadline.api.evaluation import aevaluate, evaluate
from leadline.api.metric_choice import MetricChoice
from leadline.api.result import OpenedStore, Result, compare, open_store

__all__ = ["MetricChoice", "OpenedStore", "Result", "aevaluate", "compare", "evaluate", "open_store"]
