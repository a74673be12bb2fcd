"""A store as programs see it: the result of an evaluation, runs compared, and all runs, as DataFrames."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from leadline.api.displays import ShownCase, first_screen, forest_plot, shown_case
from leadline.api.settings import checked
from leadline.evaluators.ground import UsageError, one_line
from leadline.flows.collect import CollectResult
from leadline.flows.compare import Compare, CompareConfig
from leadline.flows.evaluate.config import EvaluateResult
from leadline.flows.shared.settings import Gate
from leadline.tasks.publish.exports import published_tables as frames
from leadline.tasks.runs.query import archive
from leadline.tasks.store.store import Store

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

    from leadline.tasks.compare import Comparison
    from leadline.tasks.runs.run_facts import Answer


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


@dataclass(frozen=True, slots=True)
class OpenedStore:
    """The store of scores, runs and reports.

    Attributes:
        store: The store as the steps of a run use it.
    """

    store: Store

    @property
    def root(self) -> Path:
        """Its folder; of a store in a bucket, this host's working copy."""
        return self.store.root

    @property
    def location(self) -> str:
        """Its path or URL, which :func:`open_store` takes on any host that sees it."""
        return self.store.location

    def runs(self) -> DataFrame:
        """Return the runs, the oldest first: name, status, dataset, gate, and counts of scores and problems."""
        return frames.runs(self.store)

    def history(self, metric: str) -> DataFrame:
        """Return the means of a metric in all runs, the oldest first, with intervals; no lines if none measured it.

        Args:
            metric: Key of a metric, id of an evaluator for its primary metrics, or both as ``evaluator.metric``.
        """
        return frames.history(self.store, metric)

    def sql(self, query: str) -> DataFrame:
        """Run one query over all runs together; it can change nothing and reach nothing but the store.

        Args:
            query: A query of DuckDB over the tables of ``leadline store sql``, each with a column ``run``.

        Raises:
            UsageError: It is not a single query, or it fails.
        """
        with archive(self.store, statement=query) as opened, opened.query(query) as found:
            return found.df()


def open_store(location: str | os.PathLike[str] | None = None) -> OpenedStore:
    """Open the store of scores, runs and reports.

    Args:
        location: A folder or an object store's URL; by default ``$LEADLINE_STORE`` or ``./.leadline``.

    Raises:
        StoreError: It cannot be made or reached.
    """
    return OpenedStore(Store.open(location))


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
    def questions(self) -> tuple[Answer, ...]:
        """The run's answers to the questions that a person asks: safe, right, grounded, goal, form, fast."""
        return self.outcome.questions

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
        """Every score: a line for each case, model, metric and trial."""
        return frames.scores(self.store, self.store.run(self.run))

    @cached_property
    def turns(self) -> DataFrame:
        """Every score of a turn, where conversations have several; their own are in ``scores``."""
        return frames.turns(self.store, self.store.run(self.run))

    @cached_property
    def steps(self) -> DataFrame:
        """Every step of the traces that were loaded: calls of models and tools, with times and tokens."""
        return frames.steps(self.store, self.store.run(self.run))

    @cached_property
    def aggregates(self) -> DataFrame:
        """Every mean: a line for each metric and model, with interval, coverage and verdict."""
        return frames.aggregates(self.store, self.store.run(self.run))

    @cached_property
    def problems(self) -> DataFrame:
        """Every problem, the worst first."""
        return frames.problems(self.store, self.store.run(self.run))

    def show(self, case: str | int, model: str | None = None) -> ShownCase:
        """Return one case in full: its texts, the answers, and every score with what it rests on.

        Args:
            case: Key of the case, as in the column ``case`` of :attr:`scores`, or the number that it was.
            model: Only the answer of this model.

        Raises:
            UsageError: There is no such case or answer.
        """
        return shown_case(self.store, self.store.run(self.run), str(case), model)

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the report as one page that needs no other file, and write it to a file if one is named.

        Args:
            path: The file; one that is there is replaced.

        Raises:
            UsageError: ``leadline store gc`` dropped the run's results.
        """
        try:
            page = self.report.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise self.store.run(self.run).without_results() from None
        if path is not None:
            Path(path).write_text(page, encoding="utf-8")
        return page

    def plot(self, metrics: str | Sequence[str] | None = None, ax: Axes | None = None) -> Axes:
        """Draw the means with their 95 % intervals as a forest plot; needs matplotlib (``leadline[plot]``).

        Args:
            metrics: Keys of metrics or ids of evaluators. Default: the primary metric of each evaluator.
            ax: Where to draw. Default: a figure of its own.

        Raises:
            UsageError: matplotlib is not installed, or there is no such mean.
        """
        return forest_plot(self.aggregates, [metrics] if isinstance(metrics, str) else metrics, ax)

    def compare(self, other: str | Evaluated, **options: Any) -> Comparison:
        """Compare this run with another one, case by case, and decide whether this one is worse.

        Args:
            other: The baseline: a result, or a run by its id, ``latest~1`` or ``tag:NAME``.
            **options: Fields of :class:`~leadline.flows.compare.CompareConfig`, for example ``margin=0.02``.

        Returns:
            The verdict, the reason, each metric with its interval, and where the report is.
        """
        return compare(other, self, **options)

    def _repr_html_(self) -> str | None:
        try:
            return first_screen(self.store, self.outcome, self.aggregates)
        except UsageError:  # its results were dropped: notebooks show the line of text
            return None

    def __repr__(self) -> str:
        return one_line(f"<leadline run {self.run}: {self.gate}. {self.gate_reason}>")
