"""Gathering the scores of a run in its database, from the store's segments and the run's unscored rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from leadline.evaluators.core.base import Evaluator
from leadline.evaluators.core.metric import Metric
from leadline.evaluators.core.row import Reason
from leadline.tasks.db.statements import sql
from leadline.tasks.plan.jobs import EvaluatorJob
from leadline.tasks.plan.planner import Need, reads_ids, segments
from leadline.tasks.store.segments import METRIC_PREFIX
from leadline.tasks.store.store import Run, Store

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def register_jobs(connection: DuckDBPyConnection, needs: Sequence[Need]) -> None:
    """Fill the tables ``evaluators`` and ``metrics``.

    Args:
        connection: The run's database.
        needs: The jobs with their needs.
    """
    connection.execute("BEGIN")
    number = 0
    for need in needs:
        job, evaluator = need.job, need.job.build()
        spec = evaluator.spec
        connection.execute(
            "INSERT INTO evaluators VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [job.evaluator_id, spec.id, spec.name, spec.family, spec.lane, spec.leaderboard, job.config,
             json.dumps(job.identity), json.dumps(job.params), need.reused, need.to_compute, job.error or None],
        )  # fmt: skip
        for metric in evaluator.metrics:
            connection.execute(
                "INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [number, job.evaluator_id, metric.key, metric.name, metric.description, metric.higher_is_better,
                 *metric.range, run_threshold(evaluator, metric), metric.primary, metric.share, metric.dataset_level,
                 metric.pooled],
            )  # fmt: skip
            number += 1
    connection.execute("COMMIT")


def run_threshold(evaluator: Evaluator, metric: Metric) -> float | None:
    """Return the threshold of a metric in this run: the parameter's, or the metric's default.

    Args:
        evaluator: The evaluator.
        metric: The metric.
    """
    given = evaluator.params.metric_threshold
    if isinstance(given, Mapping):
        return given.get(metric.key, metric.threshold)
    return given if given is not None and metric.primary else metric.threshold


def gather(connection: DuckDBPyConnection, store: Store, run: Run, jobs: Sequence[EvaluatorJob]) -> int:
    """Fill the tables ``scores`` and ``evidence`` and return the number of scores.

    Every planned row ends with exactly one line per metric: scored, unscored with a reason, or not applicable.

    Args:
        connection: The run's database.
        store: The store.
        run: The run.
        jobs: The evaluators of the run.
    """
    connection.execute("BEGIN")
    connection.execute("DELETE FROM scores")
    connection.execute("DELETE FROM evidence")
    unscored = segments(run.unscored)
    reads = reads_ids(jobs)
    store.sync(store.scores(job.evaluator, job.config) for job in jobs if not job.error)
    for job in jobs:
        _gather_job(connection, store, job, reads[job.evaluator_id], unscored)
    connection.execute("COMMIT")
    (count,) = connection.execute("SELECT count(*) FROM scores").fetchall()[0]
    return int(count)


def _gather_job(connection: DuckDBPyConnection, store: Store, job: EvaluatorJob, reads_id: int, unscored: str) -> None:
    names = {"evaluator_id": str(job.evaluator_id), "reads_id": str(reads_id), "unscored": unscored}
    names["trials"] = str(job.trials)
    files = segments(store.scores(job.evaluator, job.config)) if not job.error else ""
    if files:
        columns = [f'"{METRIC_PREFIX}{metric}"' for metric in job.build().row_metrics]
        names |= {
            "segments": files,
            "metric_columns": ", ".join(columns),
            "one_per_key": _one_per_key(connection, files),
        }
        connection.execute(sql("gather/scores").format(**names))
        connection.execute(sql("gather/evidence").format(**names))
    if unscored:
        connection.execute(sql("gather/unscored").format(**names))
        connection.execute(sql("gather/unscored_evidence").format(**names))
    names["lost"] = f"'{Reason.EVALUATOR_ERROR if job.error else Reason.WORKER_LOST}'"
    connection.execute(sql("gather/unmeasured").format(**names))
    connection.execute(sql("gather/unmeasured_evidence").format(**names))


def _one_per_key(connection: DuckDBPyConnection, files: str) -> str:
    """Return the clause that keeps one line per key: needed only if two runs scored the same row at the same time."""
    lines, keys = connection.execute(
        f"SELECT count(*), count(DISTINCT (key, trial)) FROM read_parquet({files})"
    ).fetchall()[0]
    if lines == keys:
        return ""
    return "QUALIFY row_number() OVER (PARTITION BY key, trial ORDER BY filename) = 1"
