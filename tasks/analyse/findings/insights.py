"""Insights: which models lead and trail, and which examples to look at first.

``docs/problems-and-insights.md`` lists all kinds with their triggers and attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from leadline.tasks.analyse.findings import comparisons, examples
from leadline.tasks.analyse.findings.finding import Finding, lines, merge
from leadline.tasks.analyse.findings.run_view import RunView
from leadline.tasks.db.tables import replace_lines, show_targets

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SOURCES: Final[tuple[Callable[[RunView], Iterator[Finding]], ...]] = (
    comparisons.best_and_worst,
    comparisons.retrieval_comparisons,
    comparisons.usage_comparisons,
    examples.hardest_cases,
    examples.least_grounded_sentences,
)


def find_insights(connection: DuckDBPyConnection) -> int:
    """Fill the table ``insights`` and return their number; they stand by type, then by evaluator."""
    show_targets(connection)
    view = RunView(connection)
    found = merge(insight for source in SOURCES for insight in source(view))
    found.sort(key=lambda insight: (insight.type, -1 if insight.evaluator_id is None else insight.evaluator_id))
    numbered = enumerate(lines(connection, found))
    return replace_lines(connection, "insights", [{"insight_id": number, **columns} for number, columns in numbered])
