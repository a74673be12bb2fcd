"""Advice about trials: what more of them would do to a mean's interval, what they would cost, and when rows do more.

The standard error of a mean of R rows, each judged K times, is ``sqrt((between² + within² / K) / R)`` (Cochran 1977,
section 10.6): trials narrow only the second part, rows narrow both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from leadline.evaluators.ground import count, nouns
from leadline.tasks.db import Aggregate
from leadline.tasks.ground.numbers import money
from leadline.tasks.publish.views import EvaluatorView, Facts, MetricView
from leadline.tasks.statistics.judge_stability import Components
from leadline.tasks.statistics.statistics import Z

MORE: Final = 2
"""Further trials of a row that are spoken of."""
WORTH: Final = 0.95
"""More trials are worth speaking of where they narrow an interval to this share of it, or less."""
MOST_TOLD: Final = 20


@dataclass(frozen=True, slots=True)
class Advice:
    """One sentence about the trials of a metric and a model."""

    metric_id: int
    model_id: int
    text: str


class _Spread(NamedTuple):
    """Standard deviations: within a row, between rows, and of the mean from run to run."""

    within: float
    between: float
    rerun: float


def trial_advice(facts: Facts) -> list[Advice]:
    """Return what more trials would do, for the primary metrics whose trials differ.

    Args:
        facts: The run's results.
    """
    out = []
    for item in facts.trial_spread:
        metric, mean = facts.metric(item.metric_id), facts.aggregates.get((item.metric_id, item.model_id))
        if metric and mean and metric.primary and not metric.dataset_level and item.within_std and item.rerun_std:
            spread = _Spread(item.within_std, item.between_std or 0.0, item.rerun_std)
            text = " ".join(_sentences(facts, item.model_id, metric, mean, spread))
            out.append(Advice(item.metric_id, item.model_id, text))
    return out[:MOST_TOLD]


def _sentences(facts: Facts, model_id: int, metric: MetricView, mean: Aggregate, spread: _Spread) -> Iterator[str]:
    yield f"Judged again, the same rows would give a mean that differs by ±{_amount(Z * spread.rerun, metric)}."
    if mean.n_unscored or mean.reasons.get("not_needed"):
        yield "Rows are left that were not judged: they narrow the interval more than further trials do."
        return
    parts = Components(spread.between**2, spread.within**2)
    now = max(1, round(2 * spread.within**2 / (spread.rerun**2 * mean.n_scored)))
    before, after, least = (Z * parts.standard_error(mean.n_scored, trials) for trials in (now, now + MORE, 1_000_000))
    price = _price(facts, facts.evaluator(metric.evaluator_id))
    if after > WORTH * before:
        yield (
            f"Further trials would hardly narrow the interval (±{_amount(before, metric)}, at best "
            f"±{_amount(least, metric)}): more rows do."
        )
    else:
        cost = "" if price is None else f" for {money(price * mean.n_scored * MORE)}"
        yield (
            f"{now + MORE} trials of every row would narrow ±{_amount(before, metric)} to ±{_amount(after, metric)}"
            f"{cost} ({count(mean.n_scored * MORE, 'verdict')})."
        )
    answer = _price_of_answer(facts, model_id)
    if price and answer and spread.between:
        best = max(1, round(parts.best_trials(answer, price)))
        yield (
            f"At {money(answer)} an answer and {money(price)} a verdict, {count(best, 'trial')} of each row "
            f"{nouns(best, 'is', 'are')} best for the money."
        )


def _amount(value: float, metric: MetricView) -> str:
    """Return a width in points of percent where the metric goes from 0 to 1, else in its own unit."""
    return f"{100 * value:.1f} points" if (metric.low, metric.high) == (0, 1) else f"{value:.3g}"


def _price_of_answer(facts: Facts, model_id: int) -> float | None:
    """Return what an answer of a model cost, ``None`` where the dataset does not say."""
    costs = (
        model.total_cost_usd / model.n_rows for model in facts.models if model.id == model_id and model.total_cost_usd
    )
    return next(costs, None)


def _price(facts: Facts, evaluator: EvaluatorView | None) -> float | None:
    """Return what one verdict of an evaluator cost in this run, ``None`` where it made none or the price is unknown."""
    if evaluator is None or not evaluator.computed:
        return None
    parts = (facts.record.get("judge_calls") or {}).get("by_evaluator") or []
    for part in parts:
        if part.get("evaluator") == evaluator.key and part.get("cost_usd"):
            return None if part.get("unknown_price") else float(part["cost_usd"]) / evaluator.computed
    return None
