"""The first screen of a run's report for notebooks: the verdict in sentences, the worst problems, and the means."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from leadline.tasks.ground.numbers import figure
from leadline.tasks.ground.templating import render

if TYPE_CHECKING:
    from pandas import DataFrame

    from leadline.flows.evaluate.config import EvaluateResult
    from leadline.tasks.store.store import Store

HERE: Final = "leadline.api"
MOST_MEANS: Final = 12
"""Means that the screen shows; the others are counted."""


def first_screen(store: Store, outcome: EvaluateResult, aggregates: DataFrame) -> str:
    """Return the first screen as HTML that stands alone: no scripts, no addresses, all texts escaped.

    Args:
        outcome: The outcome of the run.
        aggregates: Its means.
    """
    run = store.run(outcome.run)
    store.fetch_results(run)
    summary = json.loads((run.results / "report.json").read_text(encoding="utf-8"))["summary"]
    primary = aggregates[aggregates["primary"] & (aggregates["n_scored"] > 0)]
    return render(
        HERE,
        "first_screen.html",
        run=outcome.run,
        gate=outcome.gate,
        counted=outcome.gate_counted,
        summary=summary,
        worst=[problem | {"look": _look(problem["example"])} for problem in summary["worst"]],
        means=[_mean(line) for line in primary.head(MOST_MEANS).to_dict("records")],
        more=max(0, len(aggregates) - len(primary.head(MOST_MEANS))),
        report=outcome.report_url or str(outcome.report),
    )


def _look(example: Mapping[str, Any] | None) -> str:
    """Return the call that shows the answer which shows a problem best."""
    return f"result.show({example['case']!r}, {example['model']!r})" if example else ""


def label_of(evaluator: str, metric: str) -> str:
    """Return what a metric is called on a screen: with its evaluator where its own name does not say that.

    Args:
        evaluator: Id of the evaluator.
        metric: Key of the metric.
    """
    return metric if metric.startswith(evaluator) else f"{evaluator} {metric}"


def _mean(line: Mapping[Any, Any]) -> dict[str, str]:
    evaluator, metric = str(line["evaluator"]), str(line["metric"])
    bounds = (line["ci_low"], line["ci_high"])
    known = all(bound == bound for bound in bounds)
    return {
        "label": label_of(evaluator, metric),
        "model": str(line["model"]),
        "value": figure(line["value"]),
        "interval": " to ".join(map(figure, bounds)) if known else "",
        "scored": f"{line['n_scored']:,}",
        "verdict": line["verdict"] if isinstance(line["verdict"], str) else "",
    }
