"""The waves in which judges score a run's cases, drawn before any score is looked at; and what came of them.

An original with all its copies, and all models' rows of them, is judged as one. Their order is that of a digest of the
dataset and the original's key: never the dataset's own, which may be sorted, and the same for every run, so that a run
that goes on from another extends it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from leadline.tasks.analyse.clusters import perturbation_clusters
from leadline.tasks.db import lines_shown, sql
from leadline.tasks.ground.files import digest
from leadline.tasks.plan.jobs import EvaluatorJob
from leadline.tasks.plan.planner import reads_ids
from leadline.tasks.stopping.looks import LEVEL, Outcome

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


MOST_WAVES: Final = 20
LEAST_CLUSTERS: Final = 25
"""Clusters of a wave, at least."""
LEAST_AT_FIRST: Final = 50
"""Clusters of the first wave, at least."""


def number_of_waves(clusters: int) -> tuple[int, int]:
    """Return into how many parts clusters are divided, and how many of the first of these are one wave.

    Args:
        clusters: Number of clusters.
    """
    parts = max(1, min(MOST_WAVES, clusters // LEAST_CLUSTERS))
    return parts, min(parts, -(-LEAST_AT_FIRST * parts // max(1, clusters)))


def order_in_waves(connection: DuckDBPyConnection, jobs: Sequence[EvaluatorJob], dataset: str) -> int:
    """Fill the table ``waves`` with the rows that judges are to score, and return the number of waves.

    Of equal rows, which are computed once, the one of the earliest wave stands for all in ``to_compute``.

    Args:
        connection: A connection on which :func:`leadline.tasks.plan.planner.plan` has run.
        jobs: The evaluators of the run.
        dataset: Digest of the dataset.
    """
    judged = [job for job in jobs if job.lane == "judge" and not job.error]
    seed = digest([dataset, "stop-v1"])
    connection.register("families", perturbation_clusters(connection))
    connection.execute(sql("stopping/waves"), {"evaluators": [job.evaluator_id for job in judged], "seed": seed})
    connection.unregister("families")
    (clusters,) = connection.execute("SELECT coalesce(max(place) + 1, 0) FROM waves").fetchall()[0]
    if not clusters:
        return 0
    parts, first = number_of_waves(clusters)
    connection.execute(sql("stopping/number_waves"), {"waves": parts, "clusters": clusters, "joined": first - 1})
    reads = reads_ids(jobs)
    columns = {
        "evaluator_id": [job.evaluator_id for job in judged],
        "reads_id": [reads[job.evaluator_id] for job in judged],
    }
    with lines_shown(connection, "reading", columns):
        connection.execute(sql("stopping/first_rows"))
        connection.execute(sql("stopping/replace_rows"))
    return parts - first + 1


def wave_part(wave: int) -> str:
    """Return the name of the part of a run's plan that has a wave's rows."""
    return f"w{wave:02d}"


def wave_of(part: str) -> int:
    """Return the wave whose rows a part of a run's plan has; 0 for a part that is none, which goes beside the first."""
    return int(part[1:]) if part[:1] == "w" and part[1:].isdigit() else 0


@dataclass(frozen=True, slots=True)
class WaveOutcome:
    """The outcome of judging in waves, as a run's record keeps it.

    Attributes:
        decision: ``pass`` or ``fail`` where that was decided; ``open`` where all was judged.
        wave: The last wave that was judged.
        waves: Number of waves.
        clusters: Cases judged, each with its copies.
        all_clusters: All cases.
        level: Chance that the decision is wrong.
        against: Id of the run that it was compared with, ``""`` without.
        gate_asked: Whether the gate was asked.
        failed: Metrics that decided a failure.
        certain: Whether they ask no judge, so that no verdict can change it.
        open: Metrics that kept it going.
        open_ends: What else can fail the gate, so that means could not decide a pass.
        saved_usd: What judging the rest would have cost; ``None`` where prices are unknown.
    """

    decision: Outcome
    wave: int
    waves: int
    clusters: int
    all_clusters: int
    level: float = LEVEL
    against: str = ""
    gate_asked: bool = True
    failed: tuple[str, ...] = ()
    certain: bool = False
    open: tuple[str, ...] = ()
    open_ends: str = ""
    saved_usd: float | None = None

    @property
    def early(self) -> bool:
        """True if some cases were not judged."""
        return self.clusters < self.all_clusters

    @classmethod
    def of(cls, record: dict[str, Any]) -> WaveOutcome | None:
        """Return the outcome in a run's record, if it was judged in waves."""
        found = record.get("stopping")
        if not isinstance(found, dict):
            return None
        known = {field.name: found[field.name] for field in fields(cls) if field.name in found}
        lists = {name: tuple(found.get(name) or ()) for name in ("failed", "open")}
        return cls(**{**known, **lists})
