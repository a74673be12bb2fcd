"""A look at what the waves have shown so far: does any outcome of the rest still change the decision?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from leadline.tasks.db import lines_shown, records, show_targets, sql
from leadline.tasks.statistics.early_stopping import adjusted, cluster_units, log_e_value, log_wealth_at_once
from leadline.tasks.stopping.gate_questions import GateQuestion

if TYPE_CHECKING:
    import numpy.typing as npt
    from duckdb import DuckDBPyConnection

    Floats: TypeAlias = npt.NDArray[np.float64]

LEVEL: Final = 0.05
"""Chance that judging the rest would change a decision."""
_MOST_LOG: Final = 700.0  # whose exponential is still a float

Outcome: TypeAlias = Literal["pass", "fail", "open"]


@dataclass(frozen=True, slots=True)
class Seen:
    """The rows seen of a question, cluster by cluster in the order in which they are drawn.

    Attributes:
        good: Sum of the values of the cluster's rows, each in [0, 1].
        scored: Number of these rows.
        unscored: Rows that could not be measured.
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
        clusters: Clusters seen.
        rows: Rows scored.
        log_pass: Against "the gate does not pass it".
        log_fail: Against "the gate does not fail it".
        decision: What they decide of this question alone.
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
        decision: The outcome of all questions together.
        evidence: Of each question.
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
        level: Chance of a wrong decision.
    """
    return judge_evidence(questions, read_seen(connection, questions, wave), may_pass=may_pass, level=level)


def read_seen(connection: DuckDBPyConnection, questions: Sequence[GateQuestion], wave: int) -> list[Seen]:
    """Return what the waves up to one have shown of each question.

    Args:
        connection: The run, with the scores of these waves gathered.
        wave: The last wave.
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
        seen: What was seen of each.
        may_pass: Whether means can decide that the gate passes.
        level: Chance of a wrong decision.
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

    Args:
        seen: What was seen of it.
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

    Args:
        seen: What was seen of it.
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
