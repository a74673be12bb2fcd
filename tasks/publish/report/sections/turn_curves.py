"""Curves by turn: how many conversations fail at each of their turns, or what they score there, drawn as SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from leadline.tasks.analyse.clusters import perturbation_clusters
from leadline.tasks.db import has_turns, records, show_turn_means, sql
from leadline.tasks.ground.numbers import ABSENT, RANGE, figure
from leadline.tasks.publish.facts import Facts, MetricView, ModelView
from leadline.tasks.publish.report.section import Section, register_section
from leadline.tasks.publish.run_results import RunResults
from leadline.tasks.statistics.statistics import Clusters, Sample, mean_interval

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MOST_TURNS: Final = 20
"""Turns that are drawn; the table ``turn_scores`` has all of them."""
MOST_MODELS: Final = 8
"""Models that are drawn in one chart, a colour each; its figures have all."""
MOST_LABELS: Final = 8
"""Turns below the axis that are named."""
LEFT, RIGHT, TOP, BOTTOM = 42.0, 310.0, 8.0, 126.0
"""The box that curves are drawn in; the template has the same numbers."""
APART: Final = 4.0
"""Distance between the points of two models at the same turn, so that their intervals stand side by side."""


@register_section
class TurnCurves(Section):
    """A chart for each metric: the conversations that fail it, or their mean, at each turn."""

    name = "turns"
    title = "By turn"
    order = 750

    def context(self, results: RunResults) -> Mapping[str, Any] | None:
        """Return the charts; without conversations of several turns, the section is left out."""
        if not has_turns(results.connection):
            return None
        charts = turn_charts(results.connection, results.facts)
        return {"charts": charts} if charts else None


@dataclass(frozen=True, slots=True)
class TurnValue:
    """The value of one model at a turn, over the conversations that have it.

    Attributes:
        turn: Its number, from 1.
        value: The share of them that fails, or their mean.
        low: Lower end of the 95 % interval, ``None`` where there is none.
    """

    turn: int
    n: int
    value: float
    low: float | None
    high: float | None

    def words(self, share: bool) -> str:
        """Return the value with its interval in brackets."""
        if self.low is None or self.high is None:
            return figure(self.value, share)
        return f"{figure(self.value, share)} ({figure(self.low, share)}{RANGE}{figure(self.high, share)})"


@dataclass(frozen=True, slots=True)
class TurnCurve:
    """The curve of one model.

    Attributes:
        points: Where the values stand, as x and y.
    """

    model: ModelView
    values: Mapping[int, TurnValue]
    path: str
    bars: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class TurnChart:
    """The curves of one metric.

    Attributes:
        share: Whether they are shares of conversations that fail; means otherwise.
        low: Value at the lower end of the axis.
        ticks: Turns that are named, with their places and how many conversations have them.
        more: Whether there are further turns.
        drawn: How many of the curves are drawn, the first ones.
    """

    metric: MetricView
    share: bool
    low: float
    high: float
    ticks: Sequence[tuple[float, int, str]]
    turns: Sequence[int]
    curves: Sequence[TurnCurve]
    more: bool
    drawn: int

    def words(self, curve: TurnCurve, turn: int) -> str:
        """Return what a model's conversations have at a turn, with their number."""
        found = curve.values.get(turn)
        return f"{found.words(self.share)}, n {found.n:,}" if found else ABSENT


def turn_charts(connection: DuckDBPyConnection, facts: Facts) -> list[TurnChart]:
    """Return a chart for each primary metric of which several turns are known, in the order of the evaluators."""
    show_turn_means(connection)
    connection.register("families", perturbation_clusters(connection))
    lines = records(connection, sql("publish/turn_curves"))
    connection.unregister("families")
    metrics = {metric.id: metric for evaluator in facts.evaluators for metric in evaluator.metrics}
    found = []
    for metric_id, group in groupby(lines, lambda line: line["metric_id"]):
        values: dict[int, list[TurnValue]] = {}
        metric = metrics[metric_id]
        share = metric.threshold is not None
        low, high = (0.0, 1.0) if share else (metric.low, metric.high)
        for line in group:
            n, mean, squares, cubes = (line[name] for name in ("n", "mean", "squares", "cubes"))
            clusters = Clusters(**{one.name: line[one.name] for one in fields(Clusters)})
            constant = squares == 0
            sample = Sample(n, mean, squares, cubes, constant, low, high, share or metric.share, clusters)
            interval = mean_interval(sample)
            ends = (interval.low, interval.high) if interval else (None, None)
            values.setdefault(line["model_id"], []).append(TurnValue(line["turn"], n, mean, *ends))
        found.append(_chart(facts, metric, share, values))
    return found


def _chart(facts: Facts, metric: MetricView, share: bool, values: Mapping[int, Sequence[TurnValue]]) -> TurnChart:
    known = [value for line in values.values() for value in line]
    last = max(value.turn for value in known)
    turns = range(1, min(last, MOST_TURNS) + 1)
    low, high = (0.0, 1.0) if share else _axis(metric, known)
    models = [model for model in facts.models if model.id in values]
    drawn = len(models[:MOST_MODELS])

    def across(turn: int, number: int = 0, of: int = 1) -> float:
        middle = LEFT + (turn - 0.5) / len(turns) * (RIGHT - LEFT)
        return round(middle + (number - (of - 1) / 2) * APART, 1)

    def down(value: float) -> float:
        return round(BOTTOM - max(0.0, min(1.0, (value - low) / (high - low))) * (BOTTOM - TOP), 1)

    curves = []
    for number, model in enumerate(models):
        line = [value for value in values[model.id] if value.turn <= MOST_TURNS and math.isfinite(value.value)]
        points = [(across(value.turn, number, drawn), down(value.value)) for value in line]
        path = "M" + "L".join(f"{x} {y}" for x, y in points) if points else ""
        bars = "".join(
            f"M{x} {down(value.low)}V{down(value.high)}"
            for (x, _), value in zip(points, line, strict=True)
            if value.low is not None and value.high is not None
        )
        curves.append(TurnCurve(model, {value.turn: value for value in values[model.id]}, path, bars, points))
    ticks = [(across(turn), turn, _numbers(known, turn)) for turn in turns[:: math.ceil(len(turns) / MOST_LABELS)]]
    return TurnChart(metric, share, low, high, ticks, turns, curves, last > MOST_TURNS, drawn)


def _axis(metric: MetricView, known: Sequence[TurnValue]) -> tuple[float, float]:
    """Return the ends of the axis: the metric's range, and what was seen where that is open."""
    ends = [end for value in known for end in (value.value, value.low, value.high) if end is not None]
    finite = [end for end in ends if math.isfinite(end)] or [0.0]
    low = metric.low if math.isfinite(metric.low) else min(finite)
    high = metric.high if math.isfinite(metric.high) else max(finite)
    return low, high if high > low else low + 1


def _numbers(known: Sequence[TurnValue], turn: int) -> str:
    """Return how many conversations of a model have a turn, from the fewest to the most."""
    counts = [value.n for value in known if value.turn == turn]
    fewest, most = min(counts, default=0), max(counts, default=0)
    return f"{fewest:,}" if fewest == most else f"{fewest:,}{RANGE}{most:,}"
