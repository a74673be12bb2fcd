"""The spread of the rows' scores, as histograms in SVG."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from leadline.tasks.db import sql
from leadline.tasks.publish.report.section import Section, register_section
from leadline.tasks.publish.run_results import RunResults
from leadline.tasks.publish.views import Facts, MetricView, ModelView

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

BINS: Final = 20


@register_section
class Distributions(Section):
    """A histogram of each metric by model."""

    name = "distributions"
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
