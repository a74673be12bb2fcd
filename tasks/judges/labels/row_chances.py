"""The chance with which each row of a run came into the samples that people were given.

Labels belong to texts, and an answer that did not change keeps its label in a later run. The answers of a run that did
not change are no random part of it, though: often they are the better ones. So a sample stands for a model of another
run only where hardly any of the answers that were drawn have changed there.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from leadline.tasks.judges.labels.judged_rows import JudgedRows
    from leadline.tasks.judges.labels.label_sets import LabelSample, SampledRow

MOST_CHANGED: Final = 0.05
"""Share of a sample's answers that may have changed in a run for which the sample stands."""

_Row: TypeAlias = tuple[str, str]
"""What people see of a row, and its model."""


@dataclass(frozen=True, slots=True)
class _Drawing:
    """One sample's chances of one model: in the order that ``seed`` names, by what is drawn and by its stratum."""

    seed: str
    by_key: Mapping[str, float]
    by_stratum: Mapping[str, float]

    def chance_of(self, row: SampledRow) -> float:
        """Return the chance of a row, which another sample may have drawn: then that of its stratum."""
        return self.by_key.get(row.key, self.by_stratum.get(row.stratum, 0.0))


@dataclass(frozen=True, slots=True)
class RowChance:
    """The drawing of one row.

    Attributes:
        chance: The chance with which any of the samples has the row, in (0, 1].
        seeds: Names of the random orders by which it was drawn.
    """

    chance: float
    seeds: frozenset[str]

    def with_other(self, other: RowChance) -> float:
        """Return the chance with which both rows were drawn: of the same random order, that of the rarer one."""
        return min(self.chance, other.chance) if self.seeds == other.seeds else self.chance * other.chance


def row_chances(judged: JudgedRows, samples: Sequence[LabelSample]) -> dict[_Row, RowChance]:
    """Return the drawing of each row of the samples that stand for a run, by key and model.

    Args:
        judged: The rows of the run that were judged.
    """
    drawings: defaultdict[str, list[_Drawing]] = defaultdict(list)
    for sample, model, rows in _standing(judged, samples):
        drawings[model].append(
            _Drawing(
                f"{sample.seed}/{model}",
                {row.key: row.chance for row in rows},
                {row.stratum: row.chance for row in rows},
            )
        )
    return {
        (row.key, row.model): _chance_of(row, drawings[row.model])
        for sample in samples
        for row in sample.rows
        if any(row.key in drawing.by_key for drawing in drawings[row.model])
    }


def holding_all(samples: Sequence[LabelSample], rows: set[_Row]) -> LabelSample | None:
    """Return a sample that has all of some rows, the smallest one.

    Args:
        rows: Keys and models of the rows.
    """
    holding = [sample for sample in samples if rows <= {(row.key, row.model) for row in sample.rows}]
    return min(holding, key=lambda sample: len(sample.rows), default=None)


def _standing(
    judged: JudgedRows, samples: Sequence[LabelSample]
) -> Iterator[tuple[LabelSample, str, list[SampledRow]]]:
    """Yield each model's rows of each sample, unless their answers have changed since."""
    keys: defaultdict[_Row, set[str]] = defaultdict(set)
    for case, model, key in zip(judged.cases, judged.models, judged.keys, strict=True):
        keys[case, model].add(key)
    for sample in samples:
        by_model: defaultdict[str, list[SampledRow]] = defaultdict(list)
        for row in sample.rows:
            by_model[row.model].append(row)
        for model, rows in by_model.items():
            here = [row for row in rows if (row.case, row.model) in keys]
            changed = sum(row.key not in keys[row.case, row.model] for row in here)
            if changed <= MOST_CHANGED * len(here):
                yield sample, model, rows


def _chance_of(row: SampledRow, drawings: Sequence[_Drawing]) -> RowChance:
    """Return the chance with which any sample has a row; of one random order the larger sample holds the smaller."""
    by_seed: defaultdict[str, list[float]] = defaultdict(list)
    for drawing in drawings:
        by_seed[drawing.seed].append(drawing.chance_of(row))
    missed = math.prod(1 - max(chances) for chances in by_seed.values())
    return RowChance(1 - missed, frozenset(by_seed))
