"""The changes since the baseline: what broke, what was fixed, and what cannot be told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leadline.tasks.analyse.changes import Changes
from leadline.tasks.publish.report.section import Section, register_section
from leadline.tasks.publish.run_results import RunResults
from leadline.tasks.publish.views import Facts


@register_section
class ChangedRows(Section):
    """By model the cases that changed sides and the metrics that were compared."""

    name = "changes"
    title = "Changes"
    order = 350

    def context(self, results: RunResults) -> Mapping[str, Any] | None:
        """Return the changes; the section is left out where no run was compared."""
        changes = _compared(results.facts)
        return None if changes is None else {"changes": changes}

    def count(self, facts: Facts) -> int | None:
        """Return the number of rows that changed sides."""
        changes = _compared(facts)
        return None if changes is None else changes.n_broken + changes.n_fixed


def _compared(facts: Facts) -> Changes | None:
    return facts.changes if facts.changes and not facts.changes.baseline.note else None
