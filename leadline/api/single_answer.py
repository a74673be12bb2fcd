"""Scoring one answer without a run, for assertions and for the scorers of other tools.

Judge calls are put on record in the store's ledger, so that the same question is never paid for twice, and embeddings
are kept there too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from leadline.api.evaluation import requested_values
from leadline.api.metric_choice import Metrics, chosen_metrics
from leadline.api.settings import checked
from leadline.evaluators.core import EvalContext, Evaluator, Metric, lent
from leadline.evaluators.data import Row
from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.evaluators.text.conditions.time_budget import RegexTimeBudget
from leadline.flows.evaluate.config import EvaluateConfig
from leadline.flows.evaluate.prepare import chosen
from leadline.flows.shared.judge_access import limits_of
from leadline.tasks.policy.policy import Policy
from leadline.tasks.policy.policy_file import load_policy
from leadline.tasks.score.chunk import kept_context
from leadline.tasks.score.rows import reduced
from leadline.tasks.score.scoring import Ask, score_together
from leadline.tasks.store.segments import StoredScore
from leadline.tasks.store.store import Store


@dataclass(frozen=True)
class AnswerMetrics:
    """Metrics that score answers one at a time; threads may share them.

    Attributes:
        policy: The policy that their limits may be from.
        context: The tools they work with: judges, models, embeddings.
    """

    evaluators: tuple[Evaluator, ...]
    policy: Policy
    context: EvalContext

    def score(self, row: Row) -> list[StoredScore]:
        """Score an answer by just the fields that each evaluator reads, as in a run; return a score for each."""
        asks = [Ask(evaluator, [reduced(row, evaluator.reads)]) for evaluator in self.evaluators]
        fresh = replace(self.context, regex_budget=RegexTimeBudget())  # each answer has the whole time
        return [scored.scores[0] for scored in score_together(asks, fresh)]


def answer_metrics(
    metrics: Metrics | Iterable[Metrics], session: str, *, judge: Any = None, store: Any = None, **settings: Any
) -> AnswerMetrics:
    """Return metrics that score single answers.

    Args:
        metrics: What is measured, as :func:`leadline.evaluate` takes it.
        session: Name under which judge calls are put on record; those of one name share a budget.
        judge: The judge, as :func:`leadline.evaluate` takes it.
        store: The store with the ledger and the embeddings, or its location.
        **settings: Further fields of :class:`~leadline.flows.evaluate.config.EvaluateConfig`.

    Raises:
        UsageError: There is no such metric, judge or setting.
    """
    picked = chosen_metrics(metrics)
    if not picked.ids:
        raise UsageError(
            "check needs metrics.", hint='Name some, as metrics=["faithfulness"].', code=ErrorCode.CONFIG_OPTION
        )
    place = store if isinstance(store, Store) else Store.open(store)
    config = checked(EvaluateConfig, requested_values(settings, picked, judge) | {"dataset": "-"})
    with lent(picked.own):
        run_settings, choice = chosen(config, check_key=True)
        policy = load_policy(config.policy)
    return AnswerMetrics(
        choice.evaluators, policy, kept_context(place, run_settings, session, limits_of(config.judges))
    )


def metrics_of_rows(evaluator: Evaluator) -> list[Metric]:
    """Return an evaluator's metrics that single answers have.

    Raises:
        UsageError: There are none.
    """
    found = [metric for metric in evaluator.metrics if not metric.dataset_level]
    if not found:
        raise UsageError(f"{evaluator.spec.id} measures datasets, not single answers.", code=ErrorCode.CONFIG_OPTION)
    return found
