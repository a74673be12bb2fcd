"""Problems: what is wrong with the models, with the data, and with the instrument itself.

``docs/problems-and-insights.md`` lists all kinds with their triggers, severities and attributes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from leadline.evaluators.core.row import Severity
from leadline.tasks.analyse.findings import (
    data_problems,
    failure_clusters,
    flip_problems,
    instrument_problems,
    model_problems,
    regression_problems,
    rule_problems,
    slice_problems,
)
from leadline.tasks.analyse.findings.finding import Finding, lines, merge
from leadline.tasks.analyse.findings.run_view import RunView
from leadline.tasks.db.tables import replace_lines, show_targets
from leadline.tasks.policy.policy import Policy, ProblemStyle

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from leadline.evaluators.models.vectors import VectorStore

_Check: TypeAlias = Callable[[RunView], Iterator[Finding]]

_OF_THE_INSTRUMENT: Final[tuple[_Check, ...]] = (
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
CHECKS: Final[Mapping[ProblemStyle, tuple[_Check, ...]]] = {
    "seed": (
        model_problems.threshold_problems,
        model_problems.flip_problems,
        model_problems.retrieval_problems,
        *_OF_THE_INSTRUMENT,
    ),
    "grouped": (
        rule_problems.failing_rows_problems,
        rule_problems.missed_threshold_problems,
        regression_problems.regression_problems,
        flip_problems.perturbation_problems,
        slice_problems.slice_problems,
        slice_problems.demanded_slice_problems,
        failure_clusters.cluster_problems,
        model_problems.retrieval_problems,
        *_OF_THE_INSTRUMENT,
    ),
}
"""The checks of each style of a policy."""
_ORDER: Final = {severity: place for place, severity in enumerate(Severity)}


def find_problems(connection: DuckDBPyConnection, policy: Policy, vectors: VectorStore | None = None) -> dict[str, int]:
    """Fill the table ``problems`` and return their number by severity, worst first, zeros included.

    Reads what :func:`.aggregate.aggregate` and :func:`.perturbation_flips.find_flips` left. Problems stand worst first,
    those of models before those of the instrument, then by harm, type and evaluator.

    Args:
        connection: The run's database.
        policy: The gate's policy.
        vectors: The store's embeddings, by which failing questions are compared; without them, by their words.
    """
    show_targets(connection)
    view = RunView(connection, policy, vectors)
    found = merge(problem for check in CHECKS[policy.problems] for problem in check(view))
    found = failure_clusters.without_slices(found)
    found.sort(key=_place)
    replace_lines(
        connection,
        "problems",
        [
            {
                "problem_id": number,
                "severity": str(_severity(problem)),
                "kind": problem.kind,
                "fault": problem.fault,
                "instrument": problem.instrument,
                "harm": problem.harm,
                **columns,
            }
            for number, (problem, columns) in enumerate(zip(found, lines(connection, found), strict=True))
        ],
    )
    counted = Counter(_severity(problem) for problem in found)
    return {severity.value: counted[severity] for severity in Severity}


def _severity(problem: Finding) -> Severity:
    return problem.severity or Severity.LOW


def _place(problem: Finding) -> tuple[int, bool, float, str, int]:
    evaluator = -1 if problem.evaluator_id is None else problem.evaluator_id
    return _ORDER[_severity(problem)], problem.instrument, -problem.harm, problem.type, evaluator
