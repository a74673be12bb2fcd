"""Right and wrong predictions: counts at each confidence, for precision-recall curves, and the errors one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from leadline.evaluators.data import MOST_CONFUSED, Confusion, LabelName
from leadline.evaluators.vision.engine.image_set import Dataset
from leadline.evaluators.vision.engine.payload import RIGHT, WRONG, Records

if TYPE_CHECKING:
    import numpy.typing as npt


CONFIDENCES: Final = tuple(step / 100 for step in range(5, 100, 5))
"""Scores from which a prediction counts: 0.05, 0.10, …, 0.95."""

NOTHING: Final = "(nothing)"
"""Label of no object or region."""

OTHERS: Final = "(other labels)"
"""The rarest labels together, where there are too many."""


@dataclass(frozen=True, slots=True)
class CountedErrors:
    """Weighted counts by label and confidence, each of shape ``(labels, len(CONFIDENCES))``.

    The plain curve pairs each ground truth with one prediction at most; the detailed one looks at every overlap.

    Attributes:
        tp: Predictions that found a ground truth that no more confident one did.
        fp: The other predictions, but those that are neither right nor wrong.
        fn: Ground truths that were not found.
        right: Predictions that overlap a ground truth of their label.
        misclassified: Predictions that overlap a ground truth of another label of their key.
        hallucinated: Predictions that overlap neither.
        mistaken: Ground truths that only predictions of another label overlap.
        missed: Ground truths that nothing overlaps.
    """

    tp: npt.NDArray[np.float64]
    fp: npt.NDArray[np.float64]
    fn: npt.NDArray[np.float64]
    right: npt.NDArray[np.float64]
    misclassified: npt.NDArray[np.float64]
    hallucinated: npt.NDArray[np.float64]
    mistaken: npt.NDArray[np.float64]
    missed: npt.NDArray[np.float64]


def count(dataset: Dataset, weights: npt.NDArray[np.float64], curve: int) -> CountedErrors:
    """Count at every confidence.

    Args:
        dataset: The images.
        weights: How often each payload counts.
        curve: Bit of the IoU threshold of the curves.
    """
    labels = len(dataset.names)
    lines, truth = dataset.predictions, dataset.truth
    weight, truth_weight = weights[dataset.prediction_image], weights[dataset.truth_image]
    level, label = _levels(lines["score"]), lines["label"].astype(np.int64)
    bit = lines["hits"].dtype.type(1) << lines["hits"].dtype.type(curve)
    hit, ignored, how = (lines["hits"] & bit) > 0, (lines["ignored"] & bit) > 0, lines["how"]

    def passing(which: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
        counts = _histogram(label[which], level[which], weight[which], labels)
        out: npt.NDArray[np.float64] = counts[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:]
        return out

    def failing(levels: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        counts = _histogram(truth["label"].astype(np.int64), levels, truth_weight, labels)
        out: npt.NDArray[np.float64] = counts.cumsum(axis=1)[:, :-1]
        return out

    tp = passing(hit)
    right, wrong = _levels(truth["right"]), _levels(truth["wrong"])
    missed = failing(np.maximum(right, wrong))
    return CountedErrors(
        tp=tp,
        fp=passing(~hit & ~ignored),
        fn=dataset.truths(weights)[:, np.newaxis] - tp,
        right=passing((how & RIGHT) > 0),
        misclassified=passing((how & WRONG) > 0),
        hallucinated=passing((how == 0) & ~ignored),
        mistaken=failing(right) - missed,
        missed=missed,
    )


def _levels(score: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return how many of the confidences a score reaches."""
    return np.searchsorted(np.array(CONFIDENCES), score, "right").astype(np.int64)


def _histogram(
    label: npt.NDArray[np.int64], level: npt.NDArray[np.int64], weight: npt.NDArray[np.float64], labels: int
) -> npt.NDArray[np.float64]:
    width = len(CONFIDENCES) + 1
    return np.bincount(label * width + level, weight, labels * width).reshape(labels, width).astype(np.float64)


@dataclass(frozen=True, slots=True)
class Errors:
    """Lines of the dataset by label; each list is ordered by what is worst.

    Attributes:
        right: Predictions that overlap a ground truth of their label, the most confident first.
        misclassified: Predictions that overlap one of another label.
        hallucinated: Predictions that overlap neither.
        truth: Ground truths, those first that nothing overlaps with any confidence.
    """

    right: list[npt.NDArray[np.int64]]
    misclassified: list[npt.NDArray[np.int64]]
    hallucinated: list[npt.NDArray[np.int64]]
    truth: list[npt.NDArray[np.int64]]


def errors_of(dataset: Dataset) -> Errors:
    """Return the right and wrong predictions and the ground truths of a dataset."""
    lines, truth, labels = dataset.predictions, dataset.truth, len(dataset.names)
    how = lines["how"]
    neither = (how == 0) & (lines["ignored"] == 0)
    return Errors(
        right=_by_label(lines, np.flatnonzero(how & RIGHT), -lines["score"], labels),
        misclassified=_by_label(lines, np.flatnonzero(how & WRONG), -lines["score"], labels),
        hallucinated=_by_label(lines, np.flatnonzero(neither), -lines["score"], labels),
        truth=_by_label(truth, np.arange(len(truth)), np.maximum(truth["right"], truth["wrong"]), labels),
    )


def _by_label(
    records: Records, which: npt.NDArray[np.int64], worst: npt.NDArray[np.float64], labels: int
) -> list[npt.NDArray[np.int64]]:
    label = records["label"][which]
    order = np.lexsort((worst[which], label))
    bounds = np.searchsorted(label[order], np.arange(1, labels))
    return np.split(which[order], bounds) if labels else []


def ratio(part: npt.NDArray[np.float64], total: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return part / total, 0 where the total is 0, as Valor does in these curves.

    Args:
        part: Numerators.
        total: Denominators, of the same shape.
    """
    return np.divide(part, total, out=np.zeros_like(part), where=total > 0)


def f1(precision: npt.NDArray[np.float64], recall: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the harmonic mean, 0 where both are 0.

    Args:
        recall: Recall, of the same shape.
    """
    return ratio(2 * precision * recall, precision + recall)


def confusion(
    key: str,
    names: Sequence[LabelName],
    labels: npt.NDArray[np.int64],
    expected: npt.NDArray[np.int64],
    found: npt.NDArray[np.int64],
    weight: npt.NDArray[np.float64],
) -> Confusion:
    """Return the confusion matrix of a label key.

    Args:
        names: All labels by number.
        labels: Numbers of the labels of the key.
        expected: For each item its true label by number, ``len(names)`` for none.
        found: For each item its predicted label by number, ``len(names)`` for none.
        weight: For each item its weight.
    """
    seen = np.bincount(expected, weight, len(names) + 1) + np.bincount(found, weight, len(names) + 1)
    order = labels[np.lexsort((labels, -seen[labels]))]
    kept = order if len(order) < MOST_CONFUSED else order[: MOST_CONFUSED - 2]
    shown = [names[label][1] for label in kept.tolist()]
    place = np.full(len(names) + 1, len(shown), dtype=np.int64)
    place[kept] = np.arange(len(kept))
    if len(kept) < len(order):
        shown.append(OTHERS)
    place[-1] = len(shown)
    shown.append(NOTHING)
    size = len(shown)
    counts = np.bincount(place[expected] * size + place[found], weight, size * size).reshape(size, size)
    table = [[as_count(number) for number in line] for line in counts.tolist()]
    return {"key": key, "expected": shown, "predicted": shown, "counts": table}


def as_count(value: float) -> float | int:
    """Return a count as an integer where it is one; a row that was scored in trials counts in parts."""
    return int(value) if float(value).is_integer() else float(value)
