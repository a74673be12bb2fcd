"""Measuring every metric of a pair of models, before all of them are judged together."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from leadline.tasks.compare.churn import find_churn
from leadline.tasks.compare.metric_choice import Pairing
from leadline.tasks.compare.options import Options
from leadline.tasks.compare.paired_dataset_metrics import DatasetMetric, compare_dataset_metrics
from leadline.tasks.compare.results import Coverage, MetricComparison, ModelPair, SliceComparison
from leadline.tasks.compare.run_flips import find_flips
from leadline.tasks.compare.run_pair import CountedOutcomes, Values, pair_rows, pair_values
from leadline.tasks.compare.slice_differences import Slice, compare_slices, read_slices
from leadline.tasks.compare.verdicts import VerdictQuestion
from leadline.tasks.statistics.bounded_mean import CONFIDENCE
from leadline.tasks.statistics.paired import PairedSeries, measure, sign_test

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

VALUES_AT_ONCE: Final = 500_000
"""Cases times metrics that are paired by one query: for small runs, queries take longer to begin than to run."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A metric before all metrics are judged together.

    Attributes:
        found: What is known of it.
        question: The values that its verdict depends on; ``None`` where the verdict is known.
        slices: The metric by slice.
    """

    found: MetricComparison
    question: VerdictQuestion | None = None
    slices: tuple[SliceComparison, ...] = ()


def measure_models(
    connection: DuckDBPyConnection,
    pair: ModelPair,
    ids: tuple[int, int],
    pairings: Sequence[Pairing],
    options: Options,
) -> Iterator[Draft]:
    """Measure all metrics of one pair of models.

    Args:
        connection: Both sides.
        ids: Their numbers in the baseline's and the candidate's dataset.
        pairings: The metrics.
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
            yield _per_row(connection, found, counted, values, options, slices)
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
) -> Draft:
    """Measure a metric that has a value per row."""
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
    flips = find_flips(connection, values, differences, metric, found.models, options.shown)
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
            churn=find_churn(connection, values, metric),
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
