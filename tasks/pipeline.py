"""The steps of a run in their order. The flow makes a Prefect task of each; they take paths and plain values.

1. load: :func:`leadline.tasks.load.dataset.load_dataset` brings a file into the store.
2. plan: :func:`plan_run` creates the run and cuts into chunks what the store does not have yet.
3. score: :func:`leadline.tasks.score.chunk.score_chunk` scores one chunk; chunks are scored in parallel. Where further
   trials are for what the first one said, :func:`plan_further_trials` plans them, and they are scored.
4. gather: :func:`gather_scores` collects the scores in the run's database.
5. aggregate: :func:`aggregate_scores` computes means, intervals and verdicts.
6. slices: :func:`measure_slices` does the same for rows that share a category, a language, a length, ….
7. flips: :func:`detect_flips` compares perturbed rows with their originals; where it was asked whose flips they are,
   :func:`plan_flip_causes` has planned rows that tell it, and :func:`attribute_flips` says it.
8. changes: :func:`compare_with_baseline` compares with an earlier run.
9. corrections: :func:`correct_scores` puts people's labels beside the scores.
10. problems: :func:`detect_problems`.
11. insights: :func:`derive_insights`.
12. gate: :func:`decide_gate` decides whether the run passes.
13. publish: :func:`publish_results` writes the results and the report.
"""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from leadline.evaluators.core import EvalContext, Lane
from leadline.evaluators.judge_client.budget import Limits
from leadline.evaluators.settings import Settings, members_of
from leadline.tasks.analyse.aggregate import aggregate, measure_trials
from leadline.tasks.analyse.changes import read_changes
from leadline.tasks.analyse.findings.insights import find_insights
from leadline.tasks.analyse.findings.problems import count_problems, find_problems
from leadline.tasks.analyse.flip_causes import attribute_flips as find_flip_causes
from leadline.tasks.analyse.flips import find_flips
from leadline.tasks.analyse.gate import Decision, decide
from leadline.tasks.analyse.gather import gather, register_jobs
from leadline.tasks.analyse.kept_analysis import (
    ANALYSIS,
    FINDINGS,
    MEANS,
    analysis_digest,
    earlier_analysis,
    is_plain,
    known,
    take_over,
)
from leadline.tasks.analyse.slices import find_slices
from leadline.tasks.compare.run_changes import find_changes
from leadline.tasks.db import compact, open_run, release
from leadline.tasks.ground.files import clean_stale
from leadline.tasks.ground.processes import process_record
from leadline.tasks.judges.drift.epochs import enrolled_keys, judge_key
from leadline.tasks.judges.drift.judge_standing import notice_replies, reused_after_change, watch
from leadline.tasks.judges.labels.run_corrections import GateOn, correct_run
from leadline.tasks.ledger.ledger import read_ledger
from leadline.tasks.ledger.ledger_report import add_up
from leadline.tasks.load.dataset import LoadedDataset
from leadline.tasks.plan.jobs import (
    LANES,
    Chunk,
    EvaluatorJob,
    cut,
    keep_identity,
    make_jobs,
    read_jobs,
    settings_record,
    write_jobs,
)
from leadline.tasks.plan.planner import Need, plan, plan_pairs, reads_ids, two_phase_jobs
from leadline.tasks.plan.selection import Choice, applicable_to, embedder_in_words, named_models
from leadline.tasks.plan.third_rows import attributable_jobs, cut_third_rows, make_third_rows, plan_third_rows
from leadline.tasks.plan.trial_rows import ALL_ROWS, ALL_TURNS
from leadline.tasks.policy.policy import DEFAULT, Policy, load_policy
from leadline.tasks.publish.exports.exporter import Published, publish
from leadline.tasks.runs.heartbeats import give_sign, record_lost
from leadline.tasks.runs.history import keep_points
from leadline.tasks.runs.run_facts import tally_run
from leadline.tasks.score.canaries import judge_of, load_canaries
from leadline.tasks.stopping.looks import give_valid_intervals
from leadline.tasks.stopping.waves import WaveOutcome, order_in_waves, wave_part
from leadline.tasks.store.store import JOBS, JUDGES, Run, Store
from leadline.tasks.store.vectors import ParquetVectors

_NUMBERS_FROM: Final = ("duckdb", "nltk", "numpy", "rapidfuzz", "regex", "scipy", "sentencex")
"""Packages whose version can change a number; models and their packages are part of each configuration."""

_LATER: Final = ("scipy.special", "scipy.cluster.hierarchy", "leadline.tasks.publish.exports.report_pages")
"""What the steps after scoring import when they come to it."""


def import_ahead() -> None:
    """Import what the steps after scoring need, which takes 0.2 s and more, while there is nothing else to do."""
    for name in _LATER:
        import_module(name)


@dataclass(frozen=True, slots=True)
class Planned:
    """A run that is ready to be scored.

    Attributes:
        run: Its id.
        chunks: The chunks to score.
        reused: Row scores that the store has already.
        to_compute: Row scores to compute.
        waves: In how many waves judges score, where they may stop before all is judged; else 0.
        judges: Keys of the enrolled judges that are to be asked about rows.
    """

    run: str
    chunks: tuple[Chunk, ...]
    reused: int
    to_compute: int
    waves: int = 0
    judges: tuple[str, ...] = ()


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
    trial_rows: str = ALL_ROWS,
    turns: str = ALL_TURNS,
    limits: Limits | None = None,
    workers: Mapping[Lane, int] | None = None,
    origin: Mapping[str, str] | None = None,
    lasting: bool = False,
    canaries: str | None = None,
    policy: Policy | None = None,
    in_waves: bool = False,
) -> Planned:
    """Create a run: its folder and record, its database, its plan and its chunks.

    If planning fails, the run's record has the error.

    Args:
        choice: The evaluators of the request; those that do not apply to the dataset are dropped.
        model_keys: Only the rows of these models; all when empty.
        processes: Processes of the cpu lane.
        config: The request as JSON, for the record.
        trials: Repetitions per row of evaluators that ask a judge.
        trial_rows: The rows that are repeated: ``all``, ``auto``, a number or a share of them.
        turns: The turns of conversations that judges are asked about.
        workers: Workers online by lane.
        origin: What the record says of where the run's history is kept.
        lasting: The workers stay from chunk to chunk.
        canaries: File of the canaries.
        policy: The gate's policy; the default one if none is given.
        in_waves: Cut what judges score into waves, after each of which they may stop.
    """
    policy = policy or load_policy(DEFAULT)
    loaded.require_models([*model_keys, *named_models(choice.evaluators)])
    choice = applicable_to(choice, loaded.path)
    jobs = make_jobs(choice.evaluators, settings, trials=trials, trial_rows=trial_rows, turns=turns)
    canary_dataset = load_canaries(store, canaries, jobs)[0] if canaries else ""
    record = _record(loaded, jobs, settings, config) | {
        "left_out": dict(choice.left_out),
        "embedder": embedder_in_words(choice, settings),
        "policy": policy.to_json(),
        "workers": {str(lane): online for lane, online in (workers or {}).items()},
        **(origin or {}),
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
            keep_identity(store, job)
        with open_run(store, run, create=True) as connection:
            connection.execute("BEGIN")  # else every statement waits for the disk
            needs = plan(connection, store, jobs, model_keys)
            connection.execute("COMMIT")
            named = {job.evaluator for job in jobs} - choice.unnamed
            register_jobs(connection, needs, policy, named)
            if after_change := reused_after_change(connection, store, needs, settings):
                run.update({JUDGES: after_change})
            waves = order_in_waves(connection, jobs, loaded.digest) if in_waves else 0
            cutting = partial(cut, connection, jobs, store, run, processes=processes, workers=workers, lasting=lasting)
            if waves:  # the lanes without a judge are scored beside the first wave
                chunks = cutting(lanes=[lane for lane in LANES if lane != "judge"])
                for wave in range(waves):
                    chunks += cutting(lanes=("judge",), part=wave_part(wave), wave=wave)
            else:
                chunks = cutting()
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
        waves=waves,
        judges=_enrolled_judges(store, needs, settings),
    )


def plan_further_trials(
    store: Store, run: Run, *, processes: int, workers: Mapping[Lane, int] | None = None, lasting: bool = False
) -> Planned:
    """Plan the further trials of rows that are chosen by what their first trial said, once that is scored.

    Nothing is drawn by chance: a run that was killed and is started again judges the same rows again. The arguments are
    those of :func:`plan_run`.

    Returns:
        The second part of the plan, without chunks where there is none.
    """
    _, jobs = read_jobs(run.plan / JOBS)
    if not any(job.samples for job in jobs):
        return Planned(run.id, (), 0, 0)
    store.fetch_unscored(run)
    with open_run(store, run) as connection:
        again = two_phase_jobs(connection, jobs)
        if not again:
            return Planned(run.id, (), 0, 0)
        gather(connection, store, run, jobs, only={job.evaluator_id for job in again})
        find_flips(connection)
        found = [plan_pairs(connection, store, job, reads_ids(jobs)[job.evaluator_id]) for job in again]
        places: dict[str, Any] = {"processes": processes, "workers": workers, "lasting": lasting}
        chunks = cut(connection, again, store, run, part="trials", **places)
    return _planned_part(store, run, chunks, found)


def plan_flip_causes(
    store: Store, run: Run, *, processes: int, workers: Mapping[Lane, int] | None = None, lasting: bool = False
) -> Planned:
    """Plan the rows that tell whose flips they are, once the pairs that are judged again are known.

    Returns:
        This part of the plan, without chunks where there is none; the arguments are those of :func:`plan_run`.
    """
    _, jobs = read_jobs(run.plan / JOBS)
    with open_run(store, run) as connection:
        attributed = attributable_jobs(connection, jobs)
        make_third_rows(connection, attributed)
        store.sync(store.scores(job.evaluator, job.config) for job in attributed)
        found = [plan_third_rows(connection, store, job) for job in attributed]
        places: dict[str, Any] = {"processes": processes, "workers": workers, "lasting": lasting}
        chunks = cut_third_rows(connection, attributed, store, run, **places)
    return _planned_part(store, run, chunks, found)


def _planned_part(store: Store, run: Run, chunks: tuple[Chunk, ...], found: Iterable[tuple[int, int]]) -> Planned:
    """Return a later part of a plan from how many scores its jobs want and lack, and give its chunks to other hosts."""
    if chunks:
        store.share_plan(run)
    wanted, missing = (sum(counts) for counts in zip((0, 0), *found, strict=True))
    return Planned(run.id, chunks, wanted - missing, missing)


def _enrolled_judges(store: Store, needs: Sequence[Need], settings: Settings) -> tuple[str, ...]:
    """Return the keys of the enrolled judges, and of juries with such, that are to be asked about rows."""
    enrolled = set(enrolled_keys(store)) if settings.judges else set()
    if not enrolled:
        return ()
    ctx = EvalContext(settings)
    asking = [need.job.build() for need in needs if need.to_compute and need.job.lane == "judge"]
    asked = {key for evaluator in asking if (key := judge_of(evaluator, ctx))}
    return tuple(
        judge.key
        for judge in settings.judges
        if judge.key in asked and any(judge_key(member) in enrolled for member in members_of(judge))
    )


def watch_judges(
    store: Store,
    run: Run,
    settings: Settings,
    judges: Sequence[str],
    *,
    stop: bool,
    limits: Limits | None = None,
    part: str = "",
) -> Mapping[str, Any]:
    """Check the enrolled judges of a run that were not checked of late, record how they stand, and return that.

    Args:
        stop: Do not put rows to a judge that has changed.
        part: What makes it another check of the same day; ``""`` for the day's first.
    """
    return watch(store, run, settings, judges, stop=stop, limits=limits or Limits(), part=part)


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
        "cases_digest": loaded.cases_digest,
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

    Where an earlier run analysed the same scores in the same way, its means, slices and flips come with them, and the
    steps that would compute these leave them as they are.
    """
    _, jobs = read_jobs(run.plan / JOBS)
    store.fetch_unscored(run)
    with open_run(store, run) as connection:
        identity = analysis_digest(connection, store, run, jobs)
        earlier = earlier_analysis(store, run, identity)
        if earlier is None or not take_over(connection, earlier.run, MEANS):
            run.update({ANALYSIS: {"digest": identity}}, tell=False)
            return gather(connection, store, run, jobs)
        told = known(earlier.record) | {"of": earlier.run.id}
        run.update({ANALYSIS: told, "slices": earlier.record["slices"]}, tell=False)
        ((count,),) = connection.execute("SELECT count(*) FROM scores").fetchall()
        return int(count)


def _taken_over(run: Run) -> bool:
    """Return whether a run has the means, slices and flips of an earlier one."""
    return bool(known(run.read()).get("of"))


def aggregate_scores(store: Store, run: Run) -> int:
    """Compute means, intervals and verdicts, and return the number of aggregates computed."""
    if _taken_over(run):
        return 0
    with open_run(store, run) as connection:
        lines = aggregate(connection)
        stopped = WaveOutcome.of(run.read())
        if stopped and stopped.early:
            give_valid_intervals(connection, stopped.wave, policy_of(run))
        measure_trials(connection)
        return lines


def measure_slices(store: Store, run: Run, *, names: Sequence[str] = ()) -> int:
    """Measure every metric by slice, record the columns, and return the number of values measured.

    Args:
        names: Columns to slice by; all that suit when empty.
    """
    if _taken_over(run):
        return 0
    with open_run(store, run) as connection:
        chosen, lines = find_slices(connection, names=names)
    run.update({"slices": {"columns": list(chosen.columns), "left_out": dict(chosen.left_out)}}, tell=False)
    return lines


def detect_flips(store: Store, run: Run) -> int:
    """Find the perturbed rows that stand on the other side of a threshold, and return their number."""
    if _taken_over(run):
        return 0
    with open_run(store, run) as connection:
        ((copies,),) = connection.execute("SELECT count(*) FROM relationships").fetchall()
        return find_flips(connection) if copies else 0


def attribute_flips(store: Store, run: Run) -> int:
    """Find out whose flips they are, the model's or the judge's, and return the number of lines that say so."""
    _, jobs = read_jobs(run.plan / JOBS)
    with open_run(store, run) as connection:
        return find_flip_causes(connection, store, attributable_jobs(connection, jobs))


def compare_with_baseline(store: Store, run: Run, against: str | None) -> None:
    """Find out what changed since an earlier run, and record it in a few words.

    Args:
        against: The earlier run, as :func:`leadline.tasks.compare.run_changes.find_changes` takes it.
    """
    find_changes(store, run, against)
    with open_run(store, run, read_only=True) as connection:
        changes = read_changes(connection)
    if changes is not None:
        run.update({"against": changes.baseline.run, "changed": changes.summary}, tell=False)


def correct_scores(store: Store, run: Run, set_name: str | None = None, gate_on: GateOn = "policy") -> int:
    """Put people's labels beside the scores, and return the number of models and metrics that have some.

    Args:
        set_name: The only set of labels that counts; by default all together.
        gate_on: What decides metrics that ask a judge: ``judge``, ``corrected``, or what the policy says of each.
    """
    with open_run(store, run) as connection:
        return correct_run(connection, store, run, set_name, gate_on)


def correct_again(store: Store, run: Run) -> int:
    """Put people's labels beside the scores of a run that has ended, as it asked for; its gate stays as it is.

    Returns:
        Number of models and metrics that have labels.
    """
    asked = run.read().get("config") or {}
    with open_run(store, run) as connection:
        lines = correct_run(connection, store, run, asked.get("labels"), None)
        keep_points(connection, store, run)
    store.share_results(run)
    return lines


def detect_problems(store: Store, run: Run) -> dict[str, int]:
    """Find problems, record how many are the models' and how many the instrument's, and return them by severity.

    Where the means are an earlier run's, and nothing else has a say in what is found, its insights come with them.
    """
    with open_run(store, run) as connection:
        plain, analysis = is_plain(connection), known(run.read())
        source = analysis.get("of", "") if plain and analysis.get("plain") else ""
        if source and take_over(connection, store.run(source), FINDINGS):
            found = count_problems(connection)
        else:
            source = ""
            found = find_problems(connection, policy_of(run), ParquetVectors(store), notice_replies(store, run))
        told = analysis | {"plain": plain, "findings_of": source}
        run.update({ANALYSIS: told, "problems_by_fault": tally_run(connection)}, tell=False)
    return found


def derive_insights(store: Store, run: Run) -> int:
    """Find insights, and return the number of those found."""
    if known(run.read()).get("findings_of"):
        return 0
    with open_run(store, run) as connection:
        return find_insights(connection, policy_of(run))


def policy_of(run: Run) -> Policy:
    """Return the gate's policy of a run, which its record contains."""
    return Policy.from_json(run.read()["policy"])


def chosen_by_hand(run: Run) -> bool:
    """Return whether somebody chose the evaluators of a run, by id or by a suite."""
    asked = run.read().get("config") or {}
    return bool(asked.get("suite") or asked.get("evaluators"))


def decide_gate(store: Store, run: Run, *, fail_on: str, min_coverage: float | None) -> Decision:
    """Decide whether the run is good enough, and record the decision.

    Args:
        fail_on: ``high``, ``medium`` or ``never``.
        min_coverage: Least share of applicable rows that must be scored, per evaluator and model; the policy's if it
            is not given.
    """
    with open_run(store, run) as connection:
        decision = decide(
            connection,
            policy_of(run),
            fail_on=fail_on,
            min_coverage=min_coverage,
            chosen=chosen_by_hand(run),
            run=run.id,
        )
    answers = [asdict(answer) for answer in decision.answers]
    run.update({"gate": decision.gate, "gate_reason": decision.reason, "questions": answers}, tell=False)
    return decision


def publish_results(store: Store, run: Run, output: Path | None) -> Published:
    """Write the report and the other results, then drop what only planning and scoring needed.

    Args:
        output: Folder for the results; by default the run's own in the store.
    """
    with open_run(store, run) as connection:
        record = run.read()
        published = publish(connection, run, record, output=output)
        run.update({ANALYSIS: known(record) | {"page": dict(published.page)}}, tell=False)
        keep_points(connection, store, run)
        for table in ("keys", "reads", "again", "plan", "to_compute", "waves", "third_rows"):
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
    """Return the address of the report: the folder that was asked for, or else the store, which may be a bucket."""
    return run.report if published.folder == run.results else str(published.report)


def count_scores(store: Store, run: Run) -> dict[str, int]:
    """Count the scores by status, and record the counts."""
    with open_run(store, run, read_only=True) as connection:
        counted = dict(connection.execute("SELECT status, count(*) FROM scores GROUP BY status").fetchall())
    counts = {status: int(counted.get(status, 0)) for status in ("scored", "unscored", "not_applicable")}
    run.update({"counts": counts}, tell=False)
    return counts


def count_judge_calls(store: Store, run: Run) -> dict[str, Any]:
    """Sum up the run's judge calls, and record the sums if there were any."""
    ledger = read_ledger(store)
    parts = ledger.totals(run.id)
    total = {name: value for name, value in asdict(add_up(run.id, parts)).items() if name not in ("run", "evaluator")}
    counted = total | {"made_again": ledger.made_again(run.id)}
    if counted["asked"]:
        by_evaluator = [{name: value for name, value in asdict(part).items() if name != "run"} for part in parts]
        run.update({"judge_calls": counted | {"by_evaluator": by_evaluator}}, tell=False)
    return counted
