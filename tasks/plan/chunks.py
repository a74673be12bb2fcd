"""How many rows a chunk holds: enough to be worth a task run here, or a trip to a worker."""

from __future__ import annotations

from typing import Final, NamedTuple

from leadline.evaluators.core.base import Lane

MAX_CHUNKS: Final = 250
"""Chunks per lane at most, whatever the dataset's size: Prefect's cost is per task run."""

MAX_SHARDS: Final = 100
"""The same for chunks that go to workers, each of which is a flow run and takes two task runs."""

CHUNK_ROWS: Final[dict[Lane, tuple[int, int]]] = {"cpu": (500, 20_000), "gpu": (100, 500), "judge": (50, 250)}
"""Least and greatest number of rows per chunk on this machine, as long as :data:`MAX_CHUNKS` allows it."""


class Trip(NamedTuple):
    """What is worth a trip to a worker, which takes 5 to 10 s for a new process, and on gpu workers loads the model.

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


def local_chunk_size(lane: Lane, rows: int, processes: int) -> int:
    """Return how many rows a chunk of a lane holds on this machine."""
    least, most = CHUNK_ROWS[lane]
    shares = 4 * processes if lane == "cpu" else 4
    size = min(max(-(-rows // shares), least), most)
    return max(size, -(-rows // MAX_CHUNKS))


def shard_size(lane: Lane, rows: int, scores: int, workers: int) -> int:
    """Return how many rows a chunk of a lane holds that goes to a worker.

    There are as many chunks as the workers can share, more if they would be too large, and fewer if too small.

    Args:
        lane: The lane.
        rows: Rows to look at.
        scores: Row scores to compute in them.
        workers: Workers online.
    """
    trip = TRIPS[lane]
    shares = min(trip.shares * workers, -(-scores // trip.least))
    count = min(max(shares, -(-scores // trip.most), 1), MAX_SHARDS, rows)
    return -(-rows // count)
