"""The gate, and the run in five numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leadline.tasks.publish.report.section import Section, register_section
from leadline.tasks.publish.run_results import RunResults


@register_section
class Overview(Section):
    """The gate, problems, coverage, flips and work."""

    name = "overview"
    title = "Overview"
    order = 100

    def context(self, results: RunResults) -> Mapping[str, Any]:
        """Return the number of comparisons with a perturbed copy."""
        return {"flip_total": sum(rate.n_pairs for rate in results.facts.flip_rates if not rate.perturbation)}
