"""The steps of a run as plain functions over paths and values; the flow makes Prefect tasks of them."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from leadline.evaluators.core.base import Lane
from leadline.evaluators.core.context import EvalContext
from leadline.evaluators.core.settings import Settings
from leadline.evaluators.judge.engine.budget import Limits
from leadline.tasks.analyse.aggregate import aggregate
from leadline.tasks.analyse.findings.insights import find_insights
from leadline.tasks.analyse.findings.problems import find_problems
from leadline.tasks.analyse.findings.tally import tally_run
from leadline.tasks.analyse.gate import Decision, decide
from leadline.tasks.analyse.gather import gather, register_jobs
from leadline.tasks.analyse.perturbation_flips import find_flips
from leadline.tasks.analyse.trials import measure_trials
from leadline.tasks.db.connection import open_run
from leadline.tasks.ledger.ledger_report import add_up
from leadline.tasks.ledger.location import read_ledger
from leadline.tasks.load import LoadedDataset
from leadline.tasks.plan.jobs import Choice, EvaluatorJob, make_jobs, read_jobs, settings_record, write_jobs
from leadline.tasks.plan.planner import cut, plan
from leadline.tasks.plan.selection import applicable_to
from leadline.tasks.publish import Published, publish
from leadline.tasks.score.canaries import load_canaries
from leadline.tasks.score.chunk import Chunk
from leadline.tasks.store.files import write_json
from leadline.tasks.store.processes import process_record
from leadline.tasks.store.store import JOBS, Run, Store
from leadline.tasks.store.tmpfiles import clean_stale


@dataclass(frozen=True, slots=True)
class Planned:
    """A run that is ready to be scored.

    Attributes:
        run: Its id.
        chunks: What to score.
        reused: Row scores that the store holds.
        to_compute: Row scores to compute.
    """

    run: str
    chunks: tuple[Chunk, ...]
    reused: int
    to_compute: int


def begin(
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
    canaries: str | None = None,
) -> Planned:
    """Make a run: its folder and record, its database, its plan and its chunks.

    The record of a run that cannot be planned says why.
    """
    loaded.require_models(model_keys)
    choice = applicable_to(choice, loaded.path)
    jobs = make_jobs(choice.evaluators, settings, trials=trials)
    watched = load_canaries(store, canaries, jobs)[0] if canaries else ""
    record = _record(loaded, jobs, settings, config) | {"left_out": dict(choice.left_out)}
    clean_stale(store.root)
    run = store.new_run()
    try:
        run.update(record)
        with open_run(store, run, create=True) as connection:
            needs = plan(connection, store, jobs, model_keys)
            register_jobs(connection, needs)
            windows = cut(connection, jobs, run.plan, processes=processes, workers=workers)
        for job in jobs:
            _say_what_it_is(store, job)
        write_jobs(run.plan / JOBS, jobs, settings, limits, watched)
        store.share_plan(run)
    except BaseException as error:
        run.fail(error)
        raise
    chunks = tuple(
        Chunk(store=store.location, run=run.id, dataset=loaded.digest, **asdict(window)) for window in windows
    )
    return Planned(
        run=run.id,
        chunks=chunks,
        reused=sum(need.reused for need in needs),
        to_compute=sum(need.to_compute for need in needs),
    )


def _say_what_it_is(store: Store, job: EvaluatorJob) -> None:
    path = store.scores(job.evaluator, job.config) / "config.json"
    if not path.exists() and not job.error:
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
            **{name: importlib.metadata.version(name) for name in ("prefect", "duckdb", "nltk", "rouge-score")},
        },
    }


def gather_scores(store: Store, run: Run) -> int:
    """Bring the run's scores into its database; returns their number."""
    _, jobs = read_jobs(run.plan / JOBS)
    store.fetch_unscored(run)
    with open_run(store, run) as connection:
        return gather(connection, store, run, jobs)


def aggregate_scores(store: Store, run: Run) -> int:
    """Compute means, intervals and verdicts; returns the number of aggregates."""
    with open_run(store, run) as connection:
        lines = aggregate(connection)
        measure_trials(connection)
        return lines


def compare_perturbed(store: Store, run: Run) -> int:
    """Find flips; returns their number."""
    with open_run(store, run) as connection:
        return find_flips(connection)


def diagnose(store: Store, run: Run) -> dict[str, int]:
    """Find problems; returns their number by severity, and puts on record whose they are."""
    with open_run(store, run) as connection:
        found = find_problems(connection)
        run.update({"problems_by_fault": tally_run(connection)})
    return found


def gain_insights(store: Store, run: Run) -> int:
    """Find insights; returns their number."""
    with open_run(store, run) as connection:
        return find_insights(connection)


def judge_gate(store: Store, run: Run, *, fail_on: str, min_coverage: float) -> Decision:
    """Decide whether the run is good enough, and put the decision on record."""
    with open_run(store, run) as connection:
        decision = decide(connection, fail_on=fail_on, min_coverage=min_coverage)
    run.update({"gate": decision.gate, "gate_reason": decision.reason})
    return decision


def count_scores(store: Store, run: Run) -> dict[str, int]:
    """Return the number of scores by status, and put it on record."""
    with open_run(store, run, read_only=True) as connection:
        counted = dict(connection.execute("SELECT status, count(*) FROM scores GROUP BY status").fetchall())
    counts = {status: int(counted.get(status, 0)) for status in ("scored", "unscored", "not_applicable")}
    run.update({"counts": counts})
    return counts


def count_judge_calls(store: Store, run: Run) -> dict[str, Any]:
    """Return what the run's judge calls came to, and put it on record where there were any."""
    ledger = read_ledger(store)
    parts = ledger.totals(run.id)
    total = {name: value for name, value in asdict(add_up(run.id, parts)).items() if name not in ("run", "evaluator")}
    counted = total | {"made_again": ledger.made_again(run.id)}
    if counted["asked"]:
        by_evaluator = [{name: value for name, value in asdict(part).items() if name != "run"} for part in parts]
        run.update({"judge_calls": counted | {"by_evaluator": by_evaluator}})
    return counted


def place_of_report(run: Run, published: Published) -> str:
    """Return where people find the report: where they wanted it, or else in the store, be it a bucket."""
    return run.report if published.folder == run.results else str(published.report)


def publish_results(store: Store, run: Run, output: Path | None) -> Published:
    """Write the results tree and the report, then drop what only planning needed."""
    with open_run(store, run) as connection:
        published = publish(connection, run, run.read(), output=output)
        for table in ("keys", "to_compute"):
            connection.execute(f"DROP TABLE IF EXISTS {table}")
    store.share_results(run)
    return published
