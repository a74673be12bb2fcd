"""The instrument: models, versions, judge calls, trials, what could not be measured; and people's labels."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from leadline.evaluators.ground import count, nouns, visible
from leadline.tasks.db import Aggregate
from leadline.tasks.ground.numbers import money
from leadline.tasks.judges.labels.run_corrections import CertificateLine, CorrectionLine
from leadline.tasks.publish.facts import EvaluatorView, Facts, MetricView, ModelView
from leadline.tasks.publish.report.section import Section, register_section
from leadline.tasks.publish.run_results import RunResults
from leadline.tasks.runs.run_sentences import spending
from leadline.tasks.statistics.judge_stability import Components
from leadline.tasks.statistics.statistics import Z


@register_section
class Instrument(Section):
    """Models, judge calls, trials and parameters behind the scores, and the rows without a score."""

    name = "instrument"
    title = "Instrument"
    order = 2000

    def context(self, results: RunResults) -> Mapping[str, Any]:
        """Return judge calls, models, thresholds that decide nothing, and two ways to print settings."""
        facts = results.facts
        return {
            "spending": spending(facts.record),
            "made_again": facts.judge_made_again,
            "advice": trial_advice(facts),
            "weights": _weights(facts),
            "odd": [(e, m) for e in facts.evaluators for m in e.metrics if m.primary and (m.unreachable or m.idle)],
            "pretty": _pretty,
            "chosen": _chosen,
        }


def _weights(facts: Facts) -> list[tuple[str, str]]:
    """Return the models that made numbers, each with the evaluators that used it."""
    used: dict[str, list[str]] = {}
    for evaluator in facts.evaluators:
        for model in _models_of(evaluator):
            used.setdefault(model, []).append(evaluator.short)
    return [(model, ", ".join(names)) for model, names in used.items()]


def _models_of(evaluator: EvaluatorView) -> list[str]:
    found = evaluator.identity.get("models")
    return [_pretty(model) for model in found] if isinstance(found, list) else []


def _chosen(params: Mapping[str, Any]) -> str:
    """Return the parameters, without those that every evaluator has and that were left as they are."""
    usual = {"save_llm_result": True, "min_test_cases": 0}
    return _pretty({name: value for name, value in params.items() if usual.get(name) != value})


def _pretty(value: Any) -> str:
    """Return JSON as a reader wants it: ``name: value`` pairs without braces at the top."""
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_pretty(item)}" for name, item in value.items() if item not in (None, "", [], {}))
    if isinstance(value, list):
        return ", ".join(_pretty(item) for item in value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return visible(re.sub(r"\s+", " ", text))[:600]


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

    The standard error of a mean of R rows, each judged K times, is ``sqrt((between² + within² / K) / R)`` (Cochran
    1977, section 10.6): trials narrow only the second part, rows narrow both.
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


@register_section
class PeopleLabels(Section):
    """A card for each metric that people labelled: corrected values by model, and the judge's certificate."""

    name = "labels"
    file = "people_labels"
    title = "People's labels"
    order = 205

    def context(self, results: RunResults) -> Mapping[str, Any] | None:
        """Return the metrics with labels; the section is left out where nobody was asked."""
        found = labelled_metrics(results.facts)
        return {"labelled": found} if found else None


@dataclass(frozen=True, slots=True)
class LabelledMetricView:
    """A metric with labels."""

    evaluator: EvaluatorView
    metric: MetricView
    certificate: CertificateLine
    corrections: tuple[tuple[ModelView, CorrectionLine], ...]
    run: str

    @property
    def advice(self) -> str:
        """The command that goes on from here, ``""`` where the certificate is valid."""
        name = f"{self.evaluator.key}.{self.metric.key}"
        found = self.certificate
        if found.state == "stale":
            return f"leadline judges certify {self.run} --metric {name}"
        if found.state in ("none", "few", "not drawn", "open"):
            rows = found.n_labels + (found.more_labels or max(100, found.n_labels))
            return f"leadline labels sample {self.run} --metric {name} --n {rows} -o page.html"
        return ""


def labelled_metrics(facts: Facts) -> list[LabelledMetricView]:
    """Return the metrics that people were asked about, in the order of the run."""
    found = []
    for evaluator in facts.evaluators:
        for metric in evaluator.metrics:
            certificate = facts.certificates.get(metric.id)
            if certificate is not None:
                lines = ((model, facts.corrections.get((metric.id, model.id))) for model in facts.models)
                corrections = tuple((model, line) for model, line in lines if line is not None)
                found.append(LabelledMetricView(evaluator, metric, certificate, corrections, facts.run))
    return found
