"""The result of an evaluation: its scores, means and problems as DataFrames, the gate, and where the report is."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leadline.flows.api.comparison import Evaluated, compare
from leadline.flows.collect.config import CollectResult
from leadline.flows.evaluate.config import EvaluateResult
from leadline.flows.shared.settings import Gate
from leadline.tasks.store.store import Store

if TYPE_CHECKING:
    from pandas import DataFrame

    from leadline.tasks.compare import Comparison


class Result:
    """The result of :func:`leadline.evaluate`.

    Attributes:
        outcome: All that the run says of itself: counts, time, cost, what the gate counted.
        store: The store that keeps the run.
        collected: What became of the calls, where a target was asked for the answers.
    """

    def __init__(self, outcome: EvaluateResult, store: Store, collected: CollectResult | None = None) -> None:
        self.outcome = outcome
        self.store = store
        self.collected = collected

    @property
    def run(self) -> str:
        """Id of the run."""
        return self.outcome.run

    @property
    def folder(self) -> Path:
        """Folder of the run."""
        return self.outcome.folder

    @property
    def report(self) -> Path:
        """The report, as HTML."""
        return self.outcome.report

    @property
    def gate(self) -> Gate:
        """The gate of the run: ``pass``, ``fail`` or ``inconclusive``."""
        return self.outcome.gate

    @property
    def gate_reason(self) -> str:
        """One sentence that says why."""
        return self.outcome.gate_reason

    @property
    def scored(self) -> int:
        """Scores with a value, metrics of rows counted singly."""
        return self.outcome.scored

    @property
    def unscored(self) -> int:
        """Scores that could not be measured."""
        return self.outcome.unscored

    @property
    def computed(self) -> int:
        """Row scores computed in this run."""
        return self.outcome.computed

    @property
    def reused(self) -> int:
        """Row scores taken from the store."""
        return self.outcome.reused

    @cached_property
    def scores(self) -> DataFrame:
        """Every score: a line for each case, model, metric and trial (``docs/python.md`` has the columns)."""
        from leadline.tasks.publish.exports import frames

        return frames.scores(self.store, self.store.run(self.run))

    @cached_property
    def aggregates(self) -> DataFrame:
        """Every mean: a line for each metric and model, with interval, coverage and verdict."""
        from leadline.tasks.publish.exports import frames

        return frames.aggregates(self.store, self.store.run(self.run))

    @cached_property
    def problems(self) -> DataFrame:
        """Every problem, the worst first."""
        from leadline.tasks.publish.exports import frames

        return frames.problems(self.store, self.store.run(self.run))

    def compare(self, other: str | Evaluated, **options: Any) -> Comparison:
        """Compare this run with another one, case by case, and decide whether this one is worse.

        Args:
            other: The baseline: a result, or a run by its id, ``latest~1`` or ``tag:NAME``.
            **options: Fields of :class:`~leadline.flows.compare.config.CompareConfig`, for example ``margin=0.02``.

        Returns:
            The verdict, the reason, each metric with its interval, and where the report is.
        """
        return compare(other, self, **options)

    def __repr__(self) -> str:
        return f"<leadline run {self.run}: {self.gate}. {self.gate_reason}>"
