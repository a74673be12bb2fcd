"""Measuring every metric of a pair of models: effect, flips, and churn net of the judge's own noise.

The mean difference of two runs is not biased by noise, and its interval holds it. What noise distorts is the number of
cases that change sides. The estimators are those of flips under perturbation, see
:mod:`leadline.tasks.statistics.judge_stability`: from the trials of each case where both runs have several, else from
those rows of either run that were judged more than once. Equal answers whose trials are the same in both runs share one
stored score: nothing changed, and no noise is in it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from leadline.tasks.compare.metric_choice import Pairing
from leadline.tasks.compare.options import Options
from leadline.tasks.compare.paired_dataset_metrics import DatasetMetric, compare_dataset_metrics
from leadline.tasks.compare.results import (
    ChangedRow,
    Churn,
    Coverage,
    MetricComparison,
    MetricInfo,
    ModelPair,
    SliceComparison,
)
from leadline.tasks.compare.run_pair import SIDES, CountedOutcomes, Values, fill_texts, pair_rows, pair_values
from leadline.tasks.compare.slice_differences import Slice, compare_slices, read_slices
from leadline.tasks.compare.verdicts import VerdictQuestion
from leadline.tasks.db import sql
from leadline.tasks.db.csv_files import write_csv
from leadline.tasks.statistics.bounded_mean import CONFIDENCE
from leadline.tasks.statistics.judge_stability import NetRate, PairNoise, net_of_sample, net_rate, pair_noise
from leadline.tasks.statistics.paired import PairedSeries, measure, sign_test
from leadline.tasks.statistics.statistics import effective_number

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from leadline.tasks.statistics.bounded_mean import Booleans, Floats, Ints


VALUES_AT_ONCE: Final = 500_000
"""Cases times metrics that are paired by one query: for small runs, queries take longer to begin than to run."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A metric before all metrics are judged together.

    Attributes:
        question: The values that its verdict depends on; ``None`` where the verdict is known.
    """

    found: MetricComparison
    question: VerdictQuestion | None = None
    slices: tuple[SliceComparison, ...] = ()


def measure_models(
    connection: DuckDBPyConnection, pair: ModelPair, ids: tuple[int, int], pairings: Sequence[Pairing], options: Options
) -> Iterator[Draft]:
    """Measure all metrics of one pair of models.

    Args:
        ids: Their numbers in the baseline's and the candidate's dataset.
        options: Margins, columns of slices and how many flips are shown.
    """
    rows = pair_rows(connection, *ids)
    slices = read_slices(connection, options.slices)
    dataset_metrics: dict[str, dict[str, DatasetMetric]] = {}
    paired = _paired(connection, pairings, max(1, VALUES_AT_ONCE // max(1, rows)))
    for pairing in pairings:
        blank = MetricComparison(pairing.metric, pair, Coverage(), None, pairing.outcome, pairing.obstacle)
        blank = dataclasses.replace(
            blank, differences=pairing.differences, role=pairing.role, untested=pairing.untested
        )
        if pairing.sides is None:
            yield Draft(blank)
            continue
        counted, values = next(paired)
        found = dataclasses.replace(blank, coverage=counted.coverage)
        evaluator = pairing.metric.evaluator
        if pairing.over_dataset:
            if evaluator not in dataset_metrics:
                chosen = _over_dataset(pairings, evaluator)
                dataset_metrics[evaluator] = compare_dataset_metrics(connection, chosen, options.margins)
            yield _draft_dataset_metric(found, dataset_metrics[evaluator].get(pairing.metric.metric))
        elif counted.coverage.pairs:
            yield _per_row(connection, found, counted, values, options, slices, judged=pairing.sides[1]["judged"])
        else:
            yield _draft_without_pairs(found)


def _paired(
    connection: DuckDBPyConnection, pairings: Sequence[Pairing], at_once: int
) -> Iterator[tuple[CountedOutcomes, Values]]:
    """Pair the values of the metrics that can be compared, some at once."""
    metrics = [(pairing.counted, pairing.sides[1]) for pairing in pairings if pairing.sides]
    for first in range(0, len(metrics), at_once):
        yield from pair_values(connection, metrics[first : first + at_once])


def _over_dataset(pairings: Sequence[Pairing], evaluator: str) -> list[Pairing]:
    """Return the metrics of an evaluator that are computed over all rows at once."""
    return [found for found in pairings if found.over_dataset and found.sides and found.metric.evaluator == evaluator]


def _draft_without_pairs(found: MetricComparison) -> Draft:
    coverage = found.coverage
    if coverage.not_applicable and not coverage.unscored and not coverage.changed:
        words = "The cases lack what it needs."
        return Draft(dataclasses.replace(found, verdict="not_applicable", reason=words))
    words = "No case could be scored on both sides." if coverage.unscored else "The two runs have no case in common."
    return Draft(dataclasses.replace(found, verdict="inconclusive", reason=words))


def _per_row(
    connection: DuckDBPyConnection,
    found: MetricComparison,
    counted: CountedOutcomes,
    values: Values,
    options: Options,
    slices: Sequence[Slice],
    *,
    judged: bool,
) -> Draft:
    """Measure a metric that has a value per row; one that asks a judge has churn, where it has a threshold."""
    metric, coverage = found.metric, counted.coverage
    sign = 1.0 if metric.higher_is_better else -1.0
    with np.errstate(invalid="ignore"):
        differences = sign * (values.candidate - values.baseline)
    differences[values.candidate == values.baseline] = 0.0  # also where both are infinite
    baseline, candidate = float(values.baseline.mean()), float(values.candidate.mean())
    margin = options.margins.of(metric, baseline)
    series = PairedSeries(differences, values.clusters, metric.high - metric.low, metric.share and _binary(values))
    measured = measure(series, confidence=options.confidence.get(metric.evaluator, CONFIDENCE))
    n, total = coverage.pairs + coverage.unscored, float(differences.sum())
    bounds = [
        None if moved is None or not np.isfinite(total) else (total + sign * moved) / n
        for moved in (counted.worst, counted.best)
    ]
    flips = _find_flips(connection, values, differences, metric, found.models, options.shown)
    same = counted.same and not differences.any()
    question = VerdictQuestion(measured, margin, coverage.share, bounds[0], bounds[1], same)
    flipped = flips.passed_to_failed is not None and flips.failed_to_passed is not None and values.clusters is None
    return Draft(
        dataclasses.replace(
            found,
            margin=margin,
            baseline=baseline,
            candidate=candidate,
            if_worst=bounds[0],
            if_best=bounds[1],
            passed_to_failed=flips.passed_to_failed,
            failed_to_passed=flips.failed_to_passed,
            p_flips=sign_test(flips.failed_to_passed or 0, flips.passed_to_failed or 0) if flipped else None,
            changed_rows=flips.shown,
            churn=_find_churn(connection, values, metric) if judged and metric.threshold is not None else None,
            wins=measured.wins,
            losses=measured.losses,
            ties=measured.n - measured.wins - measured.losses,
        ),
        question,
        () if found.untested else tuple(compare_slices(found, values, series, slices)),
    )


def _binary(values: Values) -> bool:
    return all(bool(((side == 0) | (side == 1)).all()) for side in (values.baseline, values.candidate))


def _draft_dataset_metric(found: MetricComparison, metric: DatasetMetric | None) -> Draft:
    """Return the draft of a metric that is computed over all rows at once."""
    if metric is None:
        if not found.coverage.pairs:
            return _draft_without_pairs(found)
        return Draft(dataclasses.replace(found, verdict="inconclusive", reason="It is not defined for these cases."))
    effect, coverage = metric.measured.effect, found.coverage
    bounds = (None, None) if coverage.unscored else (effect, effect)
    if not coverage.pairs:
        coverage = dataclasses.replace(coverage, pairs=metric.cases, not_applicable=0)
    question = VerdictQuestion(metric.measured, metric.margin, coverage.share, *bounds)
    judged = dataclasses.replace(
        found, coverage=coverage, margin=metric.margin, baseline=metric.baseline, candidate=metric.candidate
    )
    return Draft(judged, question)


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
    def counts(self) -> Ints:
        """Number of trials by case."""
        return np.asarray((~np.isnan(self.trials)).sum(axis=1), dtype=np.int64)

    @property
    def disagreement(self) -> Floats:
        """Share of the pairs of a row's trials that differ; 0 where there is one."""
        n, ones = np.maximum(self.counts, 2), np.nansum(self.trials, axis=1)
        return np.where(self.counts > 1, 2 * ones * (self.counts - ones) / (n * (n - 1)), 0.0)


def _find_churn(connection: DuckDBPyConnection, values: Values, metric: MetricInfo) -> Churn:
    """Return the churn of a metric that asks a judge.

    Args:
        connection: Both sides, with the ``row_pairs`` of the models.
    """
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


def _from_both(ours: _Side, theirs: _Side, shared: Booleans, clusters: Ints) -> NetRate | None:
    """Return the net rate where both runs judged every row several times."""
    if ours.sampled or theirs.sampled:
        return None
    told = (ours.counts > 1) & (theirs.counts > 1)
    if not told.any():
        return None
    pairs = pair_noise(ours.trials[told], theirs.trials[told])
    kept = ~shared[told]
    return net_rate(PairNoise(*(np.where(kept, part, 0.0) for part in pairs)), clusters[told])


def _from_some(ours: _Side, theirs: _Side, shared: Booleans, clusters: Ints, flipped: Booleans) -> NetRate | None:
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


@dataclass(frozen=True, slots=True)
class Flips:
    """The flips of one metric: how many in each direction (``None`` without a threshold), and those that are shown."""

    passed_to_failed: int | None
    failed_to_passed: int | None
    shown: tuple[ChangedRow, ...]


def start_flips(connection: DuckDBPyConnection) -> None:
    """Create the table ``all_flips``, empty."""
    connection.execute(sql("compare/flips"))


def _find_flips(
    connection: DuckDBPyConnection,
    values: Values,
    better: Floats,
    metric: MetricInfo,
    models: ModelPair,
    shown: int,
) -> Flips:
    """Find the flips of one metric and add them to ``all_flips``.

    Args:
        connection: Both sides, with the ``row_pairs`` of the models.
        better: By how much the candidate is better on each case.
        shown: How many of each direction are returned with their texts, the largest changes first.
    """
    sign = 1.0 if metric.higher_is_better else -1.0
    if metric.threshold is None:
        lost, won, words = better < 0, better > 0, ("worse", "better")
    else:
        passed, passes = ((sign * side >= sign * metric.threshold) for side in (values.baseline, values.candidate))
        lost, won, words = passed & ~passes, ~passed & passes, ("passed_to_failed", "failed_to_passed")
        for chosen, word in zip((lost, won), words, strict=True):
            _keep(connection, values, chosen, word, metric, models)
    rows: dict[int, ChangedRow] = {}
    for chosen, word in zip((lost, won), words, strict=True):
        places = np.flatnonzero(chosen)
        for place in places[np.argsort(-np.abs(better[places]), kind="stable")][:shown]:
            sides = float(values.baseline[place]), float(values.candidate[place])
            rows[int(values.cases[place])] = ChangedRow("", word, *sides)
    texts = tuple(fill_texts(connection, rows, metric))
    return Flips(None, None, texts) if metric.threshold is None else Flips(int(lost.sum()), int(won.sum()), texts)


def _keep(
    connection: DuckDBPyConnection,
    values: Values,
    chosen: Booleans,
    word: str,
    metric: MetricInfo,
    models: ModelPair,
) -> None:
    if not chosen.any():
        return
    columns = {"case_no": values.cases, "baseline": values.baseline, "candidate": values.candidate}
    connection.register("flipped", {name: column[chosen] for name, column in columns.items()})
    connection.execute(
        sql("compare/flip_lines"),
        [metric.evaluator, metric.metric, models.baseline, models.candidate, word, metric.threshold],
    )
    connection.unregister("flipped")


def write_flips(connection: DuckDBPyConnection, path: Path) -> int:
    """Write all flips as CSV and return their number.

    Args:
        connection: Both runs, with the table ``all_flips``.
    """
    lines = "SELECT * EXCLUDE (baseline_row, candidate_row) FROM all_flips ORDER BY ALL"
    write_csv(connection, lines, path)
    (number,) = connection.execute("SELECT count(*) FROM all_flips").fetchall()[0]
    return int(number)
