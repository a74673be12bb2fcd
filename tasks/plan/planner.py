"""Planning: the scores that a run needs, those that the store has, and those to compute.

A score's key has two parts. The configuration (evaluator, version, parameters, models, splitter) names a folder of
segments; the row's key, a digest of just the fields that the evaluator reads, is a column in them. The plan is the
anti-join of the keys needed against the keys in that folder. Equal rows are computed once.

**Further trials** of some rows measure the judge's own noise and count for nothing else. Where every row is judged K
times, a row's value is the mean of its trials. Where only a sample is, the first trial of every row is the score, as if
there were no others: which rows are judged again may depend on what the first trial said, and a mean over more trials
of just these rows would be biased.

* **A number or a share of the rows**: drawn by a digest of their keys, so that the sample is the same in every run, and
  a larger one holds a smaller one.
* **auto**, where a dataset has perturbed copies: two phases. Once the first trial is scored, both rows of every pair
  that stands on two sides of a threshold are judged again, and of a share of the others. Else a sample as above.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from leadline.evaluators.data import GOALS, OUTPUTS, RowField
from leadline.tasks.db import OF_CONVERSATIONS, digests_of, literal, sql
from leadline.tasks.plan.jobs import EvaluatorJob
from leadline.tasks.plan.trial_rows import ALL_TURNS, AUTO, LAST_TURN, SAMPLED_TURNS
from leadline.tasks.store.parquet_files import intact_parquet_files
from leadline.tasks.store.store import Store

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from leadline.evaluators.core import Evaluator


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
    connection: DuckDBPyConnection,
    store: Store,
    jobs: Sequence[EvaluatorJob],
    model_keys: Sequence[str] = (),
    *,
    rows: Sequence[int] | None = None,
) -> tuple[Need, ...]:
    """Fill the tables ``keys``, ``plan`` and ``to_compute`` and return what each job needs.

    Args:
        model_keys: Only the rows of these models; all when empty.
        rows: Only these rows; all when left out.
    """
    store.sync(store.scores(job.evaluator, job.config) for job in jobs if not job.error)
    connection.execute(sql("plan/tables"))
    connection.execute(sql("plan/chosen_models"), {"models": list(model_keys), "rows": rows})
    if not jobs:
        return ()
    ids = reads_ids(jobs)
    connection.execute("INSERT INTO reads SELECT unnest($1), unnest($2)", [list(ids), list(ids.values())])
    groups = {ids[job.evaluator_id]: job.reads for job in jobs}
    connection.execute(f"INSERT INTO keys {' UNION ALL '.join(_keys(*group) for group in groups.items())}")
    counts = _fill_plan(connection, jobs)
    return tuple(_need(connection, store, job, ids[job.evaluator_id], counts[job.evaluator_id]) for job in jobs)


def reads_ids(jobs: Sequence[EvaluatorJob]) -> dict[int, int]:
    """Return each job's ``reads_id`` in the table ``keys``, numbered as :func:`plan` numbers them."""
    groups: dict[tuple[RowField, ...], int] = {}
    return {job.evaluator_id: groups.setdefault(job.reads, len(groups)) for job in jobs}


def _keys(reads_id: int, reads: Sequence[RowField]) -> str:
    """Return the query of the keys of all rows, by one set of fields.

    Fields of conversations are named and stand at the end, if they are there at all: an answer without them has the key
    that it always had.
    """
    usual = [f"coalesce(hex({field.value}), '-')" for field in reads if field not in OF_CONVERSATIONS]
    parts = ", ".join(
        [*usual, *(f"'{field.value}=' || hex({field.value})" for field in reads if field in OF_CONVERSATIONS)]
    )
    return sql("plan/keys").format(reads_id=reads_id, parts=parts, digests=digests_of(reads, turns=True))


def _fill_plan(connection: DuckDBPyConnection, jobs: Sequence[EvaluatorJob]) -> Mapping[int, Counter[str]]:
    """Fill the table ``plan``; return how many rows are in each state, by evaluator."""
    evaluators = {job.evaluator_id: job.build() for job in jobs}
    required = {field: None for evaluator in evaluators.values() for field in evaluator.required}
    present = ", ".join(f"{field.value} IS NOT NULL AS {field.value}" for field in required)
    connection.execute(sql("plan/present").format(present=present or "NULL", digests=digests_of(required, turns=True)))
    turns = {job.evaluator_id: job.turns for job in jobs}
    states = " UNION ALL ".join(_states(number, evaluator, turns[number]) for number, evaluator in evaluators.items())
    connection.execute(f"INSERT INTO plan {states}")
    for number, evaluator in evaluators.items():
        if evaluator.max_rows is not None:
            connection.execute(sql("plan/limit"), {"evaluator_id": number, "most": evaluator.max_rows})
    counts: dict[int, Counter[str]] = {number: Counter() for number in evaluators}
    for number, state, rows in connection.execute(sql("plan/counts")).fetchall():
        counts[number][state] = rows
    return counts


def _states(evaluator_id: int, evaluator: Evaluator, turns: str) -> str:
    """Return the query of what each row needs of an evaluator; turns that it is not asked about are not among them."""
    drawn = {ALL_TURNS: "true", LAST_TURN: sql("plan/last_turns")}.get(turns) or sql("plan/drawn_turns")
    inputs = [field.value for field in evaluator.required if field not in OUTPUTS]
    outputs = [field.value for field in evaluator.required if field in OUTPUTS]
    of_end = RowField.MESSAGES in evaluator.required or not GOALS.isdisjoint(evaluator.spec.inputs)
    of_end = of_end and evaluator.spec.unit == "conversation"
    return sql("plan/states").format(
        evaluator_id=evaluator_id,
        present=" AND ".join(inputs) or "true",
        answered=" AND ".join(outputs) or "true",
        failed="has_failed" if outputs or of_end else "false",
        unit=evaluator.spec.unit,
        turns=drawn.format(number=turns.removeprefix(SAMPLED_TURNS)),
    )


def _need(connection: DuckDBPyConnection, store: Store, job: EvaluatorJob, reads_id: int, counts: Counter[str]) -> Need:
    distinct, missing = _missing(connection, store, job, reads_id)
    return Need(
        job=job,
        applicable=counts["score"],
        not_applicable=counts["not_applicable"] + counts["over_limit"],
        host_errors=counts["host_error"],
        reused=distinct - missing,
        to_compute=missing,
    )


def _missing(connection: DuckDBPyConnection, store: Store, job: EvaluatorJob, reads_id: int) -> tuple[int, int]:
    if job.error:
        return 0, 0
    if job.samples and not in_two_phases(connection, job):
        draw_rows(connection, job, reads_id)
    trials = 1 if job.samples else job.trials
    connection.execute(sql("plan/wanted"), {"evaluator": job.evaluator_id, "trials": trials, "reads": reads_id})
    if job.samples:
        names = {"evaluator": job.evaluator_id, "trials": job.trials, "reads": reads_id}
        connection.execute(sql("plan/wanted_again"), names)
    return compute_missing(connection, store, job)


def plan_pairs(connection: DuckDBPyConnection, store: Store, job: EvaluatorJob, reads_id: int) -> tuple[int, int]:
    """Plan the further trials of the pairs that a job judges again by what their first trial says.

    Args:
        connection: The run, whose first trial is gathered and whose flips are found; the job's plan is replaced.
        reads_id: Which keys it goes by.

    Returns:
        How many scores are wanted, and how many of them are to be computed.
    """
    draw_pairs(connection, job, reads_id)
    connection.execute("DELETE FROM to_compute WHERE evaluator_id = ?", [job.evaluator_id])
    connection.execute(sql("plan/none_wanted"))
    names = {"evaluator": job.evaluator_id, "trials": job.trials, "reads": reads_id}
    connection.execute(sql("plan/wanted_again"), names)
    return compute_more(connection, store, job)


def compute_more(connection: DuckDBPyConnection, store: Store, job: EvaluatorJob) -> tuple[int, int]:
    """Do as :func:`compute_missing` for a later part of a plan, whose scores join those that the job counts."""
    wanted, missing = compute_missing(connection, store, job)
    connection.execute(
        "UPDATE evaluators SET reused = reused + ?, computed = computed + ? WHERE evaluator_id = ?",
        [wanted - missing, missing, job.evaluator_id],
    )
    return wanted, missing


def expect_further_trials(connection: DuckDBPyConnection, store: Store, jobs: Sequence[EvaluatorJob]) -> dict[str, int]:
    """Add to ``to_compute`` about what will be judged again once the first trial is scored, for an estimate.

    Args:
        connection: A connection on which :func:`plan` has run, for a preview.

    Returns:
        About how many scores that is, by evaluator; only of those that judge again by what the first trial says.
    """
    found = {}
    reads = reads_ids(jobs)
    for job in two_phase_jobs(connection, jobs):
        expect_pairs(connection, job, reads[job.evaluator_id])
        connection.execute(sql("plan/none_wanted"))
        names = {"evaluator": job.evaluator_id, "trials": job.trials, "reads": reads[job.evaluator_id]}
        connection.execute(sql("plan/wanted_again"), names)
        ((wanted,),) = connection.execute("SELECT count(*) FROM wanted").fetchall()
        compute_missing(connection, store, job)
        files, stored = segments(store.scores(job.evaluator, job.config)), 0
        if files:
            known = sql("plan/stored_repeats").format(
                segments=files, reads_id=reads[job.evaluator_id], trials=job.trials
            )
            ((stored,),) = connection.execute(known).fetchall()
        connection.execute(sql("plan/keep_repeats"), {"evaluator": job.evaluator_id, "most": max(0, wanted - stored)})
        later = "SELECT count(*) FROM to_compute WHERE evaluator_id = ? AND trial > 0"
        ((found[job.evaluator],),) = connection.execute(later, [job.evaluator_id]).fetchall()
    return found


def compute_missing(connection: DuckDBPyConnection, store: Store, job: EvaluatorJob) -> tuple[int, int]:
    """Add what the store lacks of the table ``wanted`` to ``to_compute``; return how many are wanted and lacking."""
    files = segments(store.scores(job.evaluator, job.config))
    known = f"ANTI JOIN (SELECT key, trial FROM read_parquet({files})) AS known USING (key, trial)" if files else ""
    lacking = f"SELECT {job.evaluator_id}, row_id, trial, key FROM wanted {known}"
    ((missing,),) = connection.execute(f"INSERT INTO to_compute {lacking}").fetchall()
    ((distinct,),) = connection.execute("SELECT count(*) FROM wanted").fetchall()
    return int(distinct), int(missing)


def segments(folder: Path) -> str:
    """Return the intact segments of a folder as an SQL list of file names, ``""`` if there are none."""
    files = intact_parquet_files(folder, "scores")
    return f"[{', '.join(literal(file) for file in files)}]" if files else ""


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
    """Return whether the rows that a job judges again are chosen by what their first trial says."""
    if job.trial_rows != AUTO:
        return False
    (pairs,) = connection.execute(sql("plan/has_pairs")).fetchall()[0]
    return bool(pairs)


def draw_rows(connection: DuckDBPyConnection, job: EvaluatorJob, reads_id: int) -> None:
    """Draw the rows that a job judges again, whatever their first trial says: fill the table ``again``.

    Args:
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
        reads_id: Which keys it goes by.
    """
    sizes = {"flipping": FLIPPING, "least": LEAST_PAIRS, "share": PAIR_SHARE}
    names = {"evaluator": job.evaluator_id, "reads": reads_id, "seed": _SEED}
    connection.execute(sql("plan/expect_pairs"), names | sizes)


def two_phase_jobs(connection: DuckDBPyConnection, jobs: Sequence[EvaluatorJob]) -> tuple[EvaluatorJob, ...]:
    """Return the jobs that judge again by what the first trial says."""
    return tuple(job for job in jobs if job.samples and not job.error and in_two_phases(connection, job))
