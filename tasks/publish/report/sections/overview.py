"""The first screen: the run in sentences, its worst problems, and then its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leadline.tasks.publish.report.section import Section, register_section
from leadline.tasks.publish.run_results import RunResults
from leadline.tasks.runs.answers import SYMBOLS
from leadline.tasks.runs.run_sentences import scores_line


@register_section
class Overview(Section):
    """The summary, then problems, coverage and answers that perturbations turned bad."""

    name = "overview"
    title = "Overview"
    order = 100

    def context(self, results: RunResults) -> Mapping[str, Any]:
        """Return how many comparisons with a perturbed copy turned bad, on metrics that must or should hold."""
        facts = results.facts
        rates = [
            rate
            for rate in facts.flip_rates
            if not rate.perturbation and (metric := facts.metric(rate.metric_id)) and metric.role != "information"
        ]
        return {
            "symbols": SYMBOLS,
            "scores": scores_line(facts),
            "n_turned": sum(r.n_passed_to_failed for r in rates),
            "n_compared": sum(r.n_pairs for r in rates),
        }
