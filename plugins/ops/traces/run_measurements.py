"""A run's own numbers as metrics of OpenTelemetry: its values, counts, problems, time and judge calls."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from leadline.tasks.ground.timeline import RunTime
from leadline.tasks.runs.show import overview
from leadline.tasks.store.store import Run, Store

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricsData
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

MOST_POINTS: Final = 2_000
"""Values of metrics and models that are told of a run."""

LONGEST: Final = 200
GATES: Final = {"pass": 1.0, "inconclusive": 0.5, "fail": 0.0}

Point = tuple[float, dict[str, str]]

NAMES: Final[Mapping[str, tuple[str, str]]] = {
    "leadline.metric.value": ("1", "Value of an evaluator's metric for a model."),
    "leadline.metric.coverage": ("1", "Share of rows scored, of those that could be."),
    "leadline.run.gate": ("1", "The gate: 1 for pass, 0 for fail, 0.5 for inconclusive."),
    "leadline.run.scores": ("{score}", "Scores by status."),
    "leadline.run.problems": ("{problem}", "Problems by severity and by who is at fault."),
    "leadline.run.duration": ("s", "Time that the run took."),
    "leadline.judge.calls": ("{call}", "Judge calls of the run by evaluator."),
    "leadline.judge.cost": ("USD", "Price of the run's judge calls by evaluator."),
}
"""Unit and description of each metric."""


def measurements_of(store: Store, run: Run) -> dict[str, list[Point]]:
    """Return the numbers of a run by metric.

    Args:
        run: A run that was completed.
    """
    found = overview(store, run)
    points = {name: list(_of(name, found)) for name in NAMES}
    return {name: lines for name, lines in points.items() if lines}


def _of(name: str, found: Mapping[str, Any]) -> Iterator[Point]:
    record = found["record"]
    if name.startswith("leadline.metric."):
        for line in found["board"][:MOST_POINTS]:
            measured = line["n_scored"] + line["n_unscored"]
            share = line["n_scored"] / measured if measured else None
            value = line["value"] if name.endswith("value") else share
            if value is not None and math.isfinite(value):
                yield (
                    float(value),
                    {
                        "gen_ai.evaluation.name": f"{line['evaluator']}.{line['metric']}",
                        "leadline.model": str(line["model"])[:LONGEST],
                    },
                )
    elif name == "leadline.run.gate" and found["gate"] in GATES:
        yield GATES[found["gate"]], {}
    elif name == "leadline.run.scores":
        for status, number in (record.get("counts") or {}).items():
            yield float(number), {"leadline.status": status}
    elif name == "leadline.run.problems":
        for whose, counts in (record.get("problems_by_fault") or {}).items():
            for severity, number in counts.items():
                yield float(number), {"leadline.fault": whose, "leadline.severity": severity}
    elif name == "leadline.run.duration":
        time = RunTime.from_record(record)
        if time is not None:
            yield time.total, {}
    elif name.startswith("leadline.judge."):
        for line in (record.get("judge_calls") or {}).get("by_evaluator", ()):
            number = line.get("asked" if name.endswith("calls") else "cost_usd")
            if number is not None:
                yield float(number), {"leadline.evaluator": str(line.get("evaluator") or "")}


def metrics_data(store: Store, run: Run, moment: int, resource: Resource, scope: InstrumentationScope) -> MetricsData:
    """Return the numbers of a run as OpenTelemetry's exporter takes them; each has the run's name and dataset.

    Args:
        run: A run that was completed.
        moment: When, in nanoseconds since 1970.
        resource: Who sends them.
        scope: In which version.
    """
    from opentelemetry.sdk.metrics.export import (
        Gauge,
        Metric,
        MetricsData,
        NumberDataPoint,
        ResourceMetrics,
        ScopeMetrics,
    )

    record = run.read()
    shared = {f"leadline.{name}": str(record.get(name) or "")[:LONGEST] for name in ("name", "dataset_name")}
    metrics = [
        Metric(
            name,
            description=NAMES[name][1],
            unit=NAMES[name][0],
            data=Gauge([NumberDataPoint(shared | labels, moment, moment, value) for value, labels in lines]),
        )
        for name, lines in measurements_of(store, run).items()
    ]
    return MetricsData([ResourceMetrics(resource, [ScopeMetrics(scope, metrics, "")], "")])
