"""Aggregation, flips and slices over 10,000,000 scores, as multiples of a bare group-by over the same scores.

    python benchmarks/aggregation.py [--cases 50000] [--models 4] [--metrics 50] [--threads 2]

Both run on the same connection, in turns, three times; the medians are compared. The bare query is what any tool must
at least do: ``SELECT metric_id, model_id, count(*), avg(value) ... GROUP BY``. Aggregation adds deviations, intervals
that account for perturbed copies, extremes, pass counts, reasons and bounds; then come all flips and their rates.
Slices are by category, length of the question, perturbation and two columns of metadata.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb

from leadline.tasks.analyse.aggregate import aggregate
from leadline.tasks.analyse.flips import find_flips
from leadline.tasks.analyse.slices import find_slices
from leadline.tasks.db import DATASET_TABLES, attach_dataset, literal, run_definitions, sql

BARE = """
SELECT metric_id, model_id, count(*), avg(value)
FROM scores
JOIN rows USING (row_id)
GROUP BY metric_id, model_id
"""

DATASET = """
INSERT INTO models SELECT i, 'model-' || i, 'model-' || i, NULL, true FROM range({models}) AS t(i);
INSERT INTO cases
SELECT i, 'case-' || i, 'question' || repeat(' word', (hash(i, 1) % 30)::INTEGER), [], [], NULL,
       ['category ' || hash(i, 2) % 12],
       '{{"region": "' || hash(i, 3) % 5 || '", "level": ' || hash(i, 4) % 4 || '}}', NULL
FROM range({cases}) AS t(i);
-- Every tenth case is a perturbed copy of the case before it.
INSERT INTO relationships
SELECT i, i - 1, 'perturbation_source', CASE WHEN i % 20 = 9 THEN 'typo' ELSE 'comma' END
FROM range({cases}) AS t(i) WHERE i % 10 = 9;
INSERT INTO rows
SELECT i, i // {models}, i % {models}, 'an answer', [], NULL, NULL, NULL, NULL, NULL, '{{}}', NULL
FROM range({cases} * {models}) AS t(i);
INSERT INTO digests (row_id, actual_answer) SELECT row_id, unhex(md5(row_id::VARCHAR)) FROM rows;
"""

RUN = """
INSERT INTO evaluators
SELECT i, 'toy-' || i, 'Toy ' || i, 'generation', 'cpu', 'heatmap', '', '{{}}', '{{}}', 0, 0, NULL
FROM range(({metrics} + 4) // 5) AS t(i);
INSERT INTO metrics
SELECT i, i // 5, 'metric-' || i, 'Metric ' || i, '', i % 3 > 0, 0, CASE WHEN i % 10 = 7 THEN 'inf'::DOUBLE ELSE 1 END,
       CASE WHEN i % 10 = 7 THEN 30 ELSE 0.5 END, i % 5 = 0, i % 5 = 0, false, false
FROM range({metrics}) AS t(i);
INSERT INTO rules (metric_id) SELECT metric_id FROM metrics;
-- A copy's value is near its original's. One in twenty rows has no value.
INSERT INTO scores
SELECT metric_id, row_id, 0, status::status, CASE WHEN status = 'unscored' THEN 'timeout' END,
       CASE WHEN status = 'scored' THEN
           CASE WHEN is_share THEN (x > 0.4)::INTEGER WHEN isinf(high) THEN exp(4 * x) ELSE x END END
FROM (
    SELECT metric_id, row_id, is_share, high,
           CASE WHEN chance < 2 THEN 'unscored' WHEN chance < 5 THEN 'not_applicable' ELSE 'scored' END AS status,
           (0.9 * (hash(root, metric_id) % 1000003) + 0.1 * (hash(row_id, metric_id) % 1000003)) / 1000003 AS x
    FROM (
        SELECT metric_id, row_id, is_share, high, hash(row_id, metric_id, 7) % 100 AS chance,
               CASE WHEN case_id % 10 = 9 THEN row_id - {models} ELSE row_id END AS root
        FROM metrics, rows
        ORDER BY metric_id, row_id
    )
);
"""


def build(folder: Path, **sizes: int) -> duckdb.DuckDBPyConnection:
    """Write a dataset and a run's database, and open them as a step of a run does."""
    with duckdb.connect() as dataset:
        dataset.execute(sql("dataset"))
        dataset.execute(DATASET.format(**sizes))
        for table in DATASET_TABLES:
            dataset.execute(f"COPY {table} TO {literal(folder / f'{table}.parquet')}")
    with duckdb.connect(str(folder / "run.duckdb")) as run:
        run.execute(run_definitions())
        attach_dataset(run, folder)
        run.execute(RUN.format(**sizes))
    connection = duckdb.connect(str(folder / "run.duckdb"))
    attach_dataset(connection, folder)
    return connection


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in (("cases", 50_000), ("models", 4), ("metrics", 50), ("threads", 2), ("repeats", 3)):
        parser.add_argument(f"--{name}", type=int, default=value)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        connection = build(Path(folder), cases=args.cases, models=args.models, metrics=args.metrics)
        connection.execute(f"SET threads = {args.threads}")
        times: dict[str, list[float]] = {"bare group-by": [], "aggregation": [], "flips": [], "slices": []}
        for _ in range(args.repeats):
            times["bare group-by"].append(timed(lambda: connection.execute(BARE).fetchall()))
            times["aggregation"].append(timed(lambda: aggregate(connection)))
            times["flips"].append(timed(lambda: find_flips(connection)))
            times["slices"].append(timed(lambda: find_slices(connection)))
        counts = {
            table: connection.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0]
            for table in ("scores", "aggregates", "flips", "slices")
        }
        connection.close()
    print(", ".join(f"{count:,} {table}" for table, count in counts.items()) + f"; {args.threads} threads")
    medians = {name: statistics.median(values) for name, values in times.items()}
    for name, values in times.items():
        print(f"{name:14s} {medians[name]:6.3f} s   ({', '.join(f'{value:.3f}' for value in values)})")
    ratio = (medians["aggregation"] + medians["flips"]) / medians["bare group-by"]
    print(f"aggregation and flips take {ratio:.2f} times the bare group-by (at most 5 is the aim)")
    print(f"slices take {medians['slices'] / medians['bare group-by']:.2f} times the bare group-by")


if __name__ == "__main__":
    main()
