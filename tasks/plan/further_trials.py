"""Further trials of some rows, which measure the judge's own noise and count for nothing else.

Where every row is judged K times, a row's value is the mean of its trials. Where only a sample is, the first trial of
every row is the score, as if there were no others: which rows are judged again may depend on what the first trial said,
and a mean over more trials of just these rows would be biased.

* **A number or a share of the rows**: drawn by a digest of their keys, so that the sample is the same in every run, and
  a larger one holds a smaller one.
* **auto**, where a dataset has perturbed copies: two phases. Once the first trial is scored, both rows of every pair
  that stands on two sides of a threshold are judged again, and of a share of the others. Else a sample as above.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from leadline.tasks.db import sql
from leadline.tasks.plan.jobs import EvaluatorJob

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

AUTO: Final = "auto"

PAIR_SHARE: Final = 0.3
"""Share of the pairs that did not turn which is judged again: less than that shows changes that are none too often."""
LEAST_PAIRS: Final = 30
"""Pairs of a model that did not turn which are judged again at least."""
FLIPPING: Final = 0.1
"""Share of the pairs that turn, as an estimate of calls takes it."""
ROW_SHARE: Final = 0.1
"""Share of the rows that is judged again where there are no pairs."""
LEAST_ROWS: Final = 100
"""Rows that are judged again at least where there are no pairs: a share of 6 % is then known to 5 points."""
MOST_ROWS: Final = 1_000

_SEED: Final = "|trials-v1"


def in_two_phases(connection: DuckDBPyConnection, job: EvaluatorJob) -> bool:
    """Return whether the rows that a job judges again are chosen by what their first trial says.

    Args:
        connection: The dataset.
    """
    if job.trial_rows != AUTO:
        return False
    (pairs,) = connection.execute(sql("plan/has_pairs")).fetchall()[0]
    return bool(pairs)


def draw_rows(connection: DuckDBPyConnection, job: EvaluatorJob, reads_id: int) -> None:
    """Draw the rows that a job judges again, whatever their first trial says: fill the table ``again``.

    Args:
        connection: The plan.
        reads_id: Which keys it goes by.
    """
    least, share, most = sample_size(job.trial_rows)
    connection.execute(
        sql("plan/draw_rows"),
        {
            "evaluator": job.evaluator_id,
            "reads": reads_id,
            "seed": _SEED,
            "least": least,
            "share": share,
            "most": most,
        },
    )


def sample_size(trial_rows: str) -> tuple[int, float, int]:
    """Return the least number of rows, their share, and their greatest number.

    Args:
        trial_rows: ``auto``, a number, or a share below 1.
    """
    if trial_rows == AUTO:
        return LEAST_ROWS, ROW_SHARE, MOST_ROWS
    wanted = float(trial_rows)
    return (0, wanted, 2**31) if wanted < 1 else (int(wanted), 0.0, int(wanted))


def draw_pairs(connection: DuckDBPyConnection, job: EvaluatorJob, reads_id: int) -> None:
    """Draw the pairs of rows that a job judges again by what their first trial says: fill ``judged_again``, ``again``.

    Without any pair whose rows stand on a side of a threshold, rows are drawn.

    Args:
        connection: The run, whose first trial is gathered and whose flips are found.
        reads_id: Which keys it goes by.
    """
    connection.execute("DELETE FROM judged_again WHERE evaluator_id = ?", [job.evaluator_id])
    connection.execute("DELETE FROM again WHERE evaluator_id = ?", [job.evaluator_id])
    connection.execute(
        sql("plan/draw_pairs"),
        {
            "evaluator": job.evaluator_id,
            "reads": reads_id,
            "seed": _SEED,
            "least": LEAST_PAIRS,
            "share": PAIR_SHARE,
        },
    )
    connection.execute(sql("plan/rows_of_pairs"), [job.evaluator_id])
    (rows,) = connection.execute("SELECT count(*) FROM again WHERE evaluator_id = ?", [job.evaluator_id]).fetchall()[0]
    if not rows:
        draw_rows(connection, job, reads_id)


def expect_pairs(connection: DuckDBPyConnection, job: EvaluatorJob, reads_id: int) -> None:
    """Draw as many pairs as a job is likely to judge again, before anything is scored: fill ``again``.

    Args:
        connection: The plan.
        reads_id: Which keys it goes by.
    """
    sizes = {"flipping": FLIPPING, "least": LEAST_PAIRS, "share": PAIR_SHARE}
    names = {"evaluator": job.evaluator_id, "reads": reads_id, "seed": _SEED}
    connection.execute(sql("plan/expect_pairs"), names | sizes)


def two_phase_jobs(connection: DuckDBPyConnection, jobs: Sequence[EvaluatorJob]) -> tuple[EvaluatorJob, ...]:
    """Return the jobs that judge again by what the first trial says.

    Args:
        connection: The dataset.
        jobs: The evaluators of the run.
    """
    return tuple(job for job in jobs if job.samples and not job.error and in_two_phases(connection, job))
