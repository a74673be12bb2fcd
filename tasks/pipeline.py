"""The steps of a run in their order. The flow makes a Prefect task of each; they take paths and plain values.

1. load: :func:`leadline.tasks.load.load_dataset` brings a file into the store.
2. plan: :func:`plan_run` creates the run and cuts into chunks what the store does not have yet.
3. score: :func:`leadline.tasks.score.chunk.score_chunk` scores one chunk; chunks are scored in parallel.
4. gather: :func:`gather_scores` collects the scores in the run's database.
5. aggregate: :func:`aggregate_scores` computes means, intervals and verdicts.
6. slices: :func:`measure_slices` does the same for rows that share a category, a language, a length, ….
7. flips: :func:`detect_flips` compares perturbed rows with their originals.
8. changes: :func:`compare_with_baseline` compares with an earlier run.
9. problems: :func:`detect_problems`.
10. insights: :func:`derive_insights`.
11. gate: :func:`decide_gate` decides whether the run passes.
12. publish: :func:`publish_results` writes the results and the report.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from leadline.evaluators.core.base import Lane
from leadline.evaluators.core.context import EvalContext
from leadline.evaluators.core.settings import Settings
from leadline.evaluators.judge.engine.budget import Limits
from leadline.tasks.analyse.aggregate import aggregate, measure_trials
from leadline.tasks.analyse.changes import read_changes
from leadline.tasks.analyse.findings.insights import find_insights
from leadline.tasks.analyse.findings.problems import find_problems
from leadline.tasks.analyse.findings.tally import tally_run
from leadline.tasks.analyse.gate import Decision, decide
from leadline.tasks.analyse.gather import gather, register_jobs
from leadline.tasks.analyse.perturbation_flips import find_flips
from leadline.tasks.analyse.slices import find_slices
from leadline.tasks.compare.run_changes import find_changes
from leadline.tasks.db.compaction import compact
from leadline.tasks.db.connection import open_run, release
from leadline.tasks.ledger.ledger_report import add_up
from leadline.tasks.ledger.location import read_ledger
from leadline.tasks.load import LoadedDataset
from leadline.tasks.plan.chunks import Chunk, cut
from leadline.tasks.plan.default_embedder import embedder_in_words
from leadline.tasks.plan.jobs import EvaluatorJob, make_jobs, read_jobs, settings_record, write_jobs
from leadline.tasks.plan.planner import plan
from leadline.tasks.plan.selection import Choice, applicable_to
from leadline.tasks.policy.policy import Policy
from leadline.tasks.policy.policy_file import DEFAULT, load_policy
from leadline.tasks.publish import Published, publish
from leadline.tasks.runs.signs_of_life import give_sign, record_lost
from leadline.tasks.score.canaries import load_canaries
from leadline.tasks.store.files import write_json
from leadline.tasks.store.processes import process_record
from leadline.tasks.store.store import JOBS, Run, Store
from leadline.tasks.store.tmpfiles import clean_stale
from leadline.tasks.store.vectors.vectors import ParquetVectors

_NUMBERS_FROM: Final = ("duckdb", "nltk", "numpy", "rapidfuzz", "regex", "scipy", "sentencex")
"""Packages whose version can change a number; models and their packages are part of each configuration."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A run that is ready to be scored.

    Attributes:
        run: Its id.
        chunks: The chunks to score.
        reused: Row scores that the store has already.
        to_compute: Row scores to compute.
    """

    run: str
    chunks: tuple[Chunk, ...]
    reused: int
    to_compute: int


def plan_run(
    store: Store,
    loaded: LoadedDataset,
    choice: Choice,
    settings: Settings,
    *,
    model_keys: Sequence[str],
    processes: int,
    config: Mapping[str, Any],
    trials: int = 1,
    limits: Limits | None = None,
    workers: Mapping[Lane, int] | None = None,
    lasting: bool = False,
    canaries: str | None = None,
    policy: Policy | None = None,
) -> Planned:
    """Create a run: its folder and record, its database, its plan and its chunks.

    If planning fails, the run's record has the error.

    Args:
        store: The store.
        loaded: The dataset.
        choice: The evaluators of the request; those that do not apply to the dataset are dropped.
        settings: The run's settings.
        model_keys: Only the rows of these models; all when empty.
        processes: Processes of the cpu lane.
        config: The request as JSON, for the record.
        trials: Repetitions per row of evaluators that ask a judge.
        limits: The budget for judge calls.
        workers: Workers online by lane.
        lasting: The workers stay from chunk to chunk.
        canaries: File of the canaries.
        policy: The gate's policy; the default one if none is given.
    """
    policy = policy or load_policy(DEFAULT)
    loaded.require_models(model_keys)
    choice = applicable_to(choice, loaded.path)
    jobs = make_jobs(choice.evaluators, settings, trials=trials)
    canary_dataset = load_canaries(store, canaries, jobs)[0] if canaries else ""
    record = _record(loaded, jobs, settings, config) | {
        "left_out": dict(choice.left_out),
        "embedder": embedder_in_words(choice, settings),
        "policy": policy.to_json(),
    }
    if canary_dataset:
        record["canary_dataset"] = canary_dataset
    clean_stale(store.root)
    record_lost(store)
    run = store.new_run()
    try:
        give_sign(store, run)
        run.update(record)
        for job in jobs:
            _write_identity(store, job)
        with open_run(store, run, create=True) as connection:
            connection.execute("BEGIN")  # else every statement waits for the disk
            needs = plan(connection, store, jobs, model_keys)
            connection.execute("COMMIT")
            named = {job.evaluator for job in jobs} - choice.unnamed
            register_jobs(connection, needs, policy, named)
            chunks = cut(connection, jobs, store, run, processes=processes, workers=workers, lasting=lasting)
        write_jobs(run.plan / JOBS, jobs, settings, limits, canary_dataset)
        store.share_plan(run)
    except BaseException as error:
        run.fail(error)
        raise
    return Planned(
        run=run.id,
        chunks=chunks,
        reused=sum(need.reused for need in needs),
        to_compute=sum(need.to_compute for need in needs),
    )


def _write_identity(store: Store, job: EvaluatorJob) -> None:
    """Write beside the segments of a configuration what it consists of; the file's time says when it was last used."""
    path = store.scores(job.evaluator, job.config) / "config.json"
    if path.exists():
        with suppress(OSError):  # another user's
            os.utime(path)
    elif not job.error:
        write_json(path, job.identity)
        store.push([path])


def _record(
    loaded: LoadedDataset, jobs: Sequence[EvaluatorJob], settings: Settings, config: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "status": "running",
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "name": config.get("name") or loaded.name,
        "dataset": loaded.digest,
        "dataset_name": loaded.name,
        "dataset_source": loaded.source,
        "dataset_format": loaded.format,
        "dataset_warnings": list(loaded.warnings),
        "rows": loaded.rows,
        "cases": loaded.cases,
        "models": list(loaded.models),
        "config": dict(config),
        "settings": settings_record(settings),
        "splitter": EvalContext(settings).splitter.identity,
        "identities": {job.evaluator: dict(job.identity) for job in jobs},
        "process": process_record(),
        "versions": {
            "leadline": importlib.metadata.version("leadline"),
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in _NUMBERS_FROM},
        },
    }


def gather_scores(store: Store, run: Run) -> int:
    """Collect the run's scores in its database, and return their number.

    Args:
        store: The store.
        run: The run.
    """
    _, jobs = read_jobs(run.plan / JOBS)
    store.fetch_unscored(run)
    with open_run(store, run) as connection:
        return gather(connection, store, run, jobs)


def aggregate_scores(store: Store, run: Run) -> int:
    """Compute means, intervals and verdicts, and return the number of aggregates.

    Args:
        store: The store.
        run: The run.
    """
    with open_run(store, run) as connection:
        lines = aggregate(connection)
        measure_trials(connection)
        return lines


def measure_slices(store: Store, run: Run, *, names: Sequence[str] = ()) -> int:
    """Measure every metric by slice, record the columns, and return the number of values measured.

    Args:
        store: The store.
        run: The run.
        names: Columns to slice by; all that suit when empty.
    """
    with open_run(store, run) as connection:
        chosen, lines = find_slices(connection, names=names)
    run.update({"slices": {"columns": list(chosen.columns), "left_out": dict(chosen.left_out)}})
    return lines


def detect_flips(store: Store, run: Run) -> int:
    """Find the perturbed rows that stand on the other side of a threshold, and return their number.

    Args:
        store: The store.
        run: The run.
    """
    with open_run(store, run) as connection:
        return find_flips(connection)


def compare_with_baseline(store: Store, run: Run, against: str | None) -> None:
    """Find out what changed since an earlier run, and record it in a few words.

    Args:
        store: The store.
        run: The run.
        against: The earlier run, as :func:`leadline.tasks.compare.run_changes.find_changes` takes it.
    """
    find_changes(store, run, against)
    with open_run(store, run, read_only=True) as connection:
        changes = read_changes(connection)
    if changes is not None:
        run.update({"against": changes.baseline.run, "changed": changes.summary})


def detect_problems(store: Store, run: Run) -> dict[str, int]:
    """Find problems, record how many are the models' and how many the instrument's, and return them by severity.

    Args:
        store: The store.
        run: The run.
    """
    with open_run(store, run) as connection:
        found = find_problems(connection, policy_of(run), ParquetVectors(store))
        run.update({"problems_by_fault": tally_run(connection)})
    return found


def derive_insights(store: Store, run: Run) -> int:
    """Find insights, and return their number.

    Args:
        store: The store.
        run: The run.
    """
    with open_run(store, run) as connection:
        return find_insights(connection, policy_of(run))


def policy_of(run: Run) -> Policy:
    """Return the gate's policy of a run, which its record contains."""
    return Policy.from_json(run.read()["policy"])


def decide_gate(store: Store, run: Run, *, fail_on: str, min_coverage: float | None) -> Decision:
    """Decide whether the run is good enough, and record the decision.

    Args:
        store: The store.
        run: The run.
        fail_on: ``high``, ``medium`` or ``never``.
        min_coverage: Least share of applicable rows that must be scored, per evaluator and model; the policy's if it
            is not given.
    """
    with open_run(store, run) as connection:
        decision = decide(connection, policy_of(run), fail_on=fail_on, min_coverage=min_coverage)
    run.update({"gate": decision.gate, "gate_reason": decision.reason})
    return decision


def publish_results(store: Store, run: Run, output: Path | None) -> Published:
    """Write the report and the other results, then drop what only planning and scoring needed.

    Args:
        store: The store.
        run: The run.
        output: Folder for the results; by default the run's own in the store.
    """
    with open_run(store, run) as connection:
        published = publish(connection, run, run.read(), output=output)
        for table in ("keys", "plan", "to_compute"):
            connection.execute(f"DROP TABLE IF EXISTS {table}")
    release(run)
    compact(run.database)
    chunks = list(run.plan.glob("*.parquet"))
    for path in chunks:
        path.unlink()
    if chunks:
        store.share_plan(run)
    store.share_results(run)
    return published


def report_location(run: Run, published: Published) -> str:
    """Return the address of the report: the folder that was asked for, or else the store, which may be a bucket.

    Args:
        run: The run.
        published: The published results.
    """
    return run.report if published.folder == run.results else str(published.report)


def count_scores(store: Store, run: Run) -> dict[str, int]:
    """Count the scores by status, and record the counts.

    Args:
        store: The store.
        run: The run.
    """
    with open_run(store, run, read_only=True) as connection:
        counted = dict(connection.execute("SELECT status, count(*) FROM scores GROUP BY status").fetchall())
    counts = {status: int(counted.get(status, 0)) for status in ("scored", "unscored", "not_applicable")}
    run.update({"counts": counts})
    return counts


def count_judge_calls(store: Store, run: Run) -> dict[str, Any]:
    """Sum up the run's judge calls, and record the sums if there were any.

    Args:
        store: The store.
        run: The run.
    """
    ledger = read_ledger(store)
    parts = ledger.totals(run.id)
    total = {name: value for name, value in asdict(add_up(run.id, parts)).items() if name not in ("run", "evaluator")}
    counted = total | {"made_again": ledger.made_again(run.id)}
    if counted["asked"]:
        by_evaluator = [{name: value for name, value in asdict(part).items() if name != "run"} for part in parts]
        run.update({"judge_calls": counted | {"by_evaluator": by_evaluator}})
    return counted
