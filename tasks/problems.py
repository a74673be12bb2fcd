"""Problems: what is wrong with the models, with the data, and with the instrument itself.

``docs/problems-and-insights.md`` lists all kinds with their triggers, severities and attributes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from evaluators.types import Severity
from tasks.findings import of_data, of_instruments, of_models
from tasks.findings.finding import Finding, lines, merge
from tasks.findings.view import RunView
from tasks.tables import replace_lines, show_targets

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

CHECKS: Final[tuple[Callable[[RunView], Iterator[Finding]], ...]] = (
    of_models.threshold_problems,
    of_models.flip_problems,
    of_models.retrieval_problems,
    of_instruments.crash_problems,
    of_instruments.unscored_problems,
    of_instruments.few_cases_problems,
    of_instruments.unreachable_problems,
    of_instruments.flag_problems,
    of_data.missing_input_problems,
    of_data.inapplicable_problems,
    of_data.host_problems,
    of_data.cost_problems,
)
_ORDER: Final = {severity: place for place, severity in enumerate(Severity)}


def find_problems(connection: DuckDBPyConnection) -> dict[str, int]:
    """Fill the table ``problems`` and return their number by severity, worst first, zeros included.

    Reads what :func:`tasks.aggregate.aggregate` and :func:`tasks.flips.find_flips` left. Problems stand worst first,
    those of models before those of the instrument, then by type and evaluator.
    """
    show_targets(connection)
    view = RunView(connection)
    found = merge(problem for check in CHECKS for problem in check(view))
    found.sort(key=_place)
    replace_lines(
        connection,
        "problems",
        [
            {"problem_id": number, "severity": str(_severity(problem)), "instrument": problem.instrument, **columns}
            for number, (problem, columns) in enumerate(zip(found, lines(connection, found), strict=True))
        ],
    )
    counted = Counter(_severity(problem) for problem in found)
    return {severity.value: counted[severity] for severity in Severity}


def _severity(problem: Finding) -> Severity:
    return problem.severity or Severity.LOW


def _place(problem: Finding) -> tuple[int, bool, str, int]:
    evaluator = -1 if problem.evaluator_id is None else problem.evaluator_id
    return _ORDER[_severity(problem)], problem.instrument, problem.type, evaluator
