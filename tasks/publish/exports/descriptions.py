"""Evaluators, metrics and findings as JSON describes them: in ``report.json``, and in the files of the results tree."""

from __future__ import annotations

from typing import Any, Final

from leadline.tasks.db import Insight, Problem
from leadline.tasks.publish.views import EvaluatorView, Facts, MetricView, number

OPEN_END: Final = 1234567.0
"""The number that stands for an infinite end of a range in these descriptions, as in H2O Eval Studio's."""


def metric_meta(metric: MetricView) -> dict[str, Any]:
    """Return a metric's description with the run's threshold."""
    return {
        "key": metric.key,
        "display_name": metric.name,
        "data_type": "float",
        "display_value": ".0%" if metric.share else ".4f",
        "description": metric.description,
        "value_range": [max(metric.low, -OPEN_END), min(metric.high, OPEN_END)],
        "value_enum": None,
        "higher_is_better": metric.higher_is_better,
        "threshold": number(metric.threshold),
        "is_primary_metric": metric.primary,
        "parent_metric": None,
        "exclude": False,
    }


def descriptor(evaluator: EvaluatorView) -> dict[str, Any]:
    """Return the description of an evaluator, with its configuration and metrics."""
    return {
        "id": evaluator.key,
        "name": evaluator.name,
        "display_name": evaluator.name,
        "family": evaluator.family,
        "lane": evaluator.lane,
        "leaderboard": evaluator.board,
        "config": evaluator.config,
        "identity": evaluator.identity,
        "parameters": [{"name": name, "val": value} for name, value in sorted(evaluator.params.items())],
        "metrics_meta": [metric_meta(metric) for metric in evaluator.metrics],
    }


def finding(facts: Facts, item: Problem | Insight, explanation: str = "") -> dict[str, Any]:
    """Return a problem or an insight as the files of the tree have it.

    Args:
        facts: The run.
        item: The problem or insight.
        explanation: The kind of explanation that it belongs to.
    """
    evaluator, metric, model = (
        facts.evaluator(item.evaluator_id),
        facts.metric(item.metric_id),
        facts.model(item.model_id),
    )
    rows = [facts.rows[row] for row in item.row_ids if row in facts.rows]
    attrs = {
        **({"evaluator_name": evaluator.name} if evaluator else {}),
        **({"metric_id": metric.key, "metric_name": metric.name} if metric else {}),
        **({"model_name": model.name, "model_key": model.key} if model else {}),
        **item.attrs,
        "dataset_row_keys": [list(row) for row in rows],
        "test_case_keys": list(dict.fromkeys(case for case, _ in rows)),
    }
    kind = "problem" if isinstance(item, Problem) else "insight"
    return {
        "description": item.description,
        "description_html": None,
        "actions_description": item.actions,
        "actions_codes": [],
        "explainer_id": evaluator.key if evaluator else None,
        "explainer_name": evaluator.name if evaluator else None,
        "explanation_type": explanation,
        "explanation_name": None,
        "explanation_mime": None,
        "resources": [],
        **(_of_problem(item) if isinstance(item, Problem) else {}),
        f"{kind}_type": item.type,
        f"{kind}_attrs": attrs,
    }


def _of_problem(item: Problem) -> dict[str, Any]:
    """Return what only problems have."""
    return {
        "severity": item.severity.upper(),
        "kind": item.kind,
        "fault": item.fault,
        "instrument": item.instrument,
        "harm": item.harm,
    }
