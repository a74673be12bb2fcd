"""Problems: what is wrong with the models, with the data, and with the instrument itself.

``docs/problems-and-insights.md`` lists all kinds with their triggers, severities and attributes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from leadline.evaluators.core.row import Severity
from leadline.tasks.analyse.findings import data_problems, instrument_problems, model_problems
from leadline.tasks.analyse.findings.finding import Finding, lines, merge
from leadline.tasks.analyse.findings.run_view import RunView
from leadline.tasks.db.tables import replace_lines, show_targets

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

CHECKS: Final[tuple[Callable[[RunView], Iterator[Finding]], ...]] = (
    model_problems.threshold_problems,
    model_problems.flip_problems,
    model_problems.retrieval_problems,
    instrument_problems.crash_problems,
    instrument_problems.unscored_problems,
    instrument_problems.few_cases_problems,
    instrument_problems.unreachable_problems,
    instrument_problems.flag_problems,
    data_problems.missing_input_problems,
    data_problems.inapplicable_problems,
    data_problems.host_problems,
    data_problems.cost_problems,
)
_ORDER: Final = {severity: place for place, severity in enumerate(Severity)}


def find_problems(connection: DuckDBPyConnection) -> dict[str, int]:
    """Fill the table ``problems`` and return their number by severity, worst first, zeros included.

    Reads what :func:`.aggregate.aggregate` and :func:`.perturbation_flips.find_flips` left. Problems stand worst first,
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
