"""Differences of two models as people would have judged them: those of a judge, corrected by labels of both sides.

Cases of which people labelled both answers make a paired estimate (:func:`paired_difference`). With fewer than
:data:`LEAST_PAIRS` of them it is the difference of the two corrected values, whose intervals are joined as if they were
independent (MOVER): the same cases make it narrower in truth.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from leadline.evaluators.ground import UsageError
from leadline.tasks.compare.results import Comparison, CorrectedDifference, MetricComparison
from leadline.tasks.judges.labels.judged_rows import JudgedRows, read_judged_rows
from leadline.tasks.judges.labels.known_labels import KnownLabels, dataset_labels, known_labels
from leadline.tasks.judges.labels.label_report import report_labels
from leadline.tasks.judges.labels.label_sets import RowChance, labels_by_key, row_chances
from leadline.tasks.load.label import consensus
from leadline.tasks.statistics.label_correction import Corrected, actively_sampled
from leadline.tasks.statistics.statistics import difference

if TYPE_CHECKING:
    from leadline.tasks.statistics.bounded_mean import Floats, Ints
    from leadline.tasks.store.store import Store


LEAST_PAIRS: Final = 30


@dataclass(frozen=True, slots=True)
class _Answer:
    """One model's answer to a case.

    Attributes:
        drawn: How it was drawn; ``None`` where it was not.
        cluster: Number of its original.
    """

    score: float
    label: float | None
    drawn: RowChance | None
    cluster: int


def with_corrected_differences(store: Store, comparison: Comparison) -> Comparison:
    """Return a comparison with the differences that people's labels correct, also said in its notes.

    Labels that came with the dataset of either run count beside those of the store's sets, for both.
    """
    both = comparison.baseline.run, comparison.candidate.run
    runs = {run: store.run(run) for run in both}
    known = known_labels(store, None, lambda: [dataset_labels(store, run) for run in runs.values()])
    if not known:
        return comparison

    @cache
    def rows(run: str, key: str) -> JudgedRows | None:
        try:
            return read_judged_rows(store, runs[run], key)
        except UsageError:  # a metric of the whole dataset
            return None

    metrics = []
    for found in comparison.metrics:
        labels = known.get(found.metric.key)
        if labels is not None and labels.labels and found.effect is not None:
            ours, theirs = (rows(run, found.metric.key) for run in both)
            if ours is not None and theirs is not None:
                found = dataclasses.replace(found, corrected=_corrected(found, labels, ours, theirs, both))
        metrics.append(found)
    notes = (*comparison.notes, *(note for found in metrics for note in _note(found)))
    return dataclasses.replace(comparison, metrics=tuple(metrics), notes=notes)


def _corrected(
    found: MetricComparison, known: KnownLabels, ours: JudgedRows, theirs: JudgedRows, runs: Sequence[str]
) -> CorrectedDifference | None:
    """Return the corrected difference of one metric and pair of models, turned so that positive is better."""
    labels = [known.with_whole_models(side, run) for side, run in zip((ours, theirs), runs, strict=True)]
    binary = ours.metric.is_share or ours.metric.threshold is not None
    sign = 1.0 if binary or found.metric.higher_is_better else -1.0
    paired = _paired(
        _answers(ours, labels[0], found.models.baseline, binary=binary),
        _answers(theirs, labels[1], found.models.candidate, binary=binary),
        binary=binary,
    )
    if paired is not None:
        corrected, n_labels = paired
        value, low, high = corrected.value, corrected.low, corrected.high
    else:
        one = _alone(ours, labels[0], found.models.baseline)
        other = _alone(theirs, labels[1], found.models.candidate)
        if one is None or other is None:
            return None
        value = other[0].value - one[0].value
        low, high = difference(other[0].value, (other[0].low, other[0].high), one[0].value, (one[0].low, one[0].high))
        n_labels = one[1] + other[1]
    ends = sorted((sign * low, sign * high))
    return CorrectedDifference(sign * value, ends[0], ends[1], binary, paired is not None, n_labels)


def _alone(judged: JudgedRows, known: KnownLabels, model: str) -> tuple[Corrected, int] | None:
    """Return one model's corrected value with its number of labels."""
    report = report_labels(judged, known.labels, known.samples, bootstrapped=False)
    for line in report.models:
        if line.model == model and line.corrected is not None:
            return line.corrected, line.labels
    return None


def _answers(judged: JudgedRows, known: KnownLabels, model: str, *, binary: bool) -> dict[str, _Answer]:
    """Return one model's answers by case."""
    by_key = labels_by_key(known.labels)
    drawn = row_chances(judged, known.samples)
    scores = judged.metric.passes(judged.values).astype(float) if binary else judged.values
    return {
        judged.cases[place]: _Answer(
            float(scores[place]),
            consensus(by_key[key], binary=binary) if key in by_key else None,
            drawn.get((key, model)),
            int(judged.clusters[place]),
        )
        for place, key in enumerate(judged.keys)
        if judged.models[place] == model
    }


def _paired(ours: dict[str, _Answer], theirs: dict[str, _Answer], *, binary: bool) -> tuple[Corrected, int] | None:
    """Return the difference by the cases of which both answers were drawn and labelled, and their number."""
    cases = sorted(ours.keys() & theirs.keys())
    told, labels, chances = [], [], []
    for case in cases:
        one, other = ours[case], theirs[case]
        if one.label is None or other.label is None or one.drawn is None or other.drawn is None:
            continue
        told.append(case)
        labels.append(other.label - one.label)
        chances.append(one.drawn.with_other(other.drawn))
    if len(told) < LEAST_PAIRS:
        return None
    scores = {case: theirs[case].score - ours[case].score for case in cases}
    corrected = paired_difference(
        np.array(labels),
        np.array([scores[case] for case in told]),
        np.array(chances),
        np.array(list(scores.values())),
        np.array([ours[case].cluster for case in told]),
        np.array([ours[case].cluster for case in scores]),
        shares=binary,
    )
    return None if corrected is None else (corrected, len(told))


def paired_difference(
    labels: Floats,
    judge_on_labels: Floats,
    chances: Floats,
    judge_on_all: Floats,
    clusters: Ints,
    clusters_of_all: Ints,
    *,
    shares: bool,
) -> Corrected | None:
    """Return the mean difference of two models' labels over all cases.

    Where labels are good or bad, few of them differ, and normal intervals of such pairs are far too narrow; a sample
    without any would claim to be sure. As Bonett and Price ("Adjusted Wald confidence interval for a difference of
    binomial proportions based on paired data", 2012) do, a pair that is better and one that is worse are added.

    Args:
        labels: The candidate's label less the baseline's, of the cases of which both are labelled.
        judge_on_labels: The same of the judge's scores.
        chances: The chance with which both answers of each of these cases were drawn, in (0, 1].
        clusters: Number of the original of each labelled case.
        clusters_of_all: The same of all cases.
        shares: Whether labels are good (1) or bad (0).
    """
    if shares:
        added = clusters.max() + np.array([1, 2])
        labels, judge_on_labels = np.append(labels, [1.0, -1.0]), np.append(judge_on_labels, [0.0, 0.0])
        chances, clusters = np.append(chances, [1 / np.mean(1 / chances)] * 2), np.append(clusters, added)
    return actively_sampled(labels, judge_on_labels, chances, judge_on_all, clusters, clusters_of_all)


def _note(found: MetricComparison) -> Iterator[str]:
    """Yield what people's labels say of a difference, in a sentence."""
    corrected = found.corrected
    if corrected is None:
        return
    shown = [
        f"{100 * value:+.1f}" if corrected.is_share else f"{value:+.3f}"
        for value in (corrected.value, corrected.low, corrected.high)
    ]
    unit = " points" if corrected.is_share else ""
    how = "pairs of labels" if corrected.paired else "labels of either side"
    yield (
        f"By people's labels {found.metric.name} of {found.models.label} moves by {shown[0]}{unit} "
        f"({shown[1]} to {shown[2]}; {corrected.n_labels:,} {how}); positive is better."
    )
