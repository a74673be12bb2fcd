"""The instrument: models, versions, judge calls, trials, and what could not be measured."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from leadline.evaluators.ground import visible
from leadline.tasks.publish.report.section import Section, register_section
from leadline.tasks.publish.run_results import RunResults
from leadline.tasks.publish.spending import spending
from leadline.tasks.publish.trial_advice import trial_advice
from leadline.tasks.publish.views import EvaluatorView, Facts


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
