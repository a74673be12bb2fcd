"""The first screen: the run in sentences, its worst problems, its numbers; and the leaderboard of the models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from leadline.evaluators.core.suites import folded
from leadline.tasks.db import show_targets, sql
from leadline.tasks.publish.facts import Facts, ModelView
from leadline.tasks.publish.report.section import Section, register_section
from leadline.tasks.publish.run_results import RunResults
from leadline.tasks.runs.run_facts import SYMBOLS
from leadline.tasks.runs.run_sentences import scores_line


@register_section
class Overview(Section):
    """The summary, then problems, coverage and answers that perturbations turned bad."""

    name = "overview"
    title = "Overview"
    order = 100

    def context(self, results: RunResults) -> Mapping[str, Any]:
        """Return how many comparisons with a perturbed copy turned bad, on metrics that must or should hold."""
        facts = results.facts
        rates = [
            rate
            for rate in facts.flip_rates
            if not rate.perturbation and (metric := facts.metric(rate.metric_id)) and metric.role != "information"
        ]
        return {
            "symbols": SYMBOLS,
            "scores": scores_line(facts),
            "n_turned": sum(r.n_passed_to_failed for r in rates),
            "n_compared": sum(r.n_pairs for r in rates),
        }


@register_section
class ModelLeaderboard(Section):
    """A line per model: answers that fail what must hold, thresholds that it satisfies, time and cost."""

    name = "models"
    file = "model_leaderboard"
    title = "Models"
    order = 150

    def context(self, results: RunResults) -> Mapping[str, Any]:
        """Return the models' lines, the best first, and what is known of them."""
        show_targets(results.connection)
        failing = dict(results.connection.execute(sql("publish/must_failures")).fetchall())
        models = results.facts.models
        return {
            "standings": model_standings(results.facts, failing),
            "timed": any(model.mean_duration_s is not None for model in models),
            "priced": any(model.total_cost_usd is not None for model in models),
            "mixed": len({model.is_rag for model in models}) > 1,
        }


@dataclass(frozen=True, slots=True)
class ModelStanding:
    """A line of the leaderboard.

    Attributes:
        n_failing: Its answers that fail a metric that must hold; ``None`` if no such metric applies.
        n_satisfied: Metrics that should hold and surely do.
        n_open: Of those metrics, the ones whose verdict cannot be told.
        n_should: Metrics that should hold and have a value.
    """

    model: ModelView
    n_failing: int | None
    n_satisfied: int
    n_open: int
    n_should: int
    n_high: int

    @property
    def cost_per_thousand(self) -> float | None:
        """US dollars for a thousand answers, ``None`` where no cost is known."""
        total = self.model.total_cost_usd
        return None if total is None or not self.model.n_rows else 1000 * total / self.model.n_rows


def model_standings(facts: Facts, failing: Mapping[int, int]) -> list[ModelStanding]:
    """Return a line per model: fewest failing answers first, then most thresholds satisfied.

    Look-alikes of another evaluator of the run are not counted a second time.

    Args:
        failing: Answers that fail a metric that must hold, by model id; models without such a metric are absent.
    """
    below = folded(evaluator.key for evaluator in facts.evaluators)
    should = [
        metric.id
        for evaluator in facts.evaluators
        if evaluator.key not in below
        for metric in evaluator.metrics
        if metric.role == "should" and metric.primary
    ]
    lines = []
    for model in facts.models:
        found = [facts.aggregates.get((metric, model.id)) for metric in should]
        verdicts = [item.verdict for item in found if item is not None and item.verdict is not None]
        lines.append(
            ModelStanding(
                model=model,
                n_failing=failing.get(model.id),
                n_satisfied=verdicts.count("pass"),
                n_open=verdicts.count("inconclusive"),
                n_should=len(verdicts),
                n_high=sum(
                    p.model_id == model.id and p.severity == "high" and p.fault == "model" for p in facts.problems
                ),
            )
        )
    return sorted(lines, key=_place)


def _place(line: ModelStanding) -> tuple[float, float]:
    share = line.n_satisfied / line.n_should if line.n_should else 0.0
    return (line.n_failing or 0) / max(1, line.model.n_rows), -share
