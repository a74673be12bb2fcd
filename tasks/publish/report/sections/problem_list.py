"""The problems, filtered by severity, origin, type, model and evaluator."""

from __future__ import annotations

from leadline.tasks.publish.report.section import Section, register_section
from leadline.tasks.publish.views import Facts


@register_section
class ProblemList(Section):
    """Every problem, with a way to its answers."""

    name = "problems"
    title = "Problems"
    order = 400

    def count(self, facts: Facts) -> int:
        """Return the number of problems."""
        return len(facts.problems)
