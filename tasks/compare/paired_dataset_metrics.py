"""Metrics over whole datasets, such as F1: compared by resampling pairs of rows.

The interval is the paired bootstrap's: cases are drawn with replacement and both sides computed on the same draw
(Efron 1979). The test is the label swap, the permutation test for such metrics: if both models are equally good, which
of a case's two answers is whose is a matter of chance (Yeh, "More accurate tests for the statistical significance of
result differences", COLING 2000; sacreBLEU's ``--paired-ar``). Perturbed copies are drawn and swapped with their
original.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson

from leadline.evaluators.core import Evaluator, get
from leadline.tasks.compare.metric_choice import Pairing
from leadline.tasks.compare.options import Margins
from leadline.tasks.compare.run_pair import number_clusters
from leadline.tasks.db import sql
from leadline.tasks.statistics.bounded_mean import TAIL
from leadline.tasks.statistics.paired import SEED, PairedResult
from leadline.tasks.statistics.statistics import Interval

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from leadline.tasks.statistics.bounded_mean import Floats, Ints

    Numbers = Floats

log = logging.getLogger("leadline.compare")

_MOST_CELLS: Final = 4_000_000  # weights in memory at a time: 32 MB


@dataclass(frozen=True, slots=True)
class DatasetMetric:
    """A metric that is computed over all rows at once, on both sides, over the cases that both have a payload for."""

    baseline: float
    candidate: float
    margin: float
    cases: int
    measured: PairedResult


@dataclass(frozen=True, slots=True)
class Draws:
    """Pairs of payloads, with the number of cases that have them.

    Attributes:
        counts: Number of cases by pair of payloads.
        units: The cluster of each pair where cases are related; then pairs of different clusters are kept apart.
    """

    counts: Numbers
    units: Ints | None

    @property
    def groups(self) -> int:
        """Number of independent cases or clusters."""
        return int(self.counts.sum()) if self.units is None else int(self.units.max()) + 1

    def drawn(self, random: np.random.Generator, number: int) -> Numbers:
        """Return counts of ``number`` bootstrap samples, one a line."""
        if self.units is None:
            total = self.counts.sum()
            return random.multinomial(int(total), self.counts / total, size=number).astype(float)
        groups = self.groups
        times = random.multinomial(groups, [1 / groups] * groups, size=number)
        return times[:, self.units] * self.counts

    def swapped(self, random: np.random.Generator, number: int) -> Numbers:
        """Return the number of cases whose sides are swapped, for ``number`` random swaps."""
        if self.units is None:
            return random.binomial(self.counts.astype(int), 0.5, size=(number, len(self.counts))).astype(float)
        return random.integers(0, 2, size=(number, self.groups))[:, self.units] * self.counts


def compare_dataset_metrics(
    connection: DuckDBPyConnection, pairings: Sequence[Pairing], margins: Margins
) -> dict[str, DatasetMetric]:
    """Compare the metrics of one evaluator over the ``row_pairs``.

    Returns:
        The results by the metric's key, without metrics that are not defined for these cases.
    """
    ours, theirs = next((found.sides for found in pairings if found.sides), ({}, {}))
    (related,) = connection.execute("SELECT count(*) > 0 FROM families").fetchall()[0]
    unit = "coalesce(family, -1 - case_no::BIGINT)" if related else "0"
    statement = sql("compare/payloads").format(
        baseline_evaluator=ours["evaluator_id"], candidate_evaluator=theirs["evaluator_id"], unit=unit
    )
    lines = connection.execute(statement).fetchall()
    if not lines:
        return {}
    draws = Draws(
        counts=np.array([line[3] for line in lines], dtype=np.float64),
        units=_units([line[2] for line in lines]) if related else None,
    )
    try:
        kind = get(theirs["evaluator"])
        evaluator = kind(kind.parameters.build(theirs["evaluator"], json.loads(theirs["params"])))
        prepared = evaluator.prepare([orjson.loads(line[side]) for side in (0, 1) for line in lines])
        found = _resample(evaluator, prepared, draws)
    except Exception:
        log.exception("%s failed to compute its metrics of both sides", theirs["evaluator"])
        return {}
    out = {}
    for metric in (pairing.metric for pairing in pairings):
        resampled = found.get(metric.metric)
        if resampled is not None and np.isfinite(resampled.true).all():
            margin = margins.of(metric, float(resampled.true[0]))
            out[metric.metric] = _compared(resampled, draws, margin, higher_is_better=metric.higher_is_better)
    return out


def _units(names: list[int]) -> Ints:
    clusters = number_clusters(np.array([name if name >= 0 else -1 for name in names]))
    return np.arange(len(names)) if clusters is None else clusters


@dataclass(frozen=True, slots=True)
class Resampled:
    """One metric computed many times, candidate less baseline.

    Attributes:
        drawn: Differences in bootstrap samples.
    """

    true: Numbers
    drawn: Numbers
    swapped: Numbers


def _resample(evaluator: Evaluator, prepared: Any, draws: Draws) -> dict[str, Resampled]:
    random = np.random.default_rng(SEED)
    pairs = len(draws.counts)

    def compute(ours: Numbers, theirs: Numbers) -> dict[str, Numbers]:
        """Compute both sides; weights of the baseline's payloads and of the candidate's, a line each."""
        values = evaluator.aggregate(prepared, np.concatenate([ours, theirs]))
        return {key: np.stack(np.split(value, 2)) for key, value in values.items()}

    def weigh(swapped: Numbers, counts: Numbers) -> tuple[Numbers, Numbers]:
        kept = counts - swapped
        return np.hstack([kept, swapped]), np.hstack([swapped, kept])

    none = np.zeros((1, pairs))
    true = compute(*weigh(none, draws.counts))
    drawn: dict[str, list[Numbers]] = {key: [] for key in true}
    swapped: dict[str, list[Numbers]] = {key: [] for key in true}
    resamples = evaluator.resamples(prepared)
    block = max(1, _MOST_CELLS // (4 * pairs))
    for start in range(0, resamples, block):
        number = min(block, resamples - start)
        for found, sides in (
            (drawn, weigh(np.zeros((number, pairs)), draws.drawn(random, number))),
            (swapped, weigh(draws.swapped(random, number), draws.counts)),
        ):
            for key, (ours, theirs) in compute(*sides).items():
                found[key].append(theirs - ours)
    return {key: Resampled(true[key][:, 0], np.concatenate(drawn[key]), np.concatenate(swapped[key])) for key in true}


def _compared(found: Resampled, draws: Draws, margin: float, *, higher_is_better: bool) -> DatasetMetric:
    groups, cases = draws.groups, int(draws.counts.sum())
    sign = 1.0 if higher_is_better else -1.0
    ours, theirs = (float(value) for value in found.true)
    effect = sign * (theirs - ours)
    drawn = sign * found.drawn[np.isfinite(found.drawn)]
    swapped = found.swapped[np.isfinite(found.swapped)]
    interval, error = None, None
    if len(drawn) > 1 and groups > 1:
        low, high = (float(end) for end in np.quantile(drawn, [TAIL, 1 - TAIL]))
        if low < high:
            interval, error = Interval(min(low, effect), max(high, effect), "bootstrap"), float(drawn.std(ddof=1))
    seen = abs(effect) - 1e-9 * max(1.0, abs(effect))
    p = (int((np.abs(swapped) >= seen).sum()) + 1) / (len(swapped) + 1) if len(swapped) else None
    measured = PairedResult(
        n=cases,
        groups=groups,
        effect=effect,
        error=error,
        interval=interval,
        test="label swap" if p is not None else "",
        p=p,
        wins=0,
        losses=0,
    )
    return DatasetMetric(ours, theirs, margin, cases, measured)
