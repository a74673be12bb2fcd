"""The models of a run in the order of an evaluator's primary metric."""

from __future__ import annotations

from dataclasses import dataclass

from leadline.tasks.db import Aggregate
from leadline.tasks.publish.views import EvaluatorView, Facts, MetricView, ModelView


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
