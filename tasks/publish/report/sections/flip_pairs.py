"""Flips under perturbation: their rates, and the pairs of cases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leadline.tasks.publish.report.section import Section, register_section
from leadline.tasks.publish.run_results import RunResults
from leadline.tasks.publish.views import Facts


@register_section
class FlipPairs(Section):
    """Rates and pairs of answers that change sides of the threshold when their question is perturbed."""

    name = "flips"
    title = "Flips"
    order = 600

    def context(self, results: RunResults) -> Mapping[str, Any] | None:
        """Return the rates of the primary metrics; without any rate, the section is left out."""
        facts = results.facts
        primary = {metric.id for evaluator in facts.evaluators for metric in evaluator.metrics if metric.primary}
        rates = [rate for rate in facts.flip_rates if rate.metric_id in primary]
        return {"rates": rates} if facts.flip_rates else None

    def count(self, facts: Facts) -> int:
        """Return the number of flips."""
        return facts.n_flips
