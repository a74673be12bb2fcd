"""The outcome of a run that was judged in waves, as its record keeps it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from leadline.tasks.stopping.looks import LEVEL, Outcome


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
