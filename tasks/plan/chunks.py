"""Cutting the scores to compute into chunks, each large enough to be worth a task run here or a trip to a worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from leadline.evaluators.core import Lane
from leadline.tasks.db import literal, sql
from leadline.tasks.plan.jobs import EvaluatorJob
from leadline.tasks.store.store import Run, Store

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

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
        jobs: The evaluators of the run.
        run: The run; its plan folder gets the files, and its record names the dataset.
        processes: Processes of the cpu lane; it gets about four chunks for each, if they are worth it.
        workers: Workers online by lane; the chunks of these lanes are larger.
        lasting: The workers stay, so that a chunk pays no start: they are places for chunks of the usual size.
        part: Name of this part of the plan, where a run is planned in several.
        lanes: Only these lanes.
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
        rows: Rows with something to compute.
        places: Places at which chunks are scored at a time, such as processes of the cpu lane.
    """
    least, most = CHUNK_ROWS[lane]
    size = min(max(-(-rows // (4 * places)), least), most)
    return max(size, -(-rows // MAX_CHUNKS))


def shard_size(lane: Lane, rows: int, scores: int, workers: int) -> int:
    """Return the number of rows in a chunk that goes to a worker.

    There are as many chunks as the workers can share, more if they would be too large, and fewer if too small.

    Args:
        rows: Rows with something to compute.
        scores: Row scores to compute in them.
        workers: Workers online.
    """
    trip = TRIPS[lane]
    shares = min(trip.shares * workers, -(-scores // trip.least))
    count = min(max(shares, -(-scores // trip.most), 1), MAX_SHARDS, rows)
    return -(-rows // count)
