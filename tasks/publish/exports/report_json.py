"""``report.json``: everything of the report but single scores; the results tree describes it with the same words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from leadline.evaluators.ground import jsonio
from leadline.tasks.analyse.changes import RowChange
from leadline.tasks.db import Aggregate, Certification, Correction, FlipCause, FlipRate, Insight, Problem, TrialSpread
from leadline.tasks.publish.exports.exporter import Exporter, published_exporters, register_exporter
from leadline.tasks.publish.exports.published_tables import published_sql
from leadline.tasks.publish.facts import EvaluatorView, Facts, MetricView, number, standings
from leadline.tasks.publish.run_results import RunResults

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

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
    """Return a problem or an insight as the files of the tree have it."""
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


SCHEMA: Final = "leadline.report"
SCHEMA_VERSION: Final = 1
MOST_FLIPS: Final = 2_000
"""Flips that ``report.json`` lists; a large run has as many as it has pairs."""

_Measured: TypeAlias = Aggregate | Certification | Correction | FlipCause | FlipRate | TrialSpread


@register_exporter
class JsonReport(Exporter):
    """The report for programs."""

    name = "json"
    files = ("report.json",)
    published = True
    order = 300

    def write(self, results: RunResults, folder: Path) -> None:
        """Write ``report.json``: everything of the report but single scores, which are in ``scores.parquet``."""
        _write(results, folder / "report.json")


def _write(results: RunResults, path: Path) -> None:
    facts = results.facts
    jsonio.write(
        path,
        {
            "schema": SCHEMA,
            "schema_version": SCHEMA_VERSION,
            "run": facts.run,
            "name": facts.title,
            "gate": facts.gate,
            "gate_reason": facts.gate_reason,
            "gate_counted": facts.gate_counted,
            "summary": results.summary.to_json(),
            "policy": _policy(facts),
            "changes": _changes(facts),
            "coverage": facts.coverage,
            "n_cases": facts.n_cases,
            "n_rows": facts.n_rows,
            "n_flips": facts.n_flips,
            "scores": facts.counts,
            "problems_by_severity": facts.severities(),
            "problems_by_fault": facts.tally(),
            "record": facts.record,
            "models": facts.models,
            "evaluators": [_evaluator(evaluator) for evaluator in facts.evaluators],
            "aggregates": [_named(facts, item) for item in facts.aggregates.values()],
            "leaderboards": {
                evaluator.key: [
                    {"rank": line.rank, "model": line.model.key, "values": line.values}
                    for line in standings(facts, evaluator)
                ]
                for evaluator in facts.evaluators
            },
            "problems": jsonio.Lazy(finding(facts, item) for item in facts.problems),
            "insights": jsonio.Lazy(finding(facts, item) for item in facts.insights),
            "unscored": [
                {"evaluator": evaluator.key, "reason": item.reason, "n_rows": item.n_rows, "message": item.message}
                for evaluator in facts.evaluators
                for item in facts.unmeasured
                if item.evaluator_id == evaluator.id
            ],
            "corrections": [_named(facts, item) for item in facts.corrections.values()],
            "certificates": [_named(facts, item) for item in facts.certificates.values()],
            "trial_spread": [_named(facts, item) for item in facts.trial_spread],
            "flip_causes": [_named(facts, item) for item in facts.flip_causes],
            "flip_rates": jsonio.Lazy(_named(facts, item) for item in facts.flip_rates),
            "flips": list(islice(_table(results.connection, "flips"), MOST_FLIPS)),
            "slices": jsonio.Lazy(_table(results.connection, "slices")),
            "files": [
                file for exporter in published_exporters(results) for file in exporter.files if file != path.name
            ],
        },
    )


def _policy(facts: Facts) -> dict[str, Any] | None:
    """Return the name and the digest of the policy that decided; the record has all of it."""
    policy = facts.record.get("policy")
    return {name: policy.get(name) for name in ("name", "digest")} if isinstance(policy, dict) else None


def _changes(facts: Facts) -> dict[str, Any] | None:
    """Return what changed since the baseline, with names in the place of numbers."""
    changes = facts.changes
    if changes is None:
        return None
    keys = {metric.metric_id: metric.key for model in changes.models for metric in model.metrics}

    def rows(found: Sequence[RowChange]) -> list[dict[str, Any]]:
        return [
            {
                "case": row.case,
                "metrics": [keys.get(metric) for metric in row.metric_ids],
                "baseline_answer": row.baseline_answer,
            }
            for row in found
        ]

    return {
        "baseline": changes.baseline,
        "summary": changes.summary,
        "n_broken": changes.n_broken,
        "n_fixed": changes.n_fixed,
        "undecided": changes.undecided,
        "models": [
            {
                **{name: getattr(model, name) for name in model.__dataclass_fields__ if name != "model_id"},
                "metrics": [
                    {name: getattr(m, name) for name in m.__dataclass_fields__ if not name.endswith("_id")}
                    for m in model.metrics
                ],
                "broken": rows(model.broken),
                "fixed": rows(model.fixed),
            }
            for model in changes.models
        ],
    }


def _evaluator(evaluator: EvaluatorView) -> dict[str, Any]:
    return {
        **descriptor(evaluator),
        "folder": evaluator.folder,
        "reused": evaluator.reused,
        "computed": evaluator.computed,
        "error": evaluator.error,
    }


def _named(facts: Facts, item: _Measured) -> dict[str, Any]:
    """Return a line about a metric, and most often a model, with their names in the place of their numbers."""
    metric = facts.metric(item.metric_id)
    evaluator = facts.evaluator(metric.evaluator_id) if metric else None
    names = {"evaluator": evaluator.key if evaluator else None, "metric": metric.key if metric else None}
    if not isinstance(item, Certification):
        model = facts.model(item.model_id)
        names["model"] = model.key if model else None
    more = {"coverage": item.coverage} if isinstance(item, Aggregate) else {}
    numbers = ("metric_id", "model_id")
    return {**names, **more, **{name: getattr(item, name) for name in item.__dataclass_fields__ if name not in numbers}}


def _table(connection: DuckDBPyConnection, name: str) -> Iterator[dict[str, Any]]:
    """Yield the lines of a published table, some at a time."""
    cursor = connection.execute(published_sql(name))
    names = [column[0] for column in cursor.description or ()]
    while lines := cursor.fetchmany(10_000):
        for line in lines:
            yield dict(zip(names, line, strict=True))
