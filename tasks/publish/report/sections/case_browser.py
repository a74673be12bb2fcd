"""The cases: search, filters, and each case with its answers, scores and evidence."""

from __future__ import annotations

from leadline.tasks.publish.report.section import Section, register_section
from leadline.tasks.publish.views import Facts


@register_section
class CaseBrowser(Section):
    """Every case that fits into the page; other sections lead to it by ``page.show`` and ``page.openCase``."""

    name = "cases"
    title = "Cases"
    order = 900

    def count(self, facts: Facts) -> int:
        """Return the number of cases of the run."""
        return facts.n_cases
