"""The gate: decides whether a run passes, fails or is inconclusive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from leadline.evaluators.core.text import count, percent
from leadline.tasks.analyse.findings.tally import failing_severities
from leadline.tasks.db.tables import records

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Outcome: TypeAlias = Literal["pass", "fail", "inconclusive"]


@dataclass(frozen=True, slots=True)
class Decision:
    """The gate's decision and its reason in one sentence."""

    gate: Outcome
    reason: str


def decide(connection: DuckDBPyConnection, *, fail_on: str = "never", min_coverage: float = 0.95) -> Decision:
    """Decide whether a run passes.

    It fails if a model has a problem at least as severe as ``fail_on``; problems of the instrument or of the data never
    make it fail. Else it is inconclusive if nothing was scored, if an evaluator could not run, or if some evaluator
    scored less than ``min_coverage`` of some model's applicable rows. Else it passes. ``never`` decides as ``high``
    does, since a report must not present a bad run as good; it only keeps the command's exit code at 0.

    Args:
        connection: The run, after problems were found.
        fail_on: ``high``, ``medium`` or ``never``.
        min_coverage: Least share of applicable rows that must be scored, per evaluator and model.
    """
    severities = failing_severities(str(fail_on))
    failing = records(
        connection,
        "SELECT severity, description FROM problems WHERE NOT instrument AND list_contains(?, severity) "
        "ORDER BY problem_id",
        [list(severities)],
    )
    if failing:
        first = failing[0]["description"].split(". ")[0].rstrip(".")
        wanted = f"{severities[-1]} severity{' or worse' if len(severities) > 1 else ''}"
        return Decision("fail", f"{count(len(failing), 'problem')} of {wanted}, the first: {first}.")
    doubt = _doubt(connection, min_coverage)
    if doubt:
        return Decision("inconclusive", doubt)
    return Decision("pass", f"No model has a problem of {severities[-1]} severity, and enough was scored.")


def _doubt(connection: DuckDBPyConnection, min_coverage: float) -> str:
    """Return why the run is inconclusive, or ``""``."""
    (scored,) = connection.execute("SELECT coalesce(sum(n_scored), 0) FROM aggregates").fetchall()[0]
    if not scored:
        return "Nothing was scored."
    crashed = records(connection, "SELECT name FROM evaluators WHERE error IS NOT NULL ORDER BY evaluator_id")
    if crashed:
        return f"{count(len(crashed), 'evaluator')} could not run, the first: {crashed[0]['name']}."
    poor = records(
        connection,
        """
        SELECT evaluators.name, model_key, min(n_scored / (n_scored + n_unscored)) AS coverage
        FROM aggregates
        JOIN metrics USING (metric_id)
        JOIN evaluators USING (evaluator_id)
        JOIN models USING (model_id)
        WHERE n_scored + n_unscored > 0
        GROUP BY evaluator_id, evaluators.name, model_id, model_key
        HAVING min(n_scored / (n_scored + n_unscored)) < ?
        ORDER BY coverage, evaluator_id, model_id
        """,
        [min_coverage],
    )
    if not poor:
        return ""
    worst = poor[0]
    return (
        f"{worst['name']} could score only {percent(worst['coverage'])} of the rows of model {worst['model_key']}; "
        f"{percent(min_coverage)} were asked for."
    )
