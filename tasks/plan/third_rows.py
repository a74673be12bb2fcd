"""Rows that tell whose flip it is: the answer to a perturbed copy, judged under the question of its original.

Such a row is in no dataset. It has what the original's case says (question, expected answers, condition, ...) and what
the copy's row says (answer, retrieved context, ...), so that between the original and it only the answer differs, and
between it and the copy only the question. Its key is made of the digests of both. Where the answers are the same, the
key is the original's, and where the questions are, the copy's: then the store has its score already.

What has to be judged is written as a small dataset of its own, under a digest of what it is made of, and is scored by
chunks like any other part of the plan.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from leadline.evaluators.data import RowField
from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.tasks.db import DATASET_TABLES, STORED, literal, sql
from leadline.tasks.ground.files import digest, publish_folder, write_json
from leadline.tasks.plan.jobs import Chunk, EvaluatorJob, cut
from leadline.tasks.plan.planner import compute_more, segments, two_phase_jobs
from leadline.tasks.store.parquet_files import file_digest
from leadline.tasks.store.store import MANIFEST, Run, Store

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from leadline.evaluators.core import Evaluator, Lane

PART: Final = "flip-causes"
"""The part of a run's plan that third rows are."""

_SHOWN_FROM: Final = 100
"""Trials from which on an estimate counts third rows: a preview has no dataset of theirs, and shows them by copies."""


def attributable_jobs(connection: DuckDBPyConnection, jobs: Sequence[EvaluatorJob]) -> tuple[EvaluatorJob, ...]:
    """Return the jobs whose flips can be told apart: those that judge pairs again, and read of a row only itself."""
    return tuple(job for job in two_phase_jobs(connection, jobs) if reads_only_the_row(job.reads))


def check_attributable(connection: DuckDBPyConnection, evaluators: Iterable[Evaluator]) -> None:
    """Refuse to tell flips apart where there are none of a judge.

    Raises:
        UsageError: The dataset has no perturbed copies, or no evaluator asks a judge about a single answer.
    """
    (pairs,) = connection.execute(sql("plan/has_pairs")).fetchall()[0]
    judged = [each for each in evaluators if each.spec.judge and reads_only_the_row(each.reads)]
    if pairs and judged:
        return
    lacking = "no evaluator of this run asks a judge about a single answer" if pairs else "no case is a perturbed copy"
    raise UsageError(
        f"--attribute-flips has nothing to tell: {lacking}.",
        hint="Name an evaluator that asks a judge, or leave it away."
        if pairs
        else "Make copies: leadline data perturb",
        code=ErrorCode.JUDGE_NO_FLIPS,
    )


def reads_only_the_row(reads: Sequence[RowField]) -> bool:
    """Return whether an evaluator reads just the texts of the row that it scores, and the answer among them."""
    return set(reads) <= set(STORED) and RowField.ACTUAL_ANSWER in reads


def make_third_rows(connection: DuckDBPyConnection, jobs: Sequence[EvaluatorJob]) -> None:
    """Fill the table ``third_rows``: of each pair that was judged again the row between both, with its key.

    Args:
        connection: The run, whose pairs are drawn.
    """
    connection.execute(sql("plan/third_pairs"), [[job.evaluator_id for job in jobs]])
    connection.execute(sql("plan/third_tables"))
    for job in jobs:
        parts = ", ".join(f"coalesce(hex({field.value}), '-')" for field in job.reads)
        connection.execute(sql("plan/third_keys").format(parts=parts, evaluator_id=job.evaluator_id))


def plan_third_rows(connection: DuckDBPyConnection, store: Store, job: EvaluatorJob) -> tuple[int, int]:
    """Plan the scores of a job's third rows; return how many are wanted, and how many of them are to be computed.

    Args:
        connection: The run, with its third rows; the job's plan is replaced.
    """
    connection.execute("DELETE FROM to_compute WHERE evaluator_id = ?", [job.evaluator_id])
    connection.execute(sql("plan/none_wanted"))
    connection.execute(sql("plan/wanted_third"), {"evaluator": job.evaluator_id, "trials": job.trials})
    return compute_more(connection, store, job)


def cut_third_rows(
    connection: DuckDBPyConnection,
    jobs: Sequence[EvaluatorJob],
    store: Store,
    run: Run,
    *,
    processes: int,
    workers: Mapping[Lane, int] | None = None,
    lasting: bool = False,
) -> tuple[Chunk, ...]:
    """Write the rows to judge as a dataset of their own and return the chunks that score them; none where none are.

    Args:
        connection: The run, on which :func:`plan_third_rows` has run.
    """
    ids = [job.evaluator_id for job in jobs]
    lacking = "SELECT count(*) FROM to_compute WHERE evaluator_id IN (SELECT unnest(?))"
    if not connection.execute(lacking, [ids]).fetchall()[0][0]:
        return ()
    dataset = _write_dataset(connection, store, run.read()["dataset"])
    run.update({"third_rows_dataset": dataset})
    return cut(
        connection,
        jobs,
        store,
        run,
        processes=processes,
        workers=workers,
        lasting=lasting,
        part=PART,
        lanes=("judge",),
        dataset=dataset,
    )


def _write_dataset(connection: DuckDBPyConnection, store: Store, source: str) -> str:
    """Write the rows between pairs as a dataset and return its digest, which is the same for the same pairs."""
    pairs = connection.execute("SELECT original_row_id, perturbed_row_id FROM third_pairs ORDER BY row_id").fetchall()
    identity = digest({"third rows of": source, "pairs": [list(pair) for pair in pairs]})
    manifest = json.loads((store.dataset(source) / MANIFEST).read_text(encoding="utf-8"))
    manifest |= {"name": f"{manifest['name']}: answers to copies", "rows": len(pairs), "warnings": []}
    manifest["cases"] = connection.execute(sql("plan/third_size")).fetchall()[0][0]

    def fill(target: Path) -> None:
        for table in DATASET_TABLES:
            file = target / f"{table}.parquet"
            connection.execute(sql("plan/write_third").format(rows=sql(f"plan/third_{table}"), file=literal(file)))
        digests = {path.name: file_digest(path) for path in sorted(target.glob("*.parquet"))}
        write_json(target / MANIFEST, manifest | {"sha256": digests})

    if not store.use_dataset(identity):
        publish_folder(store.dataset(identity), fill)
    store.share_dataset(identity)
    return identity


def expect_third_rows(connection: DuckDBPyConnection, store: Store, jobs: Sequence[EvaluatorJob]) -> dict[str, int]:
    """Add to ``to_compute`` about what will be judged to tell flips apart, for an estimate.

    Args:
        connection: A connection on which the further trials are expected, for a preview.

    Returns:
        About how many scores that is, by evaluator.
    """
    found = {}
    for job in attributable_jobs(connection, jobs):
        connection.execute(sql("plan/expected_pairs"), [job.evaluator_id])
        make_third_rows(connection, [job])
        files, stored = segments(store.scores(job.evaluator, job.config)), 0
        if files:
            known = sql("plan/stored_third").format(segments=files, evaluator_id=job.evaluator_id, trials=job.trials)
            ((stored,),) = connection.execute(known).fetchall()
        expected = sql("plan/expected_third").format(
            evaluator_id=job.evaluator_id, trials=job.trials, first=_SHOWN_FROM
        )
        ((wanted,),) = connection.execute(f"SELECT count(*) FROM ({expected})").fetchall()
        found[job.evaluator] = max(0, wanted - stored)
        connection.execute(f"INSERT INTO to_compute {expected} LIMIT {found[job.evaluator]:d}")
    return found
