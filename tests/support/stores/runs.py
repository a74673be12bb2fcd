"""Runs as a completed flow leaves them in the store, made without one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

import duckdb

from leadline.tasks.ground.timeline import RunTime
from leadline.tasks.store.store import Run, Store
from tests.support.datasets.dataset import make_dataset
from tests.support.stores.filling import database_of

ANSWERS: Final[list[dict[str, Any]]] = [
    {"case": "c1", "model": "alpha", "question": "Q1?", "expected": ["A1"], "answer": "A1", "context": ["ctx"]},
    {"case": "c1", "model": "beta", "question": "Q1?", "expected": ["A1"], "answer": "\x1b[31mwrong\u202e"},
    {"case": "c2", "model": "alpha", "question": "Q2?", "answer": "A2", "original": "c1", "perturbation": "typo"},
]


def make_run(
    store: Store,
    run_id: str,
    *,
    values: Sequence[float | None] = (1.0, 0.1, None),
    answers: list[dict[str, Any]] | None = None,
    record: Mapping[str, Any] | None = None,
) -> Run:
    """Make a completed run of one evaluator with one metric over :data:`ANSWERS`; ``None`` is a row that timed out."""
    used = ANSWERS if answers is None else answers
    dataset = make_dataset(store, used)
    run = store.run(run_id)
    run.path.mkdir(parents=True)
    run.database.write_bytes(_database(tuple(values)))
    run.update(
        {
            "status": "completed",
            "started": "2026-01-01T10:00:00+02:00",
            "name": "nightly",
            "dataset": dataset,
            "dataset_name": "sample",
            "dataset_source": "/data/sample.json",
            "rows": len(used),
            "cases": len({answer["case"] for answer in used}),
            "models": ["alpha", "beta"],
            "gate": "fail",
            "gate_reason": "1 problem of high severity.",
            "counts": {"scored": 2, "unscored": 1, "not_applicable": 0},
            "problems": {"high": 1, "medium": 0, "low": 0},
            "problems_by_fault": {
                "model": {"high": 1, "medium": 0, "low": 0},
                "instrument": {"high": 0, "medium": 0, "low": 0},
            },
            "reused": 0,
            "computed": 3,
            "time": RunTime(1.5, {"start": 0.5, "score": 1.0}, {"cpu": 1.0}).to_json(),
        }
        | dict(record or {})
    )
    return run


@cache
def _database(values: tuple[float | None, ...]) -> bytes:
    """Return the file of a run's database, of which most tests have the same."""
    return database_of(lambda connection: _fill(connection, values))


def _fill(connection: duckdb.DuckDBPyConnection, values: Sequence[float | None]) -> None:
    connection.execute(
        "INSERT INTO evaluators VALUES (0, 'bleu', 'BLEU', 'summarization', 'cpu', 'heatmap', 'cfg', '{}', '{}', "
        "0, 3, NULL)"
    )
    connection.execute(
        "INSERT INTO metrics VALUES (0, 0, 'bleu_1', 'BLEU-1', '', true, 0, 1, 0.5, true, false, false, false)"
    )
    connection.execute("INSERT INTO rules (metric_id) SELECT metric_id FROM metrics")
    for row_id, value in enumerate(values):
        state = ("unscored", "timeout") if value is None else ("scored", None)
        connection.execute("INSERT INTO scores VALUES (0, ?, 0, ?, ?, ?)", [row_id, *state, value])
    connection.execute(
        'INSERT INTO evidence VALUES (0, 1, 0, \'{"message": "no n-gram in common"}\', NULL, NULL, NULL)'
    )
    connection.execute(
        "INSERT INTO aggregates BY NAME SELECT 0 AS metric_id, 1 AS model_id, 1 AS n_rows, 1 AS n_scored, "
        "0 AS n_unscored, 0 AS n_not_applicable, '{}' AS reasons, 0.1 AS value, 0.05 AS ci_low, 0.15 AS ci_high, "
        "0.5 AS threshold, 'fail' AS verdict"
    )
    connection.execute(
        "INSERT INTO problems BY NAME SELECT 0 AS problem_id, 'high' AS severity, 'accuracy' AS type, "
        "'missed_threshold' AS kind, 'model' AS fault, false AS instrument, 0.5 AS harm, 0 AS evaluator_id, "
        "0 AS metric_id, 1 AS model_id, 'beta misses the threshold' AS description, 'Look at beta.' AS actions, "
        "'{\"n\": 1}' AS attrs, [1] AS row_ids"
    )
    connection.execute("INSERT INTO insights VALUES (0, 'accuracy', 0, 0, 0, 'alpha is best', 'Use alpha.', '{}', [0])")
