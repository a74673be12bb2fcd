"""Tables of a run for people: its judge calls with their cost, by evaluator, and its models ranked by a metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from leadline.tasks.db.run_tables import Aggregate
from leadline.tasks.publish.views import EvaluatorView, Facts, MetricView, ModelView
from leadline.tasks.runs.run_sentences import price


@dataclass(frozen=True, slots=True)
class Spending:
    """The calls of one evaluator, or of all of them.

    Attributes:
        evaluator: Id of the evaluator that asked first, ``""`` for all together.
        asked: Calls begun.
        answered: Calls with a reply.
        failed: Calls that ended without one.
        lost: Calls whose process was gone before the reply was on record; they may have been paid for.
        retries: Attempts beyond the first one of a call.
        input_tokens: Tokens sent, as far as the provider counted them; ``None`` where it gave no counts.
        output_tokens: Tokens received.
        price: What they cost, with what is not known of it; never "$0" for an unknown price.
    """

    evaluator: str
    asked: int
    answered: int
    failed: int
    lost: int
    retries: int
    input_tokens: int | None
    output_tokens: int | None
    price: str


def spending(record: Mapping[str, Any]) -> list[Spending]:
    """Return the calls in a run's record (``judge_calls``), by evaluator and then the sum; empty without calls."""
    counted = record.get("judge_calls") or {}
    parts = counted.get("by_evaluator") or []
    return [_line(part) for part in (*parts, counted)] if parts else []


def _line(part: Mapping[str, Any]) -> Spending:
    counted = bool(part["input_tokens"] or part["output_tokens"])
    return Spending(
        evaluator=part.get("evaluator", ""),
        asked=part["asked"],
        answered=part["answered"],
        failed=part["failed"],
        lost=part["lost"],
        retries=part["repeated_attempts"],
        input_tokens=part["input_tokens"] if counted else None,
        output_tokens=part["output_tokens"] if counted else None,
        price=price(part["cost_usd"], part["answered"], part["unknown_price"]),
    )


@dataclass(frozen=True, slots=True)
class RankedModel:
    """One model's line of a leaderboard, ordered by the primary metric."""

    rank: int
    model: ModelView
    aggregate: Aggregate | None
    values: dict[str, float | None]

    @property
    def failed(self) -> int | None:
        """Scored rows that miss the threshold."""
        if self.aggregate is None or self.aggregate.n_pass is None:
            return None
        return self.aggregate.n_scored - self.aggregate.n_pass


def standings(facts: Facts, evaluator: EvaluatorView) -> list[RankedModel]:
    """Return the models, best first by the primary metric; models without a value come last, ties share a rank.

    Args:
        facts: The run.
    """
    primary = evaluator.primary
    if primary is None:
        return []

    def merit(model: ModelView) -> tuple[bool, float]:
        value = value_of(facts, primary, model)
        return (value is None, 0.0 if value is None else -value if primary.higher_is_better else value)

    ordered = sorted(facts.models, key=merit)
    merits = [merit(model) for model in ordered]
    return [
        RankedModel(
            rank=merits.index(merit(model)) + 1,
            model=model,
            aggregate=facts.aggregates.get((primary.id, model.id)),
            values={metric.key: value_of(facts, metric, model) for metric in evaluator.metrics},
        )
        for model in ordered
    ]


def value_of(facts: Facts, metric: MetricView, model: ModelView) -> float | None:
    """Return the value of a model on a metric, if there is one."""
    found = facts.aggregates.get((metric.id, model.id))
    return None if found is None else found.value
