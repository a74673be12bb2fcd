"""The policy's decisions one by one: for each metric that must or should hold and each model, whether it does.

A metric that fails by the policy is a failure of the model. An instrument that could not measure is an error, apart
from failures. A metric whose rows lack an input is skipped, and so is one that too few rows can decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from leadline.evaluators.ground import count
from leadline.tasks.db import Aggregate
from leadline.tasks.ground.numbers import bound, figure, percent
from leadline.tasks.publish.facts import EvaluatorView, Facts, MetricView, ModelView

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

LineOutcome: TypeAlias = Literal["pass", "fail", "error", "not_applicable", "inconclusive"]
"""``error``: the instrument could not measure; ``inconclusive``: what was measured cannot decide."""

FAILING_ROWS: Final = "failing_rows"
"""Kind of the problem that names the rows which fail a metric that must hold."""
_MOST_CASES: Final = 10


@dataclass(frozen=True, slots=True)
class PolicyLine:
    """The policy's decision on one metric of one model.

    Attributes:
        metric: Key of the metric; ``""`` for an evaluator that could not run at all and has none.
        model: Key of the model; ``""`` where it is about no model.
        role: ``must`` or ``should``.
        cause: The role that was missed, or what kept the instrument from measuring.
        message: Why, in one or two sentences; ``""`` where the metric passes.
        value: The model's value; ``None`` where nothing was scored.
    """

    evaluator: str
    metric: str
    model: str
    role: str
    outcome: LineOutcome
    cause: str = ""
    message: str = ""
    value: float | None = None


def policy_lines(connection: DuckDBPyConnection, facts: Facts) -> Iterator[PolicyLine]:
    """Yield the decisions on all metrics that are not mere information, in the order of evaluators and models."""
    lines = connection.execute("SELECT metric_id, min_rows FROM rules").fetchall()
    deciding = _Deciding(facts, dict(lines))
    for evaluator in facts.evaluators:
        for metric in evaluator.metrics:
            for model in facts.models if metric.role != "information" else ():
                yield deciding.line(evaluator, metric, model)
        if not evaluator.metrics and evaluator.error:
            yield PolicyLine(evaluator.key, "", "", "", "error", "evaluator_error", evaluator.error)


@dataclass(frozen=True, slots=True)
class _Deciding:
    """A run whose metrics are decided.

    Attributes:
        min_rows: By metric, the least number of scored rows that can fail it.
    """

    facts: Facts
    min_rows: Mapping[int, int]

    @property
    def certain(self) -> bool:
        """True if a metric passes only where its whole interval is on the good side of its threshold."""
        policy = self.facts.record.get("policy")
        return isinstance(policy, Mapping) and bool(policy.get("certain"))

    def line(self, evaluator: EvaluatorView, metric: MetricView, model: ModelView) -> PolicyLine:
        found = self.facts.aggregates.get((metric.id, model.id))
        outcome, cause, message = self._decided(evaluator, metric, model, found)
        value = found.value if found else None
        return PolicyLine(evaluator.key, metric.key, model.key, metric.role, outcome, cause, message, value)

    def _decided(
        self, evaluator: EvaluatorView, metric: MetricView, model: ModelView, found: Aggregate | None
    ) -> tuple[LineOutcome, str, str]:
        if evaluator.error:
            return "error", "evaluator_error", evaluator.error
        if found is None or found.n_scored + found.n_unscored == 0:
            return "not_applicable", "", "No row of this model has the inputs that the metric needs."
        if found.n_scored == 0:
            text = f"None of {count(found.n_unscored, 'row')} could be scored: {_reasons(found)}."
            return "error", "unscored", text
        if found.verdict == "fail":
            return self._failed(metric, model, found)
        if found.verdict == "inconclusive":
            return self._doubted(metric, model, found)
        return "pass", "", ""

    def _failed(self, metric: MetricView, model: ModelView, found: Aggregate) -> tuple[LineOutcome, str, str]:
        text = _sentence(metric, model, found) + self._failing_cases(metric, model)
        least = self.min_rows.get(metric.id, 1)
        if found.n_scored < least:
            return "inconclusive", "", f"Too few rows for a decision: the policy asks for {least:,}. {text}"
        return "fail", metric.role, text

    def _doubted(self, metric: MetricView, model: ModelView, found: Aggregate) -> tuple[LineOutcome, str, str]:
        """Say why a metric cannot be decided; one on the good side passes unless the policy asks for certainty."""
        text = _sentence(metric, model, found)
        if found.n_unscored:
            unscored = count(found.n_unscored, "row is", "rows are")
            return "error", "inconclusive", f"{text} {unscored} unscored: {_reasons(found)}."
        if self.certain or found.value is None or not metric.passes(found.value):
            return "inconclusive", "", f"Inconclusive: the interval contains the threshold. {text}"
        return "pass", "", ""

    def _failing_cases(self, metric: MetricView, model: ModelView) -> str:
        """Return the failing cases of a metric that must hold, as its problem names them."""
        about = (metric.id, model.id, FAILING_ROWS)
        problems = (p for p in self.facts.problems if (p.metric_id, p.model_id, p.kind) == about)
        rows = next((problem.row_ids for problem in problems), ())
        cases = [self.facts.rows[row][0] for row in rows[:_MOST_CASES] if row in self.facts.rows]
        return f" Failing: {', '.join(cases)}{' …' if len(rows) > _MOST_CASES else ''}." if cases else ""


def _sentence(metric: MetricView, model: ModelView, found: Aggregate) -> str:
    if metric.role == "must" and found.n_pass is not None:
        failed = found.n_scored - found.n_pass
        return f"{metric.name}: {failed:,} of {count(found.n_scored, 'row')} of {model.key} fail what must hold."
    direction = "at least" if metric.higher_is_better else "at most"
    interval = "" if found.ci_low is None else f" [{figure(found.ci_low)}, {figure(found.ci_high)}]"
    asked = f"{direction} {bound(found.threshold, metric.share)} was asked"
    return (
        f"{metric.name} of {model.key} is {figure(found.value)}{interval}, {asked}"
        f" ({count(found.n_scored, 'row')} scored, coverage {percent(found.coverage)})."
    )


def _reasons(found: Aggregate) -> str:
    return ", ".join(f"{reason} ({count})" for reason, count in found.reasons.items()) or "no reason given"
