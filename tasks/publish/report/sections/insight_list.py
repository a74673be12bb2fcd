"""The insights: the model to choose, trade-offs, telling slices and cases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from leadline.tasks.db import Insight
from leadline.tasks.publish.report.section import Section, register_section
from leadline.tasks.publish.run_results import RunResults
from leadline.tasks.publish.views import Facts

MOST_LINKS: Final = 8
"""Cases that an insight leads to."""


@register_section
class InsightList(Section):
    """Every insight, with a way to its case."""

    name = "insights"
    title = "Insights"
    order = 500

    def context(self, results: RunResults) -> Mapping[str, Any]:
        """Return the way from an insight to the keys of its first cases."""
        rows = results.facts.rows

        def cases(insight: Insight) -> list[str]:
            return list(dict.fromkeys(rows[row][0] for row in insight.row_ids if row in rows))[:MOST_LINKS]

        return {"cases": cases}

    def count(self, facts: Facts) -> int:
        """Return the number of insights."""
        return len(facts.insights)
