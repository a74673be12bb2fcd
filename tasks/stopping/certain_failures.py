"""Failures of the gate that no judge can change: those of evaluators that ask none, which score all rows at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leadline.tasks.analyse.aggregate import aggregate
from leadline.tasks.analyse.findings.model_problems import threshold_problems
from leadline.tasks.analyse.findings.rule_problems import failing_rows_problems, missed_threshold_problems
from leadline.tasks.analyse.findings.run_view import RunView
from leadline.tasks.db.statements import sql
from leadline.tasks.db.tables import show_targets
from leadline.tasks.policy.policy import Policy
from leadline.tasks.runs.tally import failing_severities

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def certain_failures(connection: DuckDBPyConnection, policy: Policy, fail_on: str) -> tuple[str, ...]:
    """Return the evaluators without a judge that fail the gate, each with its model where there are several.

    What this leaves in the table ``aggregates`` is replaced when the run is aggregated.

    Args:
        connection: The run, with the scores of all evaluators gathered.
        policy: The gate's policy.
        fail_on: ``high`` or ``medium``.
    """
    ((others,),) = connection.execute("SELECT count(*) FROM evaluators WHERE lane <> 'judge'").fetchall()
    if not others:
        return ()
    aggregate(connection)
    connection.execute(sql("stopping/forget_judged_aggregates"))
    show_targets(connection)
    view = RunView(connection, policy)
    grouped = policy.problems == "grouped"
    checks = (failing_rows_problems, missed_threshold_problems) if grouped else (threshold_problems,)
    found = (problem for check in checks for problem in check(view))
    severities = failing_severities(fail_on)
    failing = [problem for problem in found if str(problem.severity) in severities and problem.evaluator_id is not None]
    return tuple(
        dict.fromkeys(
            view.evaluator_name(problem.evaluator_id)
            + (
                f" of {view.model_name(problem.model_id)}"
                if len(view.models) > 1 and problem.model_id is not None
                else ""
            )
            for problem in failing
            if problem.evaluator_id is not None
        )
    )
