"""A look at what the waves have shown so far: does any outcome of the rest still change the decision?

A gate is about *this* dataset: would judging the rest change its outcome? So each question is for the mean over all of
its rows, and it is answered at the latest when all are judged.

Every mean is on the scale from 0, the worst value of the metric's range, to 1, the best. ``pass_at`` is the least mean
at which the gate finds nothing wrong, ``fail_below`` that below which it fails. Between the two it is inconclusive.

An ordinary interval is too narrow where somebody stopped because of what it showed. The interval of an e-process holds
whenever one stops.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from leadline.evaluators.ground import listing
from leadline.tasks.analyse.aggregate import aggregate
from leadline.tasks.analyse.answer_shares import good_share, policy_rates, rows_decide, wanted_share
from leadline.tasks.analyse.findings.finding import RunView
from leadline.tasks.analyse.findings.metric_problems import (
    failing_rows_problems,
    missed_threshold_problems,
    threshold_problems,
)
from leadline.tasks.db import lines_shown, records, show_targets, sql
from leadline.tasks.policy.policy import Policy, Role, Rule
from leadline.tasks.runs.run_facts import failing_severities
from leadline.tasks.statistics.early_stopping import (
    ALWAYS_VALID,
    adjusted,
    always_valid_interval,
    cluster_units,
    greatest,
    log_e_value,
    log_wealth_at_once,
)
from leadline.tasks.statistics.statistics import Interval, Judged, clopper_pearson, verdict
from leadline.tasks.stopping.waves import LEVEL, Outcome

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from leadline.tasks.statistics.bounded_mean import Floats


@dataclass(frozen=True, slots=True)
class GateQuestion:
    """One mean of one model that the gate depends on.

    Attributes:
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
        fail_on: ``high`` or ``medium``.
        min_coverage: Least share of rows to be scored, instead of the policy's.
    """
    connection.execute(sql("stopping/wholes"))
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

    fails = greatest(lambda passed: ends(passed)[1] < wanted)
    passes = greatest(lambda passed: ends(1 - passed)[0] >= wanted)
    return {"pass_at": 1.0 if passes is None else 1 - passes, "fail_below": fails}


def _good(metric: Mapping[str, Any], value: float) -> float:
    """Return a value on the scale from the worst, 0, to the best, 1."""
    share = (value - metric["low"]) / (metric["high"] - metric["low"])
    return float(min(1.0, max(0.0, share if metric["higher_is_better"] else 1 - share)))


def _surely_below(limit: float, n: int) -> float | None:
    """Return the greatest mean of n values whose interval is below a limit, however the values vary.

    Values in [0, 1] vary most where all are 0 or 1, so that the exact interval of a share is wide enough.
    """
    return greatest(lambda mean: clopper_pearson(mean, n)[1] < limit) if n >= 1 else None


def _surely_above(limit: float, n: int) -> float:
    """Return the least mean of n values whose interval is above a limit, however they vary; 1 if there is none."""
    below = _surely_below(1 - limit, n)
    return 1.0 if below is None else 1 - below


def open_ends(connection: DuckDBPyConnection, policy: Policy, fail_on: str) -> str:
    """Return what else than means of judged metrics can fail the gate, so that these cannot decide that it passes.

    Args:
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


_MOST_LOG: Final = 700.0  # whose exponential is still a float


@dataclass(frozen=True, slots=True)
class Seen:
    """The rows seen of a question, cluster by cluster in the order in which they are drawn.

    Attributes:
        good: Sum of the values of the cluster's rows, each in [0, 1].
        absent: Rows that the metric does not apply to.
        clusters: Number of all clusters, seen or not; ``None`` where the question is for more than these.
        largest: Most rows of a cluster.
    """

    good: Floats
    scored: Floats
    unscored: Floats
    absent: Floats
    clusters: int | None
    largest: int


@dataclass(frozen=True, slots=True)
class QuestionEvidence:
    """The e-values of a question after a look, as logarithms.

    Attributes:
        log_pass: Against "the gate does not pass it".
        log_fail: Against "the gate does not fail it".
    """

    question: GateQuestion
    clusters: int
    rows: int
    log_pass: float
    log_fail: float
    decision: Outcome


@dataclass(frozen=True, slots=True)
class Look:
    """The decision after a wave.

    Attributes:
        certain: Metrics that no judge is asked for and that fail the gate, whatever judges say of the rest.
    """

    decision: Outcome
    evidence: tuple[QuestionEvidence, ...]
    certain: tuple[str, ...] = ()

    @property
    def open(self) -> tuple[str, ...]:
        """Names of the questions that keep it going."""
        return tuple(dict.fromkeys(each.question.name for each in self.evidence if each.decision == "open"))


def look_at(
    connection: DuckDBPyConnection, questions: Sequence[GateQuestion], wave: int, *, may_pass: bool = True,
    level: float = LEVEL,
) -> Look:  # fmt: skip
    """Return what the waves so far decide.

    Every question must be decided for a pass; since all must be, each has the whole level. For a failure the mean of
    the e-values must be large enough, and which question failed is told by the closed test.

    Args:
        connection: The run, with the scores of these waves gathered.
        wave: The last wave; what is known of rows beyond it is not looked at.
        may_pass: Whether means can decide that the gate passes.
    """
    return judge_evidence(questions, read_seen(connection, questions, wave), may_pass=may_pass, level=level)


def read_seen(connection: DuckDBPyConnection, questions: Sequence[GateQuestion], wave: int) -> list[Seen]:
    """Return what the waves up to one have shown of each question.

    Args:
        connection: The run, with the scores of these waves gathered.
    """
    if not questions:
        return []
    show_targets(connection)
    columns: Mapping[str, Sequence[object]] = {
        "number": list(range(len(questions))),
        "metric_id": [question.metric_id for question in questions],
        "model_id": [question.model_id for question in questions],
        "passes": [question.passes for question in questions],
    }
    connection.execute(sql("stopping/wholes"))
    with lines_shown(connection, "asked", columns):
        populations = {line["number"]: line for line in records(connection, sql("stopping/populations"))}
        seen = connection.execute(sql("stopping/seen"), {"wave": wave}).fetchnumpy()
    return [_seen(seen, number, populations[number]) for number in range(len(questions))]


def _seen(columns: Mapping[str, Any], number: int, population: Mapping[str, Any]) -> Seen:
    mine = columns["number"] == number
    names = ("good", "scored", "unscored", "absent")
    values = {name: np.asarray(columns[name][mine], dtype=np.float64) for name in names}
    return Seen(**values, clusters=population["clusters"], largest=population["largest"])


def judge_evidence(
    questions: Sequence[GateQuestion], seen: Sequence[Seen], *, may_pass: bool = True, level: float = LEVEL
) -> Look:
    """Return the decision that what was seen allows.

    Args:
        may_pass: Whether means can decide that the gate passes.
    """
    logs = [e_values(question, each) for question, each in zip(questions, seen, strict=True)]
    fails = adjusted([math.exp(min(fail, _MOST_LOG)) for _, fail in logs])
    evidence = tuple(
        QuestionEvidence(
            question,
            clusters=len(each.good),
            rows=int(each.scored.sum()),
            log_pass=log_pass,
            log_fail=log_fail,
            decision=_decided(question, each, log_pass, fail, level),
        )
        for question, each, (log_pass, log_fail), fail in zip(questions, seen, logs, fails, strict=True)
    )
    decisions = {each.decision for each in evidence}
    if "fail" in decisions:
        return Look("fail", evidence)
    return Look("pass" if decisions == {"pass"} and may_pass else "open", evidence)


def e_values(question: GateQuestion, seen: Seen) -> tuple[float, float]:
    """Return the logarithms of the e-values for a pass and for a failure.

    Rows that could not be measured count as worst for a pass and as best for a failure.
    """
    applicable = seen.scored + seen.unscored
    worst = cluster_units(seen.good, applicable, question.pass_at, seen.largest)
    log_pass = log_e_value(worst, question.pass_at, seen.clusters)
    if question.fail_below is None:
        return log_pass, -math.inf
    rows = applicable + seen.absent if question.counted else applicable
    good = seen.good + (rows - seen.scored)
    best = cluster_units(rows - good, rows, 1 - question.fail_below, seen.largest)
    return log_pass, log_e_value(best, 1 - question.fail_below, seen.clusters)


def log_e_of_coverage(question: GateQuestion, seen: Seen) -> float:
    """Return the logarithm of the e-value against "less than the wanted share of all rows can be scored".

    It is the mean of two: a careful one, and one that grows fastest while no row fails and is 0 as soon as one does.
    """
    least = question.min_coverage
    if least <= 0 or seen.clusters is None:
        return math.inf
    units = cluster_units(seen.scored, seen.scored + seen.unscored, least, seen.largest)
    careful = log_e_value(units, least, seen.clusters)
    at_once = log_wealth_at_once(units, least, seen.clusters)
    high, low = max(careful, at_once), min(careful, at_once)
    return high if math.isinf(high) else high + math.log1p(math.exp(low - high)) - math.log(2)


def _decided(question: GateQuestion, seen: Seen, log_pass: float, fail: float, level: float) -> Outcome:
    if seen.scored.sum() < question.min_rows:
        return "open"
    if fail >= 1 / level:
        return "fail"
    if min(log_pass, log_e_of_coverage(question, seen)) >= -math.log(level):
        return "pass"
    return "open"


def give_valid_intervals(connection: DuckDBPyConnection, wave: int, policy: Policy) -> None:
    """Replace the intervals and verdicts of judged means by those that hold although judging stopped early.

    They are intervals of the mean over the whole dataset. A metric whose range has no two ends keeps its ordinary one.
    """
    metrics = {
        line["metric_id"]: line for line in records(connection, sql("stopping/judged_metrics")) if is_bounded(line)
    }
    lines = [
        line
        for line in records(connection, "SELECT * FROM aggregates WHERE n_scored > 0 ORDER BY metric_id, model_id")
        if line["metric_id"] in metrics
    ]
    asked = [
        GateQuestion(line["metric_id"], line["model_id"], "", passes, 0.0, None, 0, 0.0)
        for line in lines
        for passes in (False, True)
    ]
    seen = read_seen(connection, asked, wave)
    decided = {
        (line["metric_id"], line["model_id"], line["question"] == "passes"): line["decision"]
        for line in records(connection, sql("stopping/decided"), {"wave": wave})
    }
    for place, line in enumerate(lines):
        metric = metrics[line["metric_id"]]
        low, high = _on_scale(metric, _interval(seen[2 * place]))
        pass_low, pass_high = _interval(seen[2 * place + 1])
        found = decided.get((line["metric_id"], line["model_id"], metric["role"] == Role.MUST), "open")
        found = found if policy.problems == "grouped" else "open"
        if decided.get((line["metric_id"], line["model_id"], True)) == "fail" and metric["role"] != Role.MUST:
            pass_high = min(pass_high, math.nextafter(metric["min_pass_share"], 0))
        new = {
            "ci_low": low,
            "ci_high": high,
            "pass_low": None if line["n_pass"] is None else pass_low,
            "pass_high": None if line["n_pass"] is None else pass_high,
            "verdict": _verdict(metric, line, Interval(low, high, ALWAYS_VALID), found),
            "method": ALWAYS_VALID,
            "metric_id": line["metric_id"],
            "model_id": line["model_id"],
        }
        connection.execute(sql("stopping/give_interval"), new)


def _interval(seen: Seen) -> tuple[float, float]:
    return always_valid_interval(seen.good, seen.scored, seen.clusters, largest=seen.largest)


def _on_scale(metric: dict[str, Any], interval: tuple[float, float]) -> tuple[float, float]:
    """Return an interval on the scale of a metric from one between its worst value, 0, and its best, 1."""
    width = metric["high"] - metric["low"]
    if metric["higher_is_better"]:
        return metric["low"] + interval[0] * width, metric["low"] + interval[1] * width
    return metric["high"] - interval[1] * width, metric["high"] - interval[0] * width


def _verdict(metric: dict[str, Any], line: dict[str, Any], interval: Interval, decided: str) -> str | None:
    if decided != "open":
        return decided
    if metric["role"] == Role.MUST and line["n_pass"] is not None:
        return str(line["verdict"]) if line["verdict"] == "fail" else "inconclusive"
    coverage = line["n_scored"] / (line["n_scored"] + line["n_unscored"])
    judged = Judged(line["value"], interval, line["if_worst"], line["if_best"], coverage)
    return verdict(judged, metric["threshold"], higher_is_better=metric["higher_is_better"])
