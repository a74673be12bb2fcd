"""Problems: what is wrong with the models, with the data, and with the instrument itself.

``docs/mechanisms/problems-and-insights.md`` lists all kinds with their triggers, severities and attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from leadline.evaluators.data import Severity
from leadline.tasks.analyse.answer_shares import measure_shares
from leadline.tasks.analyse.findings import (
    answer_problems,
    data_problems,
    failure_clusters,
    flip_problems,
    instrument_problems,
    metric_problems,
    slice_problems,
)
from leadline.tasks.analyse.findings.finding import Finding, RunView, lines, merge
from leadline.tasks.db import replace_lines, show_targets
from leadline.tasks.policy.policy import Policy, ProblemStyle

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from leadline.evaluators.models.vectors import VectorStore

_Check: TypeAlias = Callable[[RunView], Iterator[Finding]]

_OF_THE_INSTRUMENT: Final[tuple[_Check, ...]] = (
    instrument_problems.crash_problems,
    instrument_problems.judge_change_problems,
    instrument_problems.unscored_problems,
    instrument_problems.few_cases_problems,
    instrument_problems.unreachable_problems,
    flip_problems.cached_problems,
    instrument_problems.flag_problems,
    instrument_problems.position_problems,
    data_problems.missing_input_problems,
    data_problems.inapplicable_problems,
    data_problems.host_problems,
    data_problems.cost_problems,
)
CHECKS: Final[Mapping[ProblemStyle, tuple[_Check, ...]]] = {
    "seed": (
        metric_problems.threshold_problems,
        metric_problems.corrected_value_problems,
        flip_problems.flip_problems,
        metric_problems.retrieval_problems,
        *_OF_THE_INSTRUMENT,
    ),
    "grouped": (
        answer_problems.empty_answer_problems,
        answer_problems.bad_answer_problems,
        metric_problems.failing_rows_problems,
        metric_problems.missed_threshold_problems,
        metric_problems.corrected_value_problems,
        answer_problems.regression_problems,
        flip_problems.perturbation_problems,
        slice_problems.slice_problems,
        slice_problems.demanded_slice_problems,
        failure_clusters.cluster_problems,
        metric_problems.retrieval_problems,
        *_OF_THE_INSTRUMENT,
    ),
}
"""The checks of each style of a policy."""
_ONLY_WITH: Final[Mapping[_Check, str]] = {
    flip_problems.flip_problems: "flips",
    flip_problems.perturbation_problems: "flips",
    slice_problems.slice_problems: "slices",
    slice_problems.demanded_slice_problems: "slices",
    answer_problems.regression_problems: "baseline",
}
"""Checks that have nothing to look at in most runs, with what a run must have for them."""
_ORDER: Final = {severity: place for place, severity in enumerate(Severity)}


def find_problems(
    connection: DuckDBPyConnection,
    policy: Policy,
    vectors: VectorStore | None = None,
    judges: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, int]:
    """Fill the table ``problems`` and return their number by severity, worst first, zeros included.

    Reads what :func:`.aggregate.aggregate` and :func:`.flips.find_flips` left. Problems stand worst first,
    those of models before those of the instrument, then by harm, type and evaluator.

    Args:
        vectors: The store's embeddings, by which failing questions are compared; without them, by their words.
        judges: How the run's enrolled judges stood, by key, as its record has it.
    """
    show_targets(connection)
    measure_shares(connection, policy)
    view = RunView(connection, policy, vectors, judges or {})
    there = _parts(view)
    checks = [check for check in CHECKS[policy.problems] if _ONLY_WITH.get(check, "") in there]
    found = merge(problem for check in checks for problem in check(view))
    found = failure_clusters.without_slices(found)
    found.sort(key=_place)
    replace_lines(
        connection,
        "problems",
        [
            {
                "problem_id": number,
                "severity": str(_severity(problem)),
                "question": _question(view, problem),
                "kind": problem.kind,
                "fault": problem.fault,
                "instrument": problem.instrument,
                "harm": problem.harm,
                **columns,
            }
            for number, (problem, columns) in enumerate(zip(found, lines(connection, found), strict=True))
        ],
    )
    return count_problems(connection)


def count_problems(connection: DuckDBPyConnection) -> dict[str, int]:
    """Return the number of a run's problems by severity, worst first, zeros included."""
    counted = dict(connection.execute("SELECT severity, count(*) FROM problems GROUP BY severity").fetchall())
    return {severity.value: int(counted.get(severity.value, 0)) for severity in Severity}


def _parts(view: RunView) -> set[str]:
    """Return what there is in a run beside scores; ``""`` always."""
    statement = "SELECT EXISTS (FROM flip_rates), EXISTS (FROM slices), EXISTS (FROM baseline)"
    ((flips, slices, baseline),) = view.connection.execute(statement).fetchall()
    demanded = any(rule["slices"] for rule in view.rules.values())
    there = {"": True, "flips": flips, "slices": slices or demanded, "baseline": baseline}
    return {name for name, found in there.items() if found}


def _severity(problem: Finding) -> Severity:
    return problem.severity or Severity.LOW


def _question(view: RunView, problem: Finding) -> str:
    """Return the question of the verdict that a problem bears on: its own, or that of its metric or evaluator."""
    if problem.question:
        return problem.question
    metric_id = problem.metric_id
    if metric_id is None and problem.evaluator_id is not None and (primary := view.primary(problem.evaluator_id)):
        metric_id = primary["metric_id"]
    return "" if metric_id is None else str(view.rules[metric_id]["question"])


def _place(problem: Finding) -> tuple[int, bool, float, str, int]:
    evaluator = -1 if problem.evaluator_id is None else problem.evaluator_id
    return _ORDER[_severity(problem)], problem.instrument, -problem.harm, problem.type, evaluator
