"""Boards of the evaluators whose answers pass or fail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from leadline.tasks.db import Aggregate
from leadline.tasks.publish.report.section import Section, register_section
from leadline.tasks.publish.run_results import RunResults
from leadline.tasks.publish.standings import standings
from leadline.tasks.publish.views import MetricView


@dataclass(frozen=True, slots=True)
class Bar:
    """The share of a model's answers that pass, with its interval, its limit and whether it keeps that."""

    share: float
    low: float | None
    high: float | None
    limit: float | None
    passes: bool | None


def passing(metric: MetricView, aggregate: Aggregate) -> Bar:
    """Return the share of answers that pass, also where the metric is the share of those that fail.

    Args:
        metric: The metric that stands for the evaluator.
        aggregate: Its value for a model.
    """
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
    title = "Pass / fail"
    order = 300

    def context(self, results: RunResults) -> Mapping[str, Any] | None:
        """Return the boards and their lines; without any, the section is left out."""
        facts = results.facts
        boards = [evaluator for evaluator in facts.evaluators if evaluator.board == "bool" and evaluator.primary]
        lines = {evaluator.id: standings(facts, evaluator) for evaluator in boards}
        return {"boards": boards, "standings": lines, "passing": passing} if boards else None
