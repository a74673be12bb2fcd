"""The jobs of a run, as they are planned and sent to workers: evaluators in one configuration, and chunks of rows.

A chunk is large enough to be worth a task run here or a trip to a worker.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from leadline.evaluators.core import EvalContext, Evaluator, Lane, planned
from leadline.evaluators.data import RowField
from leadline.evaluators.ground import ErrorCode, LeadlineError, ModelRef, UsageError
from leadline.evaluators.judge_client.budget import Limits, TeamBudget
from leadline.evaluators.models.weights import absolute, is_directory
from leadline.evaluators.settings import Settings, judge_from
from leadline.tasks.db import literal, sql
from leadline.tasks.ground.files import digest, write_json
from leadline.tasks.plan.selection import load_own_evaluators
from leadline.tasks.plan.trial_rows import ALL_ROWS, ALL_TURNS
from leadline.tasks.store.store import Run, Store

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


QUARANTINED: Final = "quarantined.json"
"""File of a plan with the judges that rows are not put to."""


@dataclass(frozen=True, slots=True)
class EvaluatorJob:
    """One evaluator with its parameters.

    Attributes:
        evaluator_id: Its number within the run.
        evaluator: Its id.
        params: All its parameters.
        identity: Everything that its scores depend on, apart from the row and the trial.
        config: Digest of the identity; names the folder of its segments.
        lane: Where it runs.
        error: Why it cannot run at all, or ``""``.
        trials: How often each row is scored.
        trial_rows: Which rows get more than the first trial, see
            :mod:`leadline.tasks.plan.planner`; ``"all"`` for every row.
        turns: Which turns of conversations are scored: ``all``, ``last``, or ``sample:N``.
    """

    evaluator_id: int
    evaluator: str
    params: Mapping[str, Any]
    identity: Mapping[str, Any]
    config: str
    lane: Lane
    error: str = ""
    trials: int = 1
    trial_rows: str = ALL_ROWS
    turns: str = ALL_TURNS

    def build(self) -> Evaluator:
        """Return the evaluator itself.

        Raises:
            UsageError: It comes from a file that has changed since the run was planned.
        """
        source = str(self.identity.get("source", ""))
        kind = planned(self.evaluator, source)
        if source and source != kind.source_digest:
            raise UsageError(
                f"The file of {self.evaluator} has changed since the run was planned.",
                hint="Start the run again.",
                code=ErrorCode.PLAN_FILE_CHANGED,
            )
        return kind(kind.parameters.build(self.evaluator, dict(self.params)))

    @property
    def samples(self) -> bool:
        """True where further trials are for a sample of the rows, and count for nothing but the judge's noise."""
        return self.trial_rows != ALL_ROWS

    @property
    def reads(self) -> tuple[RowField, ...]:
        """The fields that its scores depend on."""
        return self.build().reads


def make_jobs(
    evaluators: Sequence[Evaluator],
    settings: Settings,
    *,
    trials: int = 1,
    trial_rows: str = ALL_ROWS,
    turns: str = ALL_TURNS,
) -> tuple[EvaluatorJob, ...]:
    """Number the evaluators and fix the identity of their scores.

    An evaluator whose identity cannot be determined gets a job with an error, so that the others go on.

    Args:
        trials: Repetitions per row of evaluators that ask a judge; the others are deterministic.
        trial_rows: The rows that are repeated: ``all``, ``auto``, a number or a share of them.
        turns: The turns of conversations that judges are asked about: ``all``, ``last``, or ``sample:N``.
    """
    ctx = EvalContext(settings)
    jobs = (_make_job(number, evaluator, ctx, trials, trial_rows) for number, evaluator in enumerate(evaluators))
    return tuple(replace(job, turns=turns) if job.lane == "judge" else job for job in jobs)


def _make_job(number: int, evaluator: Evaluator, ctx: EvalContext, trials: int, trial_rows: str) -> EvaluatorJob:
    error = ""
    params = evaluator.params.model_dump(mode="json")
    try:
        identity = evaluator.identity(ctx)
        params = _portable(params, evaluator.models(ctx))
    except LeadlineError:
        raise
    except Exception as failure:
        identity, error = {"evaluator": evaluator.spec.id}, f"{type(failure).__name__}: {failure}"
    return EvaluatorJob(
        evaluator_id=number,
        evaluator=evaluator.spec.id,
        params=params,
        identity=identity,
        config=digest(identity),
        lane=evaluator.lane,
        error=error,
        trials=trials if evaluator.spec.judge else 1,
        trial_rows=trial_rows if evaluator.spec.judge and trials > 1 else ALL_ROWS,
    )


def _portable(params: Mapping[str, Any], models: Sequence[ModelRef]) -> dict[str, Any]:
    """Return parameters that mean the same in any working directory: folders of weights as absolute paths."""
    folders = {ref.source for ref in models if is_directory(ref)}
    paths = {name: absolute(value) for name, value in params.items() if folders and isinstance(value, str) and value}
    return dict(params) | {name: path for name, path in paths.items() if str(Path(path).resolve()) in folders}


def keep_identity(store: Store, job: EvaluatorJob) -> None:
    """Write beside the segments of a configuration what it consists of; the file's time says when it was last used."""
    path = store.scores(job.evaluator, job.config) / "config.json"
    if path.exists():
        with suppress(OSError):  # another user's
            os.utime(path)
    elif not job.error:
        write_json(path, job.identity)
        store.push([path])


def write_jobs(
    path: Path, jobs: Sequence[EvaluatorJob], settings: Settings, limits: Limits | None = None, canaries: str = ""
) -> None:
    """Write the file from which workers know a run's jobs, settings, budget for judges and canaries.

    API keys are not in it: a worker takes them from its own environment.

    Args:
        canaries: Digest of the canaries' dataset, ``""`` if there are none.
    """
    document = {
        "settings": settings_record(settings),
        "limits": asdict(limits or Limits()),
        "canaries": canaries,
        "jobs": [asdict(job) for job in jobs],
    }
    write_json(path, document)


def read_jobs(path: Path) -> tuple[Settings, tuple[EvaluatorJob, ...]]:
    """Read the settings and the jobs from the file of :func:`write_jobs`."""
    document = json.loads(path.read_text(encoding="utf-8"))
    values = document["settings"]
    judges = tuple(judge_from(judge) for judge in values.get("judges", ()))
    lists = {name: tuple(values.get(name, ())) for name in ("evaluator_files", "offline_for")}
    settings = Settings(**values | lists | {"judges": judges})
    load_own_evaluators(settings)
    return settings, tuple(EvaluatorJob(**job) for job in document["jobs"])


def read_limits(path: Path) -> Limits:
    """Read the budget for judge calls from the file of :func:`write_jobs`."""
    limits = json.loads(path.read_text(encoding="utf-8")).get("limits", {})
    team = limits.pop("team", None)
    return Limits(**limits, team=TeamBudget(**team) if team else None)


def read_canary_dataset(path: Path) -> str:
    """Return the digest of the dataset of a run's canaries, ``""`` if it has none."""
    return str(json.loads(path.read_text(encoding="utf-8")).get("canaries", ""))


def settings_record(settings: Settings) -> dict[str, Any]:
    """Return a run's settings as JSON."""
    values = {field.name: getattr(settings, field.name) for field in fields(settings)}
    return values | {"judges": [judge.model_dump(mode="json") for judge in settings.judges]}


def quarantined_judges(run: Run) -> Mapping[str, str]:
    """Return the judges that rows of a run are not put to, each with the reason, by key."""
    try:
        return dict(json.loads((run.plan / QUARANTINED).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {}


LANES: Final[tuple[Lane, ...]] = ("gpu", "judge", "cpu")

MAX_CHUNKS: Final = 250
"""Chunks per lane at most, whatever the dataset's size: Prefect's cost is per task run."""

MAX_SHARDS: Final = 80
"""The same for chunks that go to Prefect workers: all wait at the same time, to be shared out among them."""

CHUNK_ROWS: Final[dict[Lane, tuple[int, int]]] = {"cpu": (500, 20_000), "gpu": (100, 500), "judge": (50, 250)}
"""Least and greatest number of rows per chunk on this machine, as long as :data:`MAX_CHUNKS` allows it."""


class Trip(NamedTuple):
    """Row scores in a chunk for Prefect workers, each of which takes several in a process of 5 to 10 s to start.

    Attributes:
        least: Row scores below which a chunk is not split (some 10 s of work).
        most: Row scores above which it is, so that a lost worker costs minutes only.
        shares: Chunks for each worker online, if they are not too small: a cpu worker may run several processes.
    """

    least: int
    most: int
    shares: int


TRIPS: Final[dict[Lane, Trip]] = {
    "cpu": Trip(20_000, 400_000, 4),
    "gpu": Trip(2_000, 50_000, 2),
    "judge": Trip(200, 4_000, 2),
}


@dataclass(frozen=True, slots=True)
class Chunk:
    """The rows that one task scores: a window of one lane's rows. Plain values, so that it can travel as JSON.

    Attributes:
        store: The store, as ``Store.open`` takes it on any host: a path or a URL.
        run: Id of the run.
        dataset: Digest of the dataset.
        number: Position among the lane's chunks.
        first: First row.
        last: Last row, inclusive.
        rows: Rows with something to compute.
        scores: Row scores to compute.
        part: Which part of the run's plan it is from; ``""`` where the plan is one.
    """

    store: str
    run: str
    dataset: str
    lane: Lane
    number: int
    first: int
    last: int
    rows: int
    scores: int
    part: str = ""

    @property
    def name(self) -> str:
        """Name of the chunk within its run."""
        return f"{lane_file(self.lane, self.part)}-{self.number:04d}"

    @property
    def plan_file(self) -> str:
        """Name of the file with the rows of its lane in the run's plan."""
        return f"{lane_file(self.lane, self.part)}.parquet"


def lane_file(lane: Lane, part: str = "") -> str:
    """Return the name, without its ending, of the file with the rows of a lane in a part of a run's plan.

    Args:
        part: The part; ``""`` where the plan is one.
    """
    return f"{lane}-{part}" if part else lane


def cut(
    connection: DuckDBPyConnection,
    jobs: Sequence[EvaluatorJob],
    store: Store,
    run: Run,
    *,
    processes: int,
    workers: Mapping[Lane, int] | None = None,
    lasting: bool = False,
    part: str = "",
    lanes: Sequence[Lane] = LANES,
    wave: int | None = None,
    dataset: str = "",
) -> tuple[Chunk, ...]:
    """Write what is to compute, one Parquet file per lane ordered by row, and return its chunks.

    Args:
        connection: A connection on which :func:`leadline.tasks.plan.planner.plan` has run.
        run: The run; its plan folder gets the files, and its record names the dataset.
        processes: Processes of the cpu lane; it gets about four chunks for each, if they are worth it.
        workers: Workers online by lane; the chunks of these lanes are larger.
        lasting: The workers stay, so that a chunk pays no start: they are places for chunks of the usual size.
        part: Name of this part of the plan, where a run is planned in several.
        wave: Only the rows of this wave; see :mod:`leadline.tasks.stopping.waves`.
        dataset: Digest of the dataset that the rows are from; by default the run's.
    """
    run.plan.mkdir(parents=True, exist_ok=True)
    dataset = dataset or run.read()["dataset"]
    chunks: list[Chunk] = []
    only = "" if wave is None else f"AND row_id IN (SELECT row_id FROM waves WHERE wave = {wave:d})"
    for lane in lanes:
        ids = [job.evaluator_id for job in jobs if job.lane == lane]
        connection.execute(sql("plan/lane").format(only=only), [ids])
        ((rows, scores),) = connection.execute("SELECT coalesce(max(position) + 1, 0), count(*) FROM lane").fetchall()
        if not rows:
            continue
        connection.execute(sql("plan/write_lane").format(file=literal(run.plan / f"{lane_file(lane, part)}.parquet")))
        served = (workers or {}).get(lane, 0)
        if served and not lasting:
            size = shard_size(lane, rows, scores, served)
        else:
            size = local_chunk_size(lane, rows, served or {"cpu": processes}.get(lane, 1))
        windows = connection.execute(sql("plan/windows").format(size=size)).fetchall()
        chunks += [replace(Chunk(store.location, run.id, dataset, lane, *window), part=part) for window in windows]
    return tuple(chunks)


def local_chunk_size(lane: Lane, rows: int, places: int) -> int:
    """Return the number of rows in a chunk that is scored on this machine, or by a worker that stays.

    Args:
        places: Places at which chunks are scored at a time, such as processes of the cpu lane.
    """
    least, most = CHUNK_ROWS[lane]
    size = min(max(-(-rows // (4 * places)), least), most)
    return max(size, -(-rows // MAX_CHUNKS))


def shard_size(lane: Lane, rows: int, scores: int, workers: int) -> int:
    """Return the number of rows in a chunk that goes to a worker.

    There are as many chunks as the workers can share, more if they would be too large, and fewer if too small.

    Args:
        scores: Row scores to compute in them.
    """
    trip = TRIPS[lane]
    shares = min(trip.shares * workers, -(-scores // trip.least))
    count = min(max(shares, -(-scores // trip.most), 1), MAX_SHARDS, rows)
    return -(-rows // count)
