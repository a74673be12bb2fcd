"""Regressions: what a model did right in the baseline and does wrong now, one problem per model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from leadline.evaluators.data.row import Severity
from leadline.evaluators.ground.text import count, listing, nouns, quoted
from leadline.tasks.analyse.changes import Changes, MetricChange, ModelChange, read_changes
from leadline.tasks.analyse.findings.finding import Finding
from leadline.tasks.analyse.findings.run_view import RunView
from leadline.tasks.ground.numbers import movement

_ACTIONS: Final = (
    "Open the cases named and read the answer beside the baseline's. Look for the cause in what changed between the "
    "two runs: the prompt, the model, its settings, the documents or the retrieval."
)


def regression_problems(view: RunView) -> Iterator[Finding]:
    """Yield a problem for each model that is worse than the baseline, or of which some answers are newly broken."""
    changes = read_changes(view.connection)
    for model in changes.models if changes else ():
        if changes and (model.n_broken or model.verdict == "fail"):
            yield _regression(view, changes, model)


def _regression(view: RunView, changes: Changes, model: ModelChange) -> Finding:
    failed = [metric for metric in model.metrics if metric.verdict == "fail"]
    broken = [metric for metric in model.metrics if metric.n_broken]
    broken.sort(key=lambda metric: (-metric.weight, -metric.n_broken))
    name = view.model_name(model.model_id)
    parts = []
    if failed:
        parts.append(f"{name} is worse than in {changes.baseline.label} by more than is tolerated:")
        parts.append(f"{listing(map(_moved, failed), most=4)}.")
    if model.n_broken:
        of = count(model.n_rows, "answer")
        parts.append(f"{model.n_broken:,} of {of} of {name} passed in {changes.baseline.label} and fail now")
        parts[-1] += f" ({listing(f'{metric.name} {metric.n_broken:,}' for metric in broken)}): {_cases(model)}."
        parts.append(f"{model.n_fixed:,} {nouns(model.n_fixed, 'was', 'were')} fixed." if model.n_fixed else "")
    leading = max([*failed, *broken], key=lambda metric: (metric in failed, metric.weight, metric.n_broken))
    return Finding(
        type="regression",
        kind="regression",
        severity=_severity(model),
        harm=model.n_broken / max(1, model.n_rows),
        evaluator_id=view.metrics[leading.metric_id]["evaluator_id"],
        metric_id=leading.metric_id,
        model_id=model.model_id,
        description=" ".join(filter(None, parts)),
        actions=_ACTIONS,
        attrs=view.attrs(
            metric=view.metrics[leading.metric_id],
            model_id=model.model_id,
            baseline_run=changes.baseline.run,
            baseline_model=model.baseline_model,
            verdict=model.verdict,
            n_broken=model.n_broken,
            n_fixed=model.n_fixed,
            n_compared=model.n_rows,
            worse_metrics=[metric.key for metric in failed],
        ),
        row_ids=[row.row_id for row in model.broken],
    )


def _severity(model: ModelChange) -> Severity:
    """Return how bad a regression is: ``high`` only where the comparison fails the model, beyond chance."""
    if model.verdict == "fail":
        return Severity.HIGH
    return Severity.MEDIUM if model.verdict == "inconclusive" and model.n_broken > model.n_fixed else Severity.LOW


def _moved(metric: MetricChange) -> str:
    if metric.baseline is None or metric.candidate is None:
        return metric.name
    return f"{metric.name} {movement(metric.baseline, metric.candidate, metric.share)}"


def _cases(model: ModelChange) -> str:
    names = [quoted(row.case, most=80)[1:-1] for row in model.broken[:3]]
    return ", ".join(names) + (f" and {model.n_broken - len(names):,} more" if model.n_broken > len(names) else "")
