"""Boards of the evaluators whose answers pass or fail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leadline.tasks.publish.exports.leaderboards import standings
from leadline.tasks.publish.report.section import Section, register_section
from leadline.tasks.publish.run_results import RunResults


@register_section
class PassFail(Section):
    """A board for each boolean evaluator: the share that passes, by model."""

    name = "boards"
    title = "Pass / fail"
    order = 300

    def context(self, results: RunResults) -> Mapping[str, Any] | None:
        """Return the boards and their lines; without any, the section is left out."""
        facts = results.facts
        boards = [evaluator for evaluator in facts.evaluators if evaluator.board == "bool" and evaluator.primary]
        lines = {evaluator.id: standings(facts, evaluator) for evaluator in boards}
        return {"boards": boards, "standings": lines} if boards else None
