"""Planning: the scores that a run needs, those that the store has, and those to compute.

A score's key has two parts. The configuration (evaluator, version, parameters, models, splitter) names a folder of
segments; the row's key, a digest of just the fields that the evaluator reads, is a column in them. The plan is the
anti-join of the keys needed against the keys in that folder. Equal rows are computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from leadline.evaluators.core.row import OUTPUTS, RowField
from leadline.tasks.db.connection import literal
from leadline.tasks.db.field_digests import digests_of
from leadline.tasks.db.statements import sql
from leadline.tasks.plan.jobs import EvaluatorJob
from leadline.tasks.store.parquet_files import intact_parquet_files
from leadline.tasks.store.store import Store

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@dataclass(frozen=True, slots=True)
class Need:
    """The needs of one job for one dataset.

    Attributes:
        job: The evaluator in its configuration.
        applicable: Rows that have all required inputs.
        not_applicable: Rows that lack one, or are beyond the evaluator's limit.
        host_errors: Rows whose host returned an error where the answer is needed.
        reused: Distinct scores that the store has, each trial counted.
        to_compute: Distinct scores that it does not have.
    """

    job: EvaluatorJob
    applicable: int
    not_applicable: int
    host_errors: int
    reused: int
    to_compute: int


def plan(
    connection: DuckDBPyConnection, store: Store, jobs: Sequence[EvaluatorJob], model_keys: Sequence[str] = ()
) -> tuple[Need, ...]:
    """Fill the tables ``keys``, ``plan`` and ``to_compute`` and return what each job needs.

    Args:
        connection: A connection that shows the dataset's views.
        store: The store with the scores of earlier runs.
        jobs: The evaluators of the run.
        model_keys: Only the rows of these models; all when empty.
    """
    store.sync(store.scores(job.evaluator, job.config) for job in jobs if not job.error)
    connection.execute(sql("plan/tables"))
    connection.execute(sql("plan/chosen_models"), {"models": list(model_keys)})
    groups: dict[tuple[RowField, ...], int] = {}
    for job in jobs:
        if job.reads not in groups:
            groups[job.reads] = len(groups)
            _make_keys(connection, groups[job.reads], job.reads)
    return tuple(_need(connection, store, job, groups[job.reads]) for job in jobs)


def reads_ids(jobs: Sequence[EvaluatorJob]) -> dict[int, int]:
    """Return each job's ``reads_id`` in the table ``keys``, numbered as :func:`plan` numbers them."""
    groups: dict[tuple[RowField, ...], int] = {}
    return {job.evaluator_id: groups.setdefault(job.reads, len(groups)) for job in jobs}


def _make_keys(connection: DuckDBPyConnection, reads_id: int, reads: Sequence[RowField]) -> None:
    parts = ", ".join(f"coalesce(hex({field.value}), '-')" for field in reads)
    connection.execute(sql("plan/keys").format(reads_id=reads_id, parts=parts, digests=digests_of(reads)))


def _need(connection: DuckDBPyConnection, store: Store, job: EvaluatorJob, reads_id: int) -> Need:
    evaluator = job.build()
    required = evaluator.required
    outputs = [field for field in required if field in OUTPUTS]
    present = " AND ".join(f"{field.value} IS NOT NULL" for field in required if field not in OUTPUTS) or "true"
    answered = " AND ".join(f"{field.value} IS NOT NULL" for field in outputs) or "true"
    failed = "error IS NOT NULL" if outputs else "false"
    states = {"present": present, "answered": answered, "failed": failed, "digests": digests_of(required)}
    connection.execute(sql("plan/states").format(evaluator_id=job.evaluator_id, **states))
    if evaluator.max_rows is not None:
        connection.execute(sql("plan/limit"), {"evaluator_id": job.evaluator_id, "most": evaluator.max_rows})
    counts = dict(
        connection.execute(
            "SELECT state, count(*) FROM plan WHERE evaluator_id = ? GROUP BY state", [job.evaluator_id]
        ).fetchall()
    )
    distinct, missing = _missing(connection, store, job, reads_id)
    return Need(
        job=job,
        applicable=counts.get("score", 0),
        not_applicable=counts.get("not_applicable", 0) + counts.get("over_limit", 0),
        host_errors=counts.get("host_error", 0),
        reused=distinct - missing,
        to_compute=missing,
    )


def _missing(connection: DuckDBPyConnection, store: Store, job: EvaluatorJob, reads_id: int) -> tuple[int, int]:
    if job.error:
        return 0, 0
    connection.execute(sql("plan/wanted"), [job.evaluator_id, job.trials, reads_id])
    files = segments(store.scores(job.evaluator, job.config))
    known = f"ANTI JOIN (SELECT key, trial FROM read_parquet({files})) AS known USING (key, trial)" if files else ""
    connection.execute(f"INSERT INTO to_compute SELECT {job.evaluator_id}, row_id, trial, key FROM wanted {known}")
    (distinct,) = connection.execute("SELECT count(*) FROM wanted").fetchall()[0]
    (missing,) = connection.execute(
        "SELECT count(*) FROM to_compute WHERE evaluator_id = ?", [job.evaluator_id]
    ).fetchall()[0]
    return distinct, missing


def segments(folder: Path) -> str:
    """Return the intact segments of a folder as an SQL list of file names, ``""`` if there are none."""
    files = intact_parquet_files(folder, "scores")
    return f"[{', '.join(literal(file) for file in files)}]" if files else ""
