"""Curves of labels: ROC, each label against all others, and precision-recall over the scores 0.05 to 0.95.

Every label is a binary problem of its own: an item counts as predicted where the label's score reaches the threshold,
whatever the other labels' scores are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from leadline.evaluators.classification._items import Items, sums

if TYPE_CHECKING:
    import numpy.typing as npt

THRESHOLDS: Final = tuple(step / 100 for step in range(5, 100, 5))


@dataclass(frozen=True, slots=True)
class LabelRanking:
    """The predictions of one label, from the highest score to the lowest.

    Attributes:
        item: The item of each prediction.
        right: Whether the label is expected there.
        ends: Positions of the last prediction of each distinct score.
        scores: The distinct scores.
        positive_items: The items where the label is expected, predicted or not.
        key: The label's key.
    """

    label: int
    item: npt.NDArray[np.int64]
    right: npt.NDArray[np.bool_]
    ends: npt.NDArray[np.int64]
    scores: npt.NDArray[np.float64]
    positive_items: npt.NDArray[np.int64]
    key: int


def rankings(items: Items) -> Iterator[LabelRanking]:
    """Yield the ranking of every label that was predicted."""
    # Numbers of 16 bits are sorted by radix, which takes a fraction of the time.
    small = items.pd_label.astype(np.uint16) if len(items.labels) < 2**16 else items.pd_label
    order = np.argsort(small, kind="stable")
    labels = items.pd_label[order]
    starts = [0, *(np.flatnonzero(labels[1:] != labels[:-1]) + 1).tolist()] if len(labels) else []
    gt_order = np.argsort(items.gt_label, kind="stable")
    gt_labels = items.gt_label[gt_order]
    for start, end in pairwise([*starts, len(labels)]):
        label = int(labels[start])
        mine = order[start:end]
        mine = mine[np.argsort(-items.pd_score[mine], kind="stable")]
        scores = items.pd_score[mine]
        ends = np.flatnonzero(np.append(scores[1:] != scores[:-1], True))
        low, high = np.searchsorted(gt_labels, [label, label + 1])
        yield LabelRanking(
            label=label,
            item=items.pair_item[items.pd_pair[mine]],
            right=items.pd_right[mine],
            ends=ends,
            scores=scores[ends],
            positive_items=items.pair_item[items.gt_pair[gt_order[low:high]]],
            key=int(items.key_of[label]),
        )


@dataclass(frozen=True, slots=True)
class Weighted:
    """Weightings as the curves need them.

    Attributes:
        by_item: Array of shape ``(n, b)``: an item's weights lie side by side, so that a curve reads them in one go.
        of_key: Array of shape ``(keys, b)``: the weights of all items that have ground truth under a key.
    """

    by_item: npt.NDArray[np.float64]
    of_key: npt.NDArray[np.float64]

    @classmethod
    def of(cls, items: Items, weights: npt.NDArray[np.float64]) -> Weighted:
        """Return weightings of shape ``(b, n)`` in this form.

        Args:
            weights: Weightings, shape ``(b, n)``.
        """
        return cls(
            np.ascontiguousarray(weights.T), sums(weights[:, items.pair_item], items.pair_key, len(items.keys)).T
        )


def roc_points(
    ranking: LabelRanking, weights: Weighted, *, compat: bool
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return false and true positives at each distinct score, arrays of shape ``(b, points)``.

    Items for which the label was not predicted have it with score 0, so that the curve ends at all positives and all
    negatives; it begins at zero of both.

    Args:
        ranking: The predictions of the label.
        weights: How often each item counts.
        compat: As Valor does: only the predictions that were made count, and the curve begins at the first point
            instead of the origin, which loses the area under a tie at the top.
    """
    chosen = weights.by_item[ranking.item]
    everything = np.cumsum(chosen, axis=0)[ranking.ends]
    chosen *= ranking.right[:, np.newaxis]
    true = np.cumsum(chosen, axis=0, out=chosen)[ranking.ends]
    false = everything - true
    if not compat:
        above = int(np.count_nonzero(ranking.scores > 0))
        positive = weights.by_item[ranking.positive_items].sum(axis=0, keepdims=True)
        negative = weights.of_key[ranking.key][np.newaxis] - positive
        none = np.zeros_like(positive)
        false = np.concatenate([none, false[:above], negative])
        true = np.concatenate([none, true[:above], positive])
    return false.T, true.T


def area(false: npt.NDArray[np.float64], true: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the area under ROC curves of shape ``(b, points)`` by trapezoids; NaN without positives or negatives.

    Args:
        false: False positives at each point, shape ``(b, points)``.
        true: True positives, likewise.
    """
    all_of_it = false[:, -1] * true[:, -1]
    under = (np.diff(false, axis=1) * (true[:, 1:] + true[:, :-1])).sum(axis=1) / 2
    out = np.full(len(false), np.nan)
    np.divide(under, all_of_it, out=out, where=all_of_it > 0)
    return out


def areas(
    items: Items, weights: npt.NDArray[np.float64], *, compat: bool
) -> tuple[Sequence[int], npt.NDArray[np.float64]]:
    """Return the labels that were predicted, and the area under the ROC curve of each: shape ``(b, labels)``.

    Args:
        weights: Weightings of the items, shape ``(b, n)``.
        compat: Whether the curves are Valor's.
    """
    labels, out = [], []
    weighted = Weighted.of(items, weights)
    for ranking in rankings(items):
        labels.append(ranking.label)
        out.append(area(*roc_points(ranking, weighted, compat=compat)))
    return labels, np.stack(out, axis=1) if out else np.zeros((len(weights), 0))


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
