"""The costs of runs: judge calls, tokens and money by day, judge, evaluator, run, team or tag, and what was reused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from leadline.tasks.runs.run_index import RunLine
from leadline.tasks.runs.run_sentences import price

Judges: TypeAlias = Mapping[tuple[str, str], str]
"""The judge's model by run and evaluator."""

NOBODY: Final = "none named"


@dataclass(slots=True)
class CostLine:
    """Sums over judge calls and scores.

    Attributes:
        unknown_price: Answered calls without a known price.
        reused: Scores taken from the store; ``None`` where sums are of evaluators, of which records do not say it.
        computed: Scores computed, likewise.
    """

    name: str
    newest: RunLine
    runs: int = 0
    asked: int = 0
    answered: int = 0
    failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    unknown_price: int = 0
    reused: int | None = None
    computed: int | None = None

    @property
    def price(self) -> str:
        """The cost, with what is not known of it."""
        return price(self.cost_usd, self.answered, self.unknown_price)

    @property
    def reused_share(self) -> float | None:
        """Share of the scores that were taken from the store."""
        every = (self.reused or 0) + (self.computed or 0)
        return (self.reused or 0) / every if every else None

    def add(self, run: RunLine, counted: Mapping[str, Any], work: Mapping[str, int | None]) -> None:
        """Add a run, or the part of it that an evaluator asked."""
        self.runs += 1
        self.newest = max(self.newest, run, key=lambda line: (line.day, line.id))
        for name in ("asked", "answered", "failed", "input_tokens", "output_tokens", "unknown_price"):
            setattr(self, name, getattr(self, name) + int(counted.get(name) or 0))
        self.cost_usd += float(counted.get("cost_usd") or 0.0)
        for name in ("reused", "computed"):
            if (known := work.get(name)) is not None:
                setattr(self, name, (getattr(self, name) or 0) + known)


def _names(by: str, line: RunLine) -> tuple[str, ...]:
    """Return what a whole run counts for."""
    known: dict[str, tuple[str, ...]] = {
        "day": (line.day[:10],),
        "run": (line.id,),
        "team": (line.team or NOBODY,),
        "tag": line.tags or (NOBODY,),
    }
    return known.get(by, ())


def costs_by(by: str, runs: Sequence[RunLine], judges: Judges) -> list[CostLine]:
    """Return the sums over runs, the dearest first; by day and run the newest first.

    Args:
        by: ``day``, ``judge``, ``evaluator``, ``run``, ``team`` or ``tag``; a run with several tags counts for each.
        judges: Needed for ``judge`` only.
    """
    found: dict[str, CostLine] = {}
    for line, name, counted, work in _parts(by, runs, judges):
        found.setdefault(name, CostLine(name, line)).add(line, counted, work)
    if by in ("day", "run"):
        return sorted(found.values(), key=lambda one: one.name, reverse=True)
    return sorted(found.values(), key=lambda one: (-one.cost_usd, -one.answered, one.name))


def _parts(
    by: str, runs: Sequence[RunLine], judges: Judges
) -> Iterator[tuple[RunLine, str, Mapping[str, Any], Mapping[str, int | None]]]:
    """Yield what is added up, with the names of the sums."""
    for line in runs:
        if by in ("judge", "evaluator"):
            for part in line.judged.get("by_evaluator") or ():
                evaluator = str(part.get("evaluator") or "")
                name = evaluator if by == "evaluator" else judges.get((line.id, evaluator), NOBODY)
                yield line, name or NOBODY, part, {}
        for name in _names(by, line):
            yield line, name, line.judged, line.work


def all_costs(runs: Sequence[RunLine]) -> CostLine | None:
    """Return the sum over runs, ``None`` without any."""
    if not runs:
        return None
    total = CostLine("all", runs[0])
    for line in runs:
        total.add(line, line.judged, line.work)
    return total
