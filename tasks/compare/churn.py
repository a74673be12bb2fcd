"""Churn net of the judge's own noise: how many more verdicts changed than asking the judge twice changes.

The mean difference of two runs is not biased by noise, and its interval holds it. What noise distorts is the number of
cases that change sides. The estimators are those of flips under perturbation, see
:mod:`leadline.tasks.statistics.judge_noise`: from the trials of each case where both runs have several, else from those
rows of either run that were judged more than once. Equal answers whose trials are the same in both runs share one
stored
score: nothing changed, and no noise is in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from leadline.tasks.compare.results import Churn, MetricInfo
from leadline.tasks.compare.run_pair import SIDES, Values
from leadline.tasks.db.statements import sql
from leadline.tasks.statistics.intervals import effective_number
from leadline.tasks.statistics.judge_noise import NetRate, PairNoise, net_of_sample, net_rate, pair_noise

if TYPE_CHECKING:
    import numpy.typing as npt
    from duckdb import DuckDBPyConnection

    Floats: TypeAlias = npt.NDArray[np.float64]
    Booleans: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Side:
    """The trials of one side.

    Attributes:
        trials: Passes (1) and fails (0) by case and trial; not a number where there is none.
        weights: For how many rows each stands as a sample of the judge's noise.
        sampled: Only some rows were judged again.
    """

    trials: Floats
    weights: Floats
    sampled: bool

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Number of trials by case."""
        return np.asarray((~np.isnan(self.trials)).sum(axis=1), dtype=np.int64)

    @property
    def disagreement(self) -> Floats:
        """Share of the pairs of a row's trials that differ; 0 where there is one."""
        n, ones = np.maximum(self.counts, 2), np.nansum(self.trials, axis=1)
        return np.where(self.counts > 1, 2 * ones * (self.counts - ones) / (n * (n - 1)), 0.0)


def find_churn(connection: DuckDBPyConnection, values: Values, metric: MetricInfo) -> Churn | None:
    """Return the churn of a metric that asks a judge; ``None`` for others, and without a threshold.

    Args:
        connection: Both sides, with the ``row_pairs`` of the models.
        values: The metric's values by case.
        metric: Its threshold and direction.
    """
    names = [metric.evaluator, metric.metric]
    asked = connection.execute(sql("compare/asks_judge"), names).fetchall()
    if metric.threshold is None or not asked or not asked[0][0]:
        return None
    ours, theirs = (_side(connection, side, values, metric) for side in SIDES)
    flipped = (ours.trials[:, 0] + theirs.trials[:, 0]) == 1
    rate = float(flipped.mean())
    same = connection.execute(sql("compare/same_answers")).fetchnumpy()
    answers = np.asarray(same["same_answer"], bool)[np.searchsorted(same["case_no"], values.cases)]
    width = max(ours.trials.shape[1], theirs.trials.shape[1])
    one, other = _widened(ours, width), _widened(theirs, width)
    shared = answers & np.all((one == other) | np.isnan(one) | np.isnan(other), axis=1)
    clusters = np.arange(len(values.cases)) if values.clusters is None else values.clusters
    found = _from_both(ours, theirs, shared, clusters) or _from_some(ours, theirs, shared, clusters, flipped)
    if found is None:
        return Churn(rate)
    return Churn(rate, found.noise, found.net, found.low, found.high, found.method)


def _side(connection: DuckDBPyConnection, side: str, values: Values, metric: MetricInfo) -> _Side:
    found = connection.execute(sql("compare/trials").format(side=side), [metric.evaluator, metric.metric]).fetchnumpy()
    case, trial, value, weight = (np.asarray(found[name]) for name in ("case_no", "trial", "value", "weight"))
    place = np.searchsorted(values.cases, case)
    known = (place < len(values.cases)) & (values.cases[np.minimum(place, len(values.cases) - 1)] == case)
    place, trial, value, weight = place[known], trial[known].astype(np.intp), value[known], weight[known]
    trials = np.full((len(values.cases), int(trial.max(initial=0)) + 1), np.nan)
    sign = 1.0 if metric.higher_is_better else -1.0
    trials[place, trial] = sign * value >= sign * (metric.threshold or 0.0)
    first = getattr(values, side)
    missing = np.isnan(trials[:, 0])
    trials[missing, 0] = sign * first[missing] >= sign * (metric.threshold or 0.0)
    weights = np.ones(len(values.cases))
    weights[place] = weight
    return _Side(trials, weights, bool(np.any(found["sampled"])))


def _widened(side: _Side, width: int) -> Floats:
    more = width - side.trials.shape[1]
    return np.pad(side.trials, ((0, 0), (0, more)), constant_values=np.nan)


def _from_both(ours: _Side, theirs: _Side, shared: Booleans, clusters: npt.NDArray[np.int64]) -> NetRate | None:
    """Return the net rate where both runs judged every row several times."""
    if ours.sampled or theirs.sampled:
        return None
    told = (ours.counts > 1) & (theirs.counts > 1)
    if not told.any():
        return None
    pairs = pair_noise(ours.trials[told], theirs.trials[told])
    kept = ~shared[told]
    return net_rate(PairNoise(*(np.where(kept, part, 0.0) for part in pairs)), clusters[told])


def _from_some(
    ours: _Side, theirs: _Side, shared: Booleans, clusters: npt.NDArray[np.int64], flipped: Booleans
) -> NetRate | None:
    """Return the net rate from the first trials, and the noise of those rows that have more."""
    noise, weights = (
        np.concatenate([part[0][~shared], part[1][~shared]])
        for part in (
            (ours.disagreement, theirs.disagreement),
            (np.where(ours.counts > 1, ours.weights, 0.0), np.where(theirs.counts > 1, theirs.weights, 0.0)),
        )
    )
    if not weights.any():
        return None
    repeated = float(weights.sum() ** 2 / (weights @ weights))
    share = float(weights @ noise / weights.sum()) * float((~shared).mean())
    flips = flipped.astype(float)
    independent = effective_number(flips, clusters)
    return net_of_sample(float(flips.mean()) * independent, independent, share * repeated, repeated)
