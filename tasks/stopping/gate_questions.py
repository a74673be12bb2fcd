"""The questions that a gate asks of judges' metrics, and the failures that no judge can change.

A gate is about *this* dataset: would judging the rest change its outcome? So each question is for the mean over all of
its rows, and it is answered at the latest when all are judged.

Every mean is on the scale from 0, the worst value of the metric's range, to 1, the best. ``pass_at`` is the least mean
at which the gate finds nothing wrong, ``fail_below`` that below which it fails. Between the two it is inconclusive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from leadline.evaluators.ground import listing
from leadline.tasks.analyse.aggregate import aggregate
from leadline.tasks.analyse.answer_shares import good_share, policy_rates, rows_decide, wanted_share
from leadline.tasks.analyse.findings.model_problems import threshold_problems
from leadline.tasks.analyse.findings.rule_problems import failing_rows_problems, missed_threshold_problems
from leadline.tasks.analyse.findings.run_view import RunView
from leadline.tasks.db import records, show_targets, sql
from leadline.tasks.policy.policy import Policy, Role, Rule
from leadline.tasks.runs.tally import failing_severities
from leadline.tasks.statistics.statistics import clopper_pearson

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


_BISECTIONS: Final = 40


@dataclass(frozen=True, slots=True)
class GateQuestion:
    """One mean of one model that the gate depends on.

    Attributes:
        name: The metric and the model, for people.
        passes: Whether the rows' values are 1 for a row that passes and 0 for one that fails, not the metric's own.
        pass_at: Least mean at which the gate finds nothing wrong.
        fail_below: Mean below which the gate fails; ``None`` where no mean makes it fail.
        min_rows: Least number of scored rows that can decide.
        min_coverage: Least share of rows that must be scored for the gate to pass.
        counted: Where it is asked if too many rows fail, one that the metric does not apply to counts as passing.
    """

    metric_id: int
    model_id: int
    name: str
    passes: bool
    pass_at: float
    fail_below: float | None
    min_rows: int
    min_coverage: float
    counted: bool = False


def gate_questions(
    connection: DuckDBPyConnection, policy: Policy, fail_on: str, min_coverage: float | None = None
) -> list[GateQuestion]:
    """Return what the gate asks of judges' metrics.

    Args:
        connection: The run, planned in waves.
        policy: The gate's policy.
        fail_on: ``high`` or ``medium``.
        min_coverage: Least share of rows to be scored, instead of the policy's.
    """
    planned = records(connection, sql("stopping/planned_rows"))
    names = dict(connection.execute("SELECT model_id, model_key FROM models").fetchall())
    several = len({line["model_id"] for line in planned}) > 1
    out: list[GateQuestion] = []
    for metric in records(connection, sql("stopping/judged_metrics")):
        for line in planned:
            if line["evaluator_id"] != metric["evaluator_id"]:
                continue
            of = f" of {names[line['model_id']]}" if several else ""
            least = metric["min_coverage"] if min_coverage is None else min_coverage
            for limits in _limits(metric, line, policy, fail_on):
                out.append(
                    GateQuestion(
                        metric_id=metric["metric_id"],
                        model_id=line["model_id"],
                        name=f"{metric['name']}{of}",
                        min_rows=metric["min_rows"] if policy.problems == "grouped" else 1,
                        min_coverage=least,
                        **limits,
                    )
                )
    return out


def is_bounded(metric: Mapping[str, Any]) -> bool:
    """Return whether a metric's range has two ends, without which no mean of some rows bounds that of all."""
    return bool(0 < metric["high"] - metric["low"] < float("inf"))


def _limits(
    metric: Mapping[str, Any], planned: Mapping[str, Any], policy: Policy, fail_on: str
) -> Iterator[dict[str, Any]]:
    """Yield the limits of a metric's means; none for a metric that cannot block."""
    if metric["threshold"] is None or not is_bounded(metric):
        return
    limit, clusters = _good(metric, metric["threshold"]), planned["clusters"]
    severe = fail_on != "medium"
    if policy.problems == "seed":
        if metric["is_primary"] and limit > 0:
            turns = limit / 2 if severe else limit
            yield {"passes": False, "pass_at": turns, "fail_below": turns}
        return
    if metric["role"] == Role.MUST:
        rule = Rule(tolerance_rows=metric["tolerance_rows"], tolerance_share=metric["tolerance_share"])
        least = 1 - rule.tolerated(planned["rows"]) / planned["rows"]
        most = min(1 - rule.tolerance_share, 1 - rule.tolerance_rows / planned["rows"])
        yield {"passes": True, "pass_at": max(0.0, most), "fail_below": least, "counted": True}
    elif metric["role"] == Role.SHOULD and rows_decide(metric):
        yield {"passes": True, **_share_limits(metric, policy, clusters)}
    elif metric["role"] == Role.SHOULD:
        if limit > 0:
            yield {
                "passes": False,
                "pass_at": _surely_above(limit, clusters) if policy.certain or metric["proof"] == "mean" else limit,
                "fail_below": _surely_below(limit, clusters) if severe else limit,
            }
        share = metric["min_pass_share"]
        if share > 0 and not metric["is_share"]:
            below = _surely_below(share, clusters) if severe else share
            yield {"passes": True, "pass_at": share, "fail_below": below}


def _share_limits(metric: Mapping[str, Any], policy: Policy, n: int) -> dict[str, float | None]:
    """Return the shares of passing rows at which the share of good answers turns, errors of the metric allowed for."""
    wanted, rates = wanted_share(metric, policy), None if metric["proof"] == "exact" else policy_rates(metric)

    def ends(passed: float) -> tuple[float, float]:
        return good_share(passed, n, rates)[1:]

    fails = _greatest(lambda passed: ends(passed)[1] < wanted)
    passes = _greatest(lambda passed: ends(1 - passed)[0] >= wanted)
    return {"pass_at": 1.0 if passes is None else 1 - passes, "fail_below": fails}


def _greatest(holds: Callable[[float], bool]) -> float | None:
    """Return the greatest number in [0, 1] for which something holds that holds for lesser ones, ``None`` for none."""
    if not holds(0.0):
        return None
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _good(metric: Mapping[str, Any], value: float) -> float:
    """Return a value on the scale from the worst, 0, to the best, 1."""
    share = (value - metric["low"]) / (metric["high"] - metric["low"])
    return float(min(1.0, max(0.0, share if metric["higher_is_better"] else 1 - share)))


def _surely_below(limit: float, n: int) -> float | None:
    """Return the greatest mean of n values whose interval is below a limit, however the values vary.

    Values in [0, 1] vary most where all are 0 or 1, so that the exact interval of a share is wide enough.
    """
    return _greatest(lambda mean: clopper_pearson(mean, n)[1] < limit) if n >= 1 else None


def _surely_above(limit: float, n: int) -> float:
    """Return the least mean of n values whose interval is above a limit, however they vary; 1 if there is none."""
    below = _surely_below(1 - limit, n)
    return 1.0 if below is None else 1 - below


def open_ends(connection: DuckDBPyConnection, policy: Policy, fail_on: str) -> str:
    """Return what else than means of judged metrics can fail the gate, so that these cannot decide that it passes.

    Args:
        connection: The run, planned in waves.
        policy: The gate's policy.
        fail_on: ``high`` or ``medium``.

    Returns:
        A part of a sentence, ``""`` if there is nothing.
    """
    found = []
    (copies,) = connection.execute("SELECT count(*) FROM relationships").fetchall()[0]
    if copies:
        found.append("flips of perturbed copies")
    if policy.problems == "grouped":
        named = [metric for metric in records(connection, sql("stopping/judged_metrics")) if metric["slices"]]
        if named:
            found.append("slices that the policy names")
        if fail_on == "medium":
            found.append("slices and groups of failures")
    elif fail_on == "medium":
        found.append("retrieved contexts that fail a check")
    return listing(found) if found else ""


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
