"""Problems of models by what people would say: values of a judge that their labels correct, where these decide."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from leadline.evaluators.data.row import Severity
from leadline.evaluators.ground.text import count, percent
from leadline.tasks.analyse.findings.finding import Finding
from leadline.tasks.analyse.findings.model_problems import failing_rows, of_metric
from leadline.tasks.analyse.findings.run_view import RunView
from leadline.tasks.db.statements import sql
from leadline.tasks.db.tables import records
from leadline.tasks.statistics.more_labels import in_words, more_for_value


def corrected_value_problems(view: RunView) -> Iterator[Finding]:
    """Yield a problem for each model and metric whose corrected share of good answers is less than the policy wants.

    Only where the gate is decided by corrected values, and the judge's certificate is valid. It is HIGH where the whole
    interval is below what is wanted, else MEDIUM.
    """
    missed = [line for line in records(view.connection, sql("problems/corrected")) if line["value"] < line["wanted"]]
    failing = failing_rows(view.connection, missed)
    for line in missed:
        metric, model = line["metric_id"], line["model_id"]
        n_failed, rows = failing.get((metric, model), (0, []))
        surely = line["verdict"] == "fail" and line["judged"] >= line["min_rows"]
        found = of_metric(
            view,
            view.metrics[metric],
            view.aggregates[metric, model],
            kind="missed_threshold",
            severity=Severity.HIGH if surely else Severity.MEDIUM,
            harm=line["weight"] * (1 - line["value"]),
            description=_words(view, line, surely=surely),
            n_failed=n_failed,
            rows=rows,
            role=line["role"],
            ci_low=line["ci_low"],
            ci_high=line["ci_high"],
            verdict=line["verdict"],
            corrected=line["value"],
            n_labels=line["n_labels"],
        )
        more = more_for_value(line["n_labels"], line["value"], line["ci_high"], line["wanted"])
        yield found if surely else replace(found, actions=f"First label: {in_words(more)}. {found.actions}")


def _words(view: RunView, line: Mapping[str, Any], *, surely: bool) -> str:
    name = view.evaluator_name(view.metrics[line["metric_id"]]["evaluator_id"])
    words = (
        f"{view.model_name(line['model_id'])}: by {count(line['n_labels'], 'label')} of people "
        f"{percent(line['value'])} of the answers are good ({name}, corrected; 95 % interval "
        f"{percent(line['ci_low'])} to {percent(line['ci_high'])}), {percent(line['wanted'])} are asked for; "
        f"the judge says {percent(line['judge'])}."
    )
    return words if surely else f"{words} This may be chance: more labels narrow the interval."
