"""The insights: best and worst models, hardest cases."""

from __future__ import annotations

from leadline.tasks.publish.report.section import Section, register_section
from leadline.tasks.publish.views import Facts


@register_section
class InsightList(Section):
    """Every insight, with a way to its case."""

    name = "insights"
    title = "Insights"
    order = 500

    def count(self, facts: Facts) -> int:
        """Return the number of insights."""
        return len(facts.insights)
