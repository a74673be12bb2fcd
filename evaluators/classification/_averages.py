"""The metrics of labels, of label keys and of a model, for many weightings of the items at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from leadline.evaluators.classification._curves import areas
from leadline.evaluators.classification._items import Items
from leadline.evaluators.classification._label_confusion import ratio, sums

if TYPE_CHECKING:
    import numpy.typing as npt

    Table = npt.NDArray[np.float64]


class LabelSums(NamedTuple):
    """Weighted counts of the best labels, of shape ``(b, labels)``."""

    found: Table
    right: Table
    wanted: Table


class KeyValues(NamedTuple):
    """Metrics of each label key: arrays of shape ``(b, keys)``, NaN where a key has no item."""

    accuracy: Table
    precision: Table
    recall: Table
    f1: Table
    rocauc: Table


def label_sums(items: Items, weights: Table) -> LabelSums:
    """Return how often each label was answered, answered rightly, and expected.

    Of a pair with several expected labels only one counts as wanted: the one that was answered, else the first.

    Args:
        weights: Weightings of the items, shape ``(b, n)``.
    """
    of_pair = weights[:, items.pair_item]
    size = len(items.labels)
    right = np.where(items.right, items.best, -1)
    return LabelSums(*(sums(of_pair, index, size) for index in (items.best, right, items.matched)))


def label_areas(items: Items, labels: Sequence[int], found: Table) -> Table:
    """Return the ROC AUC of each label, ``(b, labels)``: 1 without positives or negatives, NaN if never predicted.

    Args:
        labels: The labels that were predicted.
        found: Their areas, NaN where they are not defined.
    """
    out = np.full((len(found), len(items.labels)), np.nan)
    if labels:
        out[:, labels] = np.where(np.isnan(found), 1.0, found)
    return out


def by_key(items: Items, weights: Table, roc: Table, average: Literal["macro", "micro", "weighted"]) -> KeyValues:
    """Return the metrics of each label key.

    Args:
        weights: Weightings of the items, shape ``(b, n)``.
        roc: ROC AUC of each label, shape ``(b, labels)``.
        average: Average over the labels of a key.
    """
    of_pair = weights[:, items.pair_item]
    keys = len(items.keys)
    total = sums(of_pair, items.pair_key, keys)
    accuracy = ratio(sums(of_pair, np.where(items.right, items.pair_key, -1), keys), total)
    found, right, wanted = label_sums(items, weights)
    averaged = []
    for key in range(keys):
        mine = np.flatnonzero(items.key_of == key)
        averaged.append((*_average(found[:, mine], right[:, mine], wanted[:, mine], average), _mean(roc[:, mine])))
    columns = [np.stack([of_key[name] for of_key in averaged], axis=1) for name in range(4)] if keys else [total] * 4
    return KeyValues(*(np.where(total > 0, column, np.nan) for column in (accuracy, *columns)))


def overall(
    items: Items, weights: Table, average: Literal["macro", "micro", "weighted"], *, compat: bool
) -> dict[str, Table]:
    """Return each metric's mean over the label keys, ``(b,)``; keys without an item in a weighting are left out.

    Args:
        weights: Weightings of the items, shape ``(b, n)``.
        average: Average over the labels of a key.
        compat: Whether ROC curves are Valor's.
    """
    roc = label_areas(items, *areas(items, weights, compat=compat))
    values = by_key(items, weights, roc, average)._asdict()
    out = {}
    for name, table in values.items():
        known = ~np.isnan(table)
        mean = ratio(np.where(known, table, 0.0).sum(axis=1), known.sum(axis=1).astype(np.float64))
        out[name] = np.where(known.any(axis=1), mean, np.nan)
    return out


def _average(
    found: Table, right: Table, wanted: Table, average: Literal["macro", "micro", "weighted"]
) -> tuple[Table, Table, Table]:
    """Average over the labels of a key that were expected or answered, as scikit-learn with ``zero_division=0``."""
    if average == "micro":
        found, right, wanted = (each.sum(axis=1, keepdims=True) for each in (found, right, wanted))
    counted = wanted if average == "weighted" else (found + wanted > 0).astype(float)
    total = counted.sum(axis=1)
    each = (ratio(right, found), ratio(right, wanted), ratio(2 * right, found + wanted))
    precision, recall, f1 = (ratio((values * counted).sum(axis=1), total) for values in each)
    return precision, recall, f1


def _mean(roc: Table) -> Table:
    """Return the mean ROC AUC over the labels that were predicted, 0 if there are none."""
    known = ~np.isnan(roc)
    return ratio(np.where(known, roc, 0.0).sum(axis=1), known.sum(axis=1).astype(np.float64))
