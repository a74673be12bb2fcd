"""Precision-recall curves over the scores 0.05 to 0.95, plain and detailed, as Valor defines them.

Every label is a binary problem of its own: an item counts as predicted where the label's score reaches the threshold,
whatever the other labels' scores are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from leadline.evaluators.classification._items import Items

if TYPE_CHECKING:
    import numpy.typing as npt

THRESHOLDS: Final = tuple(step / 100 for step in range(5, 100, 5))


@dataclass(frozen=True, slots=True)
class Counts:
    """Weighted counts of shape ``(labels, thresholds)``. Of the false negatives some were taken for another label."""

    tp: npt.NDArray[np.float64]
    fp: npt.NDArray[np.float64]
    fn: npt.NDArray[np.float64]
    tn: npt.NDArray[np.float64]
    fn_misclassified: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Reached:
    """Levels of scores: the number of thresholds that each reaches; level ``> k`` reaches threshold ``k``.

    Attributes:
        predicted: Level of each prediction.
        expected: Level of each expected label's own score, 0 where it was not predicted.
        others: Level of the highest score of a wrong label at the same item and key.
    """

    predicted: npt.NDArray[np.int64]
    expected: npt.NDArray[np.int64]
    others: npt.NDArray[np.int64]


def reached(items: Items) -> Reached:
    """Return the levels of all scores."""
    predicted = np.searchsorted(np.array(THRESHOLDS), items.pd_score, side="right")
    n_labels = max(1, len(items.labels))
    hits = np.flatnonzero(items.pd_right)
    hit_codes = items.pd_pair[hits] * n_labels + items.pd_label[hits]
    order = np.argsort(hit_codes, kind="stable")
    expected = np.zeros(len(items.gt_label), dtype=np.int64)
    if len(hits):
        wanted = items.gt_pair * n_labels + items.gt_label
        at = np.minimum(np.searchsorted(hit_codes[order], wanted), len(hits) - 1)
        found = hit_codes[order[at]] == wanted
        expected[found] = predicted[hits[order[at[found]]]]
    highest = np.zeros(len(items.pair_item), dtype=np.int64)
    if len(items.pd_pair):
        starts = np.flatnonzero(np.concatenate(([True], items.pd_pair[1:] != items.pd_pair[:-1])))
        highest[items.pd_pair[starts]] = np.maximum.reduceat(np.where(items.pd_right, 0, predicted), starts)
    return Reached(predicted, expected, highest[items.gt_pair])


def count(items: Items, levels: Reached, weights: npt.NDArray[np.float64]) -> Counts:
    """Count true and false positives and negatives by label and threshold; an item without the key is a true negative.

    Args:
        levels: Their scores.
        weights: Array of shape ``(n,)``: how often each item counts.
    """
    of_pair = weights[items.pair_item]
    of_prediction = of_pair[items.pd_pair]
    n_labels = len(items.labels)
    tp = _from_above(items.pd_label, levels.predicted, of_prediction * items.pd_right, n_labels)
    fp = _from_above(items.pd_label, levels.predicted, of_prediction * ~items.pd_right, n_labels)
    of_expected = of_pair[items.gt_pair]
    wanted = np.bincount(items.gt_label, of_expected, minlength=n_labels)[:, np.newaxis]
    # A label is taken for another at the thresholds that the other reaches and its own score does not.
    taken = np.where(levels.others > levels.expected, of_expected, 0.0)
    misclassified = _from_above(items.gt_label, levels.others, taken, n_labels) - _from_above(
        items.gt_label, levels.expected, taken, n_labels
    )
    return Counts(tp=tp, fp=fp, fn=wanted - tp, tn=weights.sum() - wanted - fp, fn_misclassified=misclassified)


def _from_above(
    labels: npt.NDArray[np.int64], levels: npt.NDArray[np.int64], weights: npt.NDArray[np.float64], n_labels: int
) -> npt.NDArray[np.float64]:
    """Return the sum of the weights of each label whose level is above each threshold's number."""
    width = len(THRESHOLDS) + 1
    table = np.bincount(labels * width + levels, weights, minlength=n_labels * width).reshape(n_labels, width)
    from_above: npt.NDArray[np.float64] = np.cumsum(table[:, ::-1].astype(np.float64), axis=1)[:, ::-1][:, 1:]
    return from_above


def examples(items: Items, levels: Reached, label: int, most: int) -> list[dict[str, list[int]]]:
    """Return for each threshold up to ``most`` items of each kind, in the order of the items.

    The kinds are tp, tn, fp_misclassifications, fn_misclassifications and fn_no_predictions.

    Args:
        levels: Their scores.
        most: Most items of each kind.
    """
    predicted = np.flatnonzero(items.pd_label == label)
    pairs, level = items.pd_pair[predicted], levels.predicted[predicted]
    hit = items.pd_right[predicted]
    wanted = np.flatnonzero(items.gt_label == label)
    gt_pairs = items.gt_pair[wanted]
    level_of_item = np.zeros(items.size, dtype=np.int64)
    level_of_item[items.pair_item[pairs]] = level
    level_of_item[items.pair_item[gt_pairs]] = len(THRESHOLDS)
    out = []
    for position in range(len(THRESHOLDS)):
        above = level > position
        missed = levels.expected[wanted] <= position
        mistaken = missed & (levels.others[wanted] > position)
        found = {
            "tp": pairs[above & hit],
            "fp_misclassifications": pairs[above & ~hit],
            "fn_misclassifications": gt_pairs[mistaken],
            "fn_no_predictions": gt_pairs[missed & ~mistaken],
        }
        named = {kind: items.pair_item[chosen[:most]].tolist() for kind, chosen in found.items()}
        out.append(named | {"tn": _first(level_of_item <= position, most).tolist()})
    return out


def _first(mask: npt.NDArray[np.bool_], most: int) -> npt.NDArray[np.int64]:
    """Return the places of the first ones; a mask of true negatives is mostly ones, so that its beginning is enough."""
    found = np.flatnonzero(mask[: 64 * most])
    return found[:most] if len(found) >= most else np.flatnonzero(mask)[:most]
