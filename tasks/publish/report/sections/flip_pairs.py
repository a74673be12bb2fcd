"""Flips under perturbation: their rates, and the pairs of cases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from leadline.tasks.publish.flip_words import flip_sentences
from leadline.tasks.publish.report.section import Section, register_section
from leadline.tasks.publish.run_results import RunResults
from leadline.tasks.publish.views import Facts

MOST_TOLD: Final = 40
"""Metrics and models whose flips are told in sentences."""


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
        told = [
            (rate, list(flip_sentences(rate, facts.cause(rate))))
            for rate in rates
            if not rate.perturbation and rate.word
        ]
        return {"rates": rates, "told": told[:MOST_TOLD], "noisy": bool(told)} if facts.flip_rates else None

    def count(self, facts: Facts) -> int:
        """Return the number of flips."""
        return facts.n_flips
