"""The gate: decides by the run's policy whether it passes, fails or is inconclusive."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from leadline.evaluators.core.text import count, listing, number, percent
from leadline.tasks.analyse.findings.tally import failing_severities
from leadline.tasks.db.statements import sql
from leadline.tasks.db.tables import records
from leadline.tasks.policy.policy import Policy

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Outcome: TypeAlias = Literal["pass", "fail", "inconclusive"]

MOST_NAMES: Final = 3
"""Evaluators that a reason names."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The gate's decision and its reason in one sentence."""

    gate: Outcome
    reason: str


def decide(
    connection: DuckDBPyConnection, policy: Policy, *, fail_on: str = "never", min_coverage: float | None = None
) -> Decision:
    """Decide whether a run passes.

    It fails if a model has a problem at least as severe as ``fail_on``; problems of the instrument or of the data never
    make it fail. Else it is inconclusive if nothing was scored, if an evaluator could not run, if one that was asked
    for by name measured nothing, if too few of some model's applicable rows were scored, or if a metric that can block
    misses its threshold without certainty (with a policy that asks for certainty: if it does not surely pass), or if
    a metric that people's labels decide has no valid certificate or no label of a model. Else it passes. ``never``
    decides as ``high`` does, since a report must not present a bad run as good; it only keeps the command's exit code
    at 0.

    Args:
        connection: The run, after problems were found.
        policy: The run's policy.
        fail_on: ``high``, ``medium`` or ``never``.
        min_coverage: Least share of applicable rows that must be scored, per evaluator and model; the policy's for
            each metric if it is not given.
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
    checks: list[Callable[[DuckDBPyConnection], str]] = [
        _nothing_scored,
        _crashed,
        _named_without_scores,
        lambda run: _poor_coverage(run, min_coverage),
    ]
    checks.append(lambda run: _uncorrected(run, certain=policy.certain))
    if policy.problems == "grouped":
        checks += [_nothing_that_blocks, lambda run: _unsure(run, certain=policy.certain), _open_slices]
    doubt = next((found for check in checks if (found := check(connection))), "")
    if doubt:
        return Decision("inconclusive", doubt)
    reason = f"No model has a problem of {severities[-1]} severity, and enough was scored."
    return Decision("pass", reason + ("" if _quality_measured(connection) else _ONLY_HARM))


_ONLY_HARM: Final = (
    " Only leaks and unsafe answers were looked for: no metric that can block says whether the answers are right."
)


def _quality_measured(connection: DuckDBPyConnection) -> bool:
    """Return whether a metric with a threshold and a role that blocks was measured, beside privacy and fairness."""
    return bool(connection.execute(sql("gate/quality")).fetchall())


def _nothing_scored(connection: DuckDBPyConnection) -> str:
    (scored,) = connection.execute("SELECT coalesce(sum(n_scored), 0) FROM aggregates").fetchall()[0]
    return "" if scored else "Nothing was scored."


def _crashed(connection: DuckDBPyConnection) -> str:
    crashed = records(connection, "SELECT name FROM evaluators WHERE error IS NOT NULL ORDER BY evaluator_id")
    if not crashed:
        return ""
    return f"{count(len(crashed), 'evaluator')} could not run, the first: {crashed[0]['name']}."


def _named_without_scores(connection: DuckDBPyConnection) -> str:
    found = records(connection, sql("gate/named_without_scores"))
    if not found:
        return ""
    names = listing((line["evaluator"] for line in found), most=MOST_NAMES)
    return f"{names} {'was' if len(found) == 1 else 'were'} asked for by name and measured nothing."


def _poor_coverage(connection: DuckDBPyConnection, min_coverage: float | None) -> str:
    poor = records(connection, sql("gate/poor_coverage"), {"least": min_coverage})
    if not poor:
        return ""
    worst = poor[0]
    return (
        f"{worst['name']} could score only {percent(worst['coverage'])} of the rows of model {worst['model_key']}; "
        f"{percent(worst['least'])} were asked for."
    )


def _nothing_that_blocks(connection: DuckDBPyConnection) -> str:
    blocking = connection.execute(
        "SELECT 1 FROM aggregates JOIN rules USING (metric_id) WHERE role <> 'information' AND n_scored > 0 LIMIT 1"
    ).fetchall()
    if blocking:
        return ""
    return (
        "All that was measured is information by the policy, so that nothing could have failed; "
        "give a metric the role should or must, or choose another policy."
    )


def _unsure(connection: DuckDBPyConnection, *, certain: bool) -> str:
    unsure = records(connection, sql("gate/unsure"), {"certain": certain})
    if not unsure:
        return ""
    first = unsure[0]
    more = f" ({count(len(unsure) - 1, 'more such metric')})" if len(unsure) > 1 else ""
    share = first["pass_share"]
    if first["role"] == "should" and not first["is_share"] and share is not None and share < first["min_pass_share"]:
        return (
            f"{percent(share)} of the answers of model {first['model_key']} satisfy {first['name']}, "
            f"{percent(first['min_pass_share'])} should, which {count(first['n_scored'], 'row')} cannot decide{more}."
        )
    return (
        f"{first['name']} of model {first['model_key']} is {number(first['value'])} against a threshold of "
        f"{number(first['threshold'])}, which {count(first['n_scored'], 'row')} cannot decide{more}."
    )


def _uncorrected(connection: DuckDBPyConnection, *, certain: bool) -> str:
    """Return which metric that corrected values decide has none that could, and what to do; else ""."""
    found = [
        line for line in records(connection, sql("gate/corrected")) if _undecided(line, certain=certain) is not None
    ]
    if not found:
        return ""
    first = found[0]
    more = f" ({count(len(found) - 1, 'more such metric')})" if len(found) > 1 else ""
    return f"{_undecided(first, certain=certain)}{more}."


def _undecided(line: Mapping[str, Any], *, certain: bool) -> str | None:
    """Return why a corrected value decides nothing, ``None`` where it decides."""
    metric = f"{line['evaluator']}.{line['metric']}"
    if line["state"] != "valid":
        rows = count(line["to_judge"], "labelled row")
        why = _WITHOUT_CERTIFICATE[line["state"]].format(metric=metric, rows=rows)
        return f"{line['name']} is decided by people's labels, and {why}"
    if line["value"] is None or line["method"] == "rogan-gladen":
        return (
            f"{line['name']} is decided by people's labels, and none is of this run's answers of model "
            f"{line['model_key']}: leadline labels sample RUN --metric {metric}"
        )
    if line["verdict"] == "pass" or (not certain and line["value"] >= line["wanted"]):
        return None
    return (
        f"{line['name']} of model {line['model_key']}, corrected by {count(line['n_labels'], 'label')}, is "
        f"{percent(line['value'])} ({percent(line['ci_low'])} to {percent(line['ci_high'])}) against "
        f"{percent(line['wanted'])} asked for, which these labels cannot decide: label more"
    )


_WITHOUT_CERTIFICATE: Final[Mapping[str, str]] = {
    "none": "there are none: leadline labels sample RUN --metric {metric}",
    "few": "there are too few to certify its judge (50, and 10 of either kind): "
    "leadline labels sample RUN --metric {metric}",
    "not drawn": "those that there are were not drawn at random: leadline labels sample RUN --metric {metric}",
    "failed": "people and its judge agree too little: mend the prompt, or take another judge",
    "stale": "its judge's certificate was earned with another prompt or judge: leadline judges certify RUN --metric "
    "{metric} ({rows} to judge)",
}
"""What there is to say, and to do, by the state of a certificate."""


def _open_slices(connection: DuckDBPyConnection) -> str:
    """Return what is open on slices that the policy names: too few rows to tell, or no such column; else ""."""
    found = records(connection, sql("gate/open_slices"))
    return str(found[0]["description"]) if found else ""
