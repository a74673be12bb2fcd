"""Scores by metric and model: the heat map, the boards of what passes or fails, and the spread."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from leadline.evaluators.core.suites import folded
from leadline.evaluators.ground import count, nouns
from leadline.tasks.db import Aggregate, sql
from leadline.tasks.ground.numbers import ABSENT, RANGE, bound, figure, percent
from leadline.tasks.publish.facts import EvaluatorView, Facts, MetricView, ModelView, standings
from leadline.tasks.publish.report.section import Section, register_section
from leadline.tasks.publish.run_results import RunResults
from leadline.tasks.statistics.early_stopping import ALWAYS_VALID
from leadline.tasks.statistics.statistics import FEW_SEEN, TRUSTING

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ROLES: Final = ("must", "should", "information")
SYMBOLS: Final[Mapping[str | None, str]] = {"pass": "✓", "fail": "✗", "inconclusive": "≈", None: ""}


@register_section
class Scores(Section):
    """The mean of each metric by model, with interval, verdict and coverage."""

    name = "scores"
    title = "Scores"
    order = 200

    def context(self, results: RunResults) -> Mapping[str, Any]:
        """Return the groups of the heat map."""
        return {"groups": heat_groups(results.facts)}


@dataclass(frozen=True, slots=True)
class HeatLine:
    """One line of the heat map.

    Attributes:
        folded: True if the line is shown only among all metrics: of an evaluator's metrics the secondary ones, and
            evaluators that look like another of the run, and what applies to no row.
        alike: Names of the evaluators that are folded below this line.
    """

    evaluator: EvaluatorView
    metric: MetricView
    cells: list[HeatCell]
    folded: bool
    alike: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HeatGroup:
    """The lines of one role and family."""

    role: str
    family: str
    lines: tuple[HeatLine, ...]


@dataclass(frozen=True, slots=True)
class HeatCell:
    """One cell of the heat map.

    Attributes:
        symbol: ✓, ✗, ≈ or nothing.
        detail: The interval as it reads, or how many answers fail what must hold, or "".
        gap: The coverage as it reads where rows are unscored, or "".
        style: Classes: the side of the threshold, and how far from it (d1 to d4).
        people: The mean as people's labels correct it, or "".
    """

    model: ModelView
    value: str
    symbol: str
    detail: str
    gap: str
    style: str
    title: str
    people: str = ""


def heat_groups(facts: Facts) -> list[HeatGroup]:
    """Return the heat map's lines by role and family; look-alikes stand below the evaluator that is preferred."""
    below = folded(evaluator.key for evaluator in facts.evaluators)
    found: dict[tuple[str, str], list[HeatLine]] = {}
    for evaluator in facts.evaluators:
        if evaluator.key in below or evaluator.primary is None:
            continue
        others = [other for other in facts.evaluators if below.get(other.key) == evaluator.key]
        lines = found.setdefault((evaluator.primary.role, evaluator.family), [])
        lines += _lines(facts, evaluator, alike=tuple(other.short for other in others))
        for other in others:
            lines += _lines(facts, other, below=True)
    families = list(dict.fromkeys(family for _, family in found))
    return [
        HeatGroup(role, family, tuple(found[role, family]))
        for role, family in sorted(found, key=lambda group: (ROLES.index(group[0]), families.index(group[1])))
    ]


def _lines(
    facts: Facts, evaluator: EvaluatorView, *, alike: tuple[str, ...] = (), below: bool = False
) -> Iterator[HeatLine]:
    for metric in evaluator.metrics:
        first = metric is evaluator.primary
        cells = heat_row(facts, metric)
        empty = all(cell.value == ABSENT for cell in cells)
        hidden = below or empty or not (metric.primary or first)
        yield HeatLine(evaluator, metric, cells, hidden, alike if first else ())


def heat_row(facts: Facts, metric: MetricView) -> list[HeatCell]:
    """Return the cells of one metric, in the order of the models; the best value is marked when models differ."""
    found = [facts.aggregates.get((metric.id, model.id)) for model in facts.models]
    values = [item.value for item in found if item is not None and item.value is not None]
    best = (max(values) if metric.higher_is_better else min(values)) if len(set(values)) > 1 else None
    scale = _scale(metric, values)
    cells = [
        _corrected(facts, metric, _cell(metric, model, item, scale))
        for model, item in zip(facts.models, found, strict=True)
    ]
    return [
        replace(cell, style=f"{cell.style} best") if item and item.value is not None and item.value == best else cell
        for cell, item in zip(cells, found, strict=True)
    ]


def _corrected(facts: Facts, metric: MetricView, cell: HeatCell) -> HeatCell:
    """Return a cell with what people's labels make of it."""
    line = facts.corrections.get((metric.id, cell.model.id))
    if line is None or line.value is None:
        return cell
    of = "good answers" if line.is_share else "mean"
    title = f"{cell.title}\nby people's labels, {of}: {line.words}"
    return replace(cell, people=f"people {figure(line.value, line.is_share)}", title=title)


def _scale(metric: MetricView, values: list[float]) -> tuple[float, float]:
    """Return the ends of the colour scale: the metric's range, or what was seen of an open one."""
    finite = [value for value in (*values, metric.threshold) if value is not None and math.isfinite(value)]
    low = metric.low if math.isfinite(metric.low) else min(finite, default=0.0)
    high = metric.high if math.isfinite(metric.high) else max(finite, default=1.0)
    return low, high


def _cell(metric: MetricView, model: ModelView, item: Aggregate | None, scale: tuple[float, float]) -> HeatCell:
    if item is None or item.value is None:
        lost = item is not None and item.n_unscored > 0
        title = f"{metric.name}, {model.label}: " + (
            f"none of {count(item.n_unscored, 'row')} could be scored ({_reasons(item)})"
            if item is not None and lost
            else "not applicable, the rows lack an input"
        )
        return HeatCell(
            model,
            "?" if lost else ABSENT,
            "",
            "",
            "unscored" if lost else "",
            "none" + (" lost" if lost else ""),
            title,
        )
    passes = metric.passes(item.value)
    side = "" if passes is None else "pass" if passes else "fail"
    style = f"{side} d{_depth(metric, item.value, scale)}" + (" tie" if item.verdict == "inconclusive" else "")
    interval = ""
    if item.ci_low is not None and item.ci_high is not None and math.isfinite(item.ci_low):
        interval = f"{figure(item.ci_low, metric.share)}{RANGE}{figure(item.ci_high, metric.share)}"
    failing = None if item.n_pass is None else item.n_scored - item.n_pass
    counted = f"{failing:,} of {item.n_scored:,} {nouns(failing, 'fails', 'fail')}" if failing is not None else ""
    gap = "" if not item.n_unscored else percent(item.coverage)
    return HeatCell(
        model=model,
        value=figure(item.value, metric.share),
        symbol=SYMBOLS[item.verdict],
        detail=counted if metric.role == "must" and counted else interval,
        gap=gap,
        style=style.strip(),
        title=_title(metric, model, item, interval),
    )


def _depth(metric: MetricView, value: float, scale: tuple[float, float]) -> int:
    """Return 1 to 4: how far a value is from its threshold, or without one how high it is on the scale."""
    low, high = scale
    if metric.threshold is None or not math.isfinite(metric.threshold):
        share = (value - low) / (high - low) if high > low and math.isfinite(value) else 1.0
    else:
        room = (high if value >= metric.threshold else low) - metric.threshold
        share = (
            abs((value - metric.threshold) / room)
            if room and math.isfinite(value)
            else float(value != metric.threshold)
        )
    return 1 + min(3, max(0, int(share * 4)))


def _title(metric: MetricView, model: ModelView, item: Aggregate, interval: str) -> str:
    lines = [f"{metric.name}, {model.label}: {figure(item.value, metric.share)}"]
    if interval:
        trust = f": {FEW_SEEN}" if item.ci_method == TRUSTING else ""
        lines.append(f"95 % interval {interval}{f' ({item.ci_method}{trust})' if item.ci_method else ''}")
    if item.threshold is not None:
        words = {"pass": "satisfied", "fail": "not satisfied", "inconclusive": "cannot be told", None: ""}[item.verdict]
        sign = "at least" if metric.higher_is_better else "at most"
        lines.append(f"threshold {sign} {bound(item.threshold, metric.share)}: {words}")
    if item.n_pass is not None and item.n_scored and not metric.dataset_level:
        lines.append(f"{item.n_pass} of {count(item.n_scored, 'row')} {nouns(item.n_pass, 'satisfies', 'satisfy')} it")
    if item.n_unscored:
        lines.append(f"{count(item.n_unscored, 'row')} unscored: {_reasons(item)}")
        if item.if_worst is not None and item.if_best is not None:
            bounds = sorted((item.if_worst, item.if_best))
            lines.append(
                f"with them it would be {figure(bounds[0], metric.share)} to {figure(bounds[1], metric.share)}"
            )
    if item.n_not_applicable:
        left = " or not needed for a decision" if item.ci_method == ALWAYS_VALID else ""
        lines.append(f"{count(item.n_not_applicable, 'row')} not applicable{left}")
    return "\n".join(lines)


def _reasons(item: Aggregate) -> str:
    return ", ".join(f"{reason} {count}" for reason, count in item.reasons.items()) or "no reason given"


BINS: Final = 20


@register_section
class Distributions(Section):
    """A histogram of each metric by model."""

    name = "distributions"
    file = "distributions"
    title = "Distributions"
    order = 800

    def context(self, results: RunResults) -> Mapping[str, Any] | None:
        """Return the histograms by metric; without any, the section is left out."""
        found = _distributions(results.connection, results.facts)
        return {"distributions": found} if found else None


@dataclass(frozen=True, slots=True)
class Histogram:
    """Bars of one model as SVG paths in a box of 20 by 1."""

    model: ModelView
    good: str
    bad: str
    plain: str
    n: int
    mean: float | None


@dataclass(frozen=True, slots=True)
class Distribution:
    """The histograms of one metric, with a common axis; ``limit`` is the threshold's place on it, if it is there."""

    metric: MetricView
    low: float
    high: float
    limit: float | None
    models: tuple[Histogram, ...]


def _distributions(connection: DuckDBPyConnection, facts: Facts) -> dict[int, Distribution]:
    """Return the distribution of each metric that has one."""
    counts: dict[int, dict[int, list[int]]] = {}
    axes: dict[int, tuple[float, float]] = {}
    for metric_id, model_id, low, high, position, n in connection.execute(
        sql("publish/histograms").format(bins=BINS)
    ).fetchall():
        axes[metric_id] = (low, high)
        counts.setdefault(metric_id, {}).setdefault(model_id, [0] * BINS)[position] = n
    out = {}
    for metric_id, by_model in counts.items():
        metric = facts.metric(metric_id)
        if metric is None:
            continue
        low, high = axes[metric_id]
        limit = None
        if metric.threshold is not None and low <= metric.threshold <= high:
            limit = (metric.threshold - low) / (high - low) * BINS
        models = tuple(
            _histogram(facts, metric, model, by_model[model.id], (low, high))
            for model in facts.models
            if model.id in by_model
        )
        out[metric_id] = Distribution(metric, low, high, limit, models)
    return out


def _histogram(
    facts: Facts, metric: MetricView, model: ModelView, bins: list[int], axis: tuple[float, float]
) -> Histogram:
    low, high = axis
    top = max(bins)
    paths = {True: "", False: "", None: ""}
    for position, n in enumerate(bins):
        if n:
            # A bin that is there must be seen, however small beside the others.
            height = max(0.04, n / top)
            middle = low + (position + 0.5) / BINS * (high - low)
            paths[metric.passes(middle)] += f"M{position + 0.08:g} 1v{-height:.3f}h.84V1z"
    found = facts.aggregates.get((metric.id, model.id))
    return Histogram(model, paths[True], paths[False], paths[None], sum(bins), found.value if found else None)


@dataclass(frozen=True, slots=True)
class Bar:
    """The share of a model's answers that pass, with its interval, its limit and whether it keeps that."""

    share: float
    low: float | None
    high: float | None
    limit: float | None
    passes: bool | None


def passing(metric: MetricView, aggregate: Aggregate) -> Bar:
    """Return the share of answers that pass, also where the metric is the share of those that fail."""
    value, low, high, limit = aggregate.value or 0.0, aggregate.ci_low, aggregate.ci_high, metric.threshold
    passes = metric.passes(value)
    if metric.higher_is_better:
        return Bar(value, low, high, limit, passes)
    left, right, kept = (None if end is None else 1 - end for end in (high, low, limit))
    return Bar(1 - value, left, right, kept, passes)


@register_section
class PassFail(Section):
    """A board for each boolean evaluator: the share that passes, by model."""

    name = "boards"
    file = "pass_fail"
    title = "Pass / fail"
    order = 300

    def context(self, results: RunResults) -> Mapping[str, Any] | None:
        """Return the boards and their lines; without any, the section is left out."""
        facts = results.facts
        boards = [evaluator for evaluator in facts.evaluators if evaluator.board == "bool" and evaluator.primary]
        lines = {evaluator.id: standings(facts, evaluator) for evaluator in boards}
        return {"boards": boards, "standings": lines, "passing": passing} if boards else None
