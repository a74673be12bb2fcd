"""Tiny runs: a dataset, evaluators, and the scores that they are supposed to have given, ready to be analysed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import duckdb

from leadline.evaluators.core import Metric, boolean_metrics
from leadline.tasks.db import open_run
from leadline.tasks.policy.policy import Role, Rule
from leadline.tasks.store.store import Run, Store
from tests.support.datasets.dataset import make_dataset
from tests.support.stores.filling import database_of, insert

VALUE = Metric("value", "Value", higher_is_better=True, threshold=0.75, primary=True, description="How good it is.")
BOARD = boolean_metrics(
    ("passes", "Passes"),
    ("failures", "Failures"),
    ("retrieval_failures", "Retrieval failures"),
    ("generation_failures", "Generation failures"),
    ("parse_failures", "Parse failures"),
    what="anything",
)


@dataclass(frozen=True)
class Toy:
    """An evaluator of a run; it need not exist."""

    id: str = "toy"
    metrics: Sequence[Metric] = (VALUE,)
    leaderboard: str = "heatmap"
    family: str = "generation"
    params: Mapping[str, Any] = field(default_factory=dict)
    thresholds: Mapping[str, float | None] = field(default_factory=dict)
    error: str | None = None
    rule: Rule = field(default_factory=Rule)
    judged: bool = False
    named: bool = False
    unproven: bool = False  # what its rule can show of a question is as it says; else its mean decides


@dataclass(frozen=True)
class Given:
    """The score of one row: a number, or the reason why there is none ("" for not applicable)."""

    case: str
    model: str
    value: float | str
    metric: str = "value"
    evaluator: str = "toy"
    trial: int = 0


@dataclass(frozen=True)
class Basis:
    """A line of the table ``evidence``."""

    case: str
    model: str
    evaluator: str = "toy"
    trial: int = 0
    evidence: Mapping[str, Any] | None = None
    flags: Sequence[Mapping[str, str]] | None = None
    payload: Any = None
    error: str | None = None


def answer(case: str, model: str, **fields: Any) -> dict[str, Any]:
    """Return a row for :func:`tests.support.datasets.dataset.make_dataset`, with the usual texts filled in."""
    return {"case": case, "model": model, "question": f"What is {case}?", "answer": f"{case} by {model}"} | fields


def make_run(
    tmp_path: Path,
    *,
    rows: Iterable[Mapping[str, Any]],
    evaluators: Sequence[Toy] = (Toy(),),
    scores: Iterable[Given] = (),
    evidence: Iterable[Basis] = (),
) -> tuple[Store, Run]:
    """Make a run whose scores are gathered, so that the steps from aggregation on can follow."""
    store = Store.open(tmp_path / "store")
    run = store.new_run()
    run.update({"dataset": make_dataset(store, [dict(row) for row in rows])})
    run.database.write_bytes(_empty())
    with open_run(store, run) as connection:
        fill(connection, evaluators, scores, evidence)
    return store, run


@cache
def _empty() -> bytes:
    """Return the file of a run's database without a line."""
    return database_of(lambda _: None)


def fill(
    connection: duckdb.DuckDBPyConnection,
    evaluators: Sequence[Toy],
    scores: Iterable[Given],
    evidence: Iterable[Basis] = (),
) -> None:
    """Fill the tables evaluators, metrics, scores and evidence in place of what they hold."""
    for name in ("evaluators", "metrics", "rules", "scores", "evidence"):
        connection.execute(f"DELETE FROM {name}")
    metrics: dict[tuple[str, str], int] = {}
    for number, toy in enumerate(evaluators):
        connection.execute(
            "INSERT INTO evaluators VALUES (?, ?, ?, ?, 'cpu', ?, '', '{}', ?, 0, 0, ?)",
            [number, toy.id, f"{toy.id.title()} Evaluator", toy.family, toy.leaderboard, json.dumps(toy.params),
             toy.error],
        )  # fmt: skip
        for metric in toy.metrics:
            metrics[toy.id, metric.key] = len(metrics)
            connection.execute(
                "INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [metrics[toy.id, metric.key], number, metric.key, metric.name, metric.description,
                 metric.higher_is_better, *metric.range, toy.thresholds.get(metric.key, metric.threshold),
                 metric.primary, metric.share, metric.dataset_level, metric.pooled],
            )  # fmt: skip
            own = replace(toy.rule, proof="mean") if toy.rule.proof == "none" and not toy.unproven else toy.rule
            rule = own if metric.primary else replace(own, role=Role.INFORMATION)
            columns = {
                "metric_id": metrics[toy.id, metric.key], **asdict(rule), "judged": toy.judged, "named": toy.named
            }  # fmt: skip
            columns.pop("threshold")
            connection.execute(
                f"INSERT INTO rules ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})",
                [list(value) if isinstance(value, tuple) else value for value in columns.values()],
            )
    rows = {(case, model): row for row, case, model in connection.execute(
        "SELECT row_id, case_key, model_key FROM rows JOIN cases USING (case_id) JOIN models USING (model_id)"
    ).fetchall()}  # fmt: skip
    ids = {toy.id: number for number, toy in enumerate(evaluators)}
    lines = [
        (metrics[given.evaluator, given.metric], rows[given.case, given.model], given.trial, *_status(given.value))
        for given in scores
    ]
    if lines:
        insert(connection, "scores", lines)
    told = [
        (ids[basis.evaluator], rows[basis.case, basis.model], basis.trial,
         *(None if value is None else json.dumps(value) for value in (basis.evidence, basis.flags, basis.payload)),
         basis.error)
        for basis in evidence
    ]  # fmt: skip
    if told:
        insert(connection, "evidence", told)


def _status(value: float | str) -> tuple[str, str | None, float | None]:
    if isinstance(value, str):
        return ("unscored", value, None) if value else ("not_applicable", None, None)
    return "scored", None, float(value)


def board_scores(
    case: str, model: str, *, generation: bool, retrieval: bool = False, evaluator: str = "toy"
) -> list[Given]:
    """Return the scores of one row of a pass/fail evaluator."""
    failed = generation or retrieval
    values = (not failed, failed, retrieval, generation, False)
    return [
        Given(case, model, float(value), metric.key, evaluator) for metric, value in zip(BOARD, values, strict=True)
    ]


def table(connection: duckdb.DuckDBPyConnection, name: str, **where: Any) -> list[dict[str, Any]]:
    """Return the lines of a table whose columns have the given values, JSON columns parsed."""
    cursor = connection.execute(f"SELECT * FROM {name}")
    names = [column[0] for column in cursor.description or ()]
    lines = [dict(zip(names, line, strict=True)) for line in cursor.fetchall()]
    for line in lines:
        for column in ("attrs", "reasons"):
            if isinstance(line.get(column), str):
                line[column] = json.loads(line[column])
    return [line for line in lines if all(line[column] == value for column, value in where.items())]
