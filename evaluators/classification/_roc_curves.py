"""ROC curves of labels, each against all others, and the areas under them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from leadline.evaluators.classification._items import Items
from leadline.evaluators.classification._label_confusion import sums

if TYPE_CHECKING:
    import numpy.typing as npt


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
