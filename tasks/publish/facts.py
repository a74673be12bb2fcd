"""From the run's database to view models, and the statements that the other modules of this room share."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from leadline.evaluators.data import Details
from leadline.tasks.analyse.changes import read_changes
from leadline.tasks.db import Aggregate, FlipCause, Insight, Problem, TrialSpread, read_lines, sql
from leadline.tasks.judges.labels.run_corrections import read_certificates, read_corrections
from leadline.tasks.publish.views import EvaluatorView, Facts, FlipRateLine, MetricView, ModelView, Unmeasured

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_NAMESPACE: Final = uuid.UUID("6b5a4c50-1f0e-5d0c-9a43-6c6561646c69")


def folder_name(run_id: str, evaluator: str) -> str:
    """Return the name of an evaluator's folder: the same whenever the same run is published again.

    Args:
        evaluator: The evaluator's id.
    """
    safe = re.sub(r"[^0-9A-Za-z_-]", "_", evaluator)[:80]
    return f"{safe}_{uuid.uuid5(_NAMESPACE, f'{run_id}/{evaluator}')}"


def collect(connection: DuckDBPyConnection, run_id: str, record: Mapping[str, Any]) -> Facts:
    """Read everything but single rows, and leave the views ``run_models`` and ``run_rows`` on the connection.

    Args:
        connection: The run's database, with the dataset's views.
        record: Its record (``run.json``).
    """
    connection.execute(sql("publish/run_models"))
    connection.execute(sql("publish/run_rows"))
    problems = tuple(read_lines(connection, Problem, order="problem_id"))
    insights = tuple(read_lines(connection, Insight, order="insight_id"))
    ((n_cases, n_rows, n_flips),) = connection.execute(sql("publish/sizes")).fetchall()
    counted = dict(connection.execute(sql("publish/counts")).fetchall())
    return Facts(
        run=run_id,
        record=record,
        models=_models(_fetch(connection, "models")),
        evaluators=_evaluators(connection, run_id),
        aggregates={
            (line.metric_id, line.model_id): line
            for line in read_lines(connection, Aggregate, order="metric_id, model_id")
        },
        flip_rates=tuple(read_lines(connection, FlipRateLine, order="perturbation, metric_id, model_id")),
        flip_causes=tuple(read_lines(connection, FlipCause, order="perturbation, metric_id, model_id")),
        trial_spread=tuple(read_lines(connection, TrialSpread, order="metric_id, model_id")),
        problems=problems,
        insights=insights,
        unmeasured=tuple(Unmeasured(**line) for line in _fetch(connection, "unmeasured")),
        rows=_row_names(connection, (*problems, *insights)),
        n_cases=n_cases,
        n_rows=n_rows,
        n_flips=n_flips,
        changes=read_changes(connection),
        corrections=read_corrections(connection),
        certificates=read_certificates(connection),
        decided_by_people=_decided_by_people(connection),
        counts={status: int(counted.get(status, 0)) for status in ("scored", "unscored", "not_applicable")},
    )


def read_details(connection: DuckDBPyConnection, evaluator_id: int) -> dict[int, Details]:
    """Return an evaluator's details (``evaluators/data/details.py``) by model id.

    Args:
        evaluator_id: Number of the evaluator in the run.
    """
    lines = connection.execute(
        "SELECT model_id, details FROM details WHERE evaluator_id = ? ORDER BY model_id", [evaluator_id]
    ).fetchall()
    return {model_id: cast("Details", json.loads(text)) for model_id, text in lines}


def _decided_by_people(connection: DuckDBPyConnection) -> frozenset[int]:
    """Return the metrics that corrected values decide."""
    decided = connection.execute("SELECT metric_id FROM rules WHERE use = 'corrected'").fetchall()
    return frozenset(metric_id for (metric_id,) in decided)


def _fetch(connection: DuckDBPyConnection, name: str) -> list[dict[str, Any]]:
    cursor = connection.execute(sql(f"publish/{name}"))
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, line, strict=True)) for line in cursor.fetchall()]


def _models(lines: list[dict[str, Any]]) -> tuple[ModelView, ...]:
    """Two models may share name and version: then the keys tell them apart."""
    names = [f"{line['name']} {line['version'] or ''}".strip() for line in lines]
    return tuple(
        ModelView(**line, label=name if names.count(name) == 1 else f"{name} ({line['key']})")
        for line, name in zip(lines, names, strict=True)
    )


def _evaluators(connection: DuckDBPyConnection, run_id: str) -> tuple[EvaluatorView, ...]:
    metrics: dict[int, list[MetricView]] = {}
    for line in _fetch(connection, "metrics"):
        metrics.setdefault(line["evaluator_id"], []).append(MetricView(**line))
    return tuple(
        EvaluatorView(
            **line | {"identity": _object(line["identity"]), "params": _object(line["params"])},
            folder=folder_name(run_id, line["key"]),
            metrics=tuple(metrics.get(line["id"], ())),
        )
        for line in _fetch(connection, "evaluators")
    )


def _row_names(connection: DuckDBPyConnection, findings: Sequence[Problem | Insight]) -> dict[int, tuple[str, str]]:
    if not any(finding.row_ids for finding in findings):
        return {}
    return {row_id: (case, model) for row_id, case, model in connection.execute(sql("publish/finding_rows")).fetchall()}


def _object(text: str | None) -> dict[str, Any]:
    value = json.loads(text) if text else {}
    return value if isinstance(value, dict) else {"value": value}
