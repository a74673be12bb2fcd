"""Labelled items as flat arrays, and the metrics of labels and label keys for many weightings of the items at once.

The unit is a *pair* of an item and a label key under which the item has ground truth. Predictions under a key for which
an item has no ground truth cannot be right or wrong, and are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, cast

import numpy as np

from leadline.evaluators.data import Json

if TYPE_CHECKING:
    import numpy.typing as npt

    Table = npt.NDArray[np.float64]

Average: TypeAlias = Literal["macro", "micro", "weighted", "binary"]
"""How values of labels become one, as scikit-learn's parameter of this name."""

_BETWEEN: Final = "\x1f"
"""Separator of key and value of a label in a payload."""


def joined(key: str, value: str) -> str:
    """Return a label as one text.

    Args:
        key: The label's key.
    """
    return f"{key.replace(_BETWEEN, ' ')}{_BETWEEN}{value}"


def payload_of(expected: Sequence[tuple[str, str]], predicted: Sequence[tuple[str, str, float]]) -> Json:
    """Return the payload of one item.

    Args:
        expected: Distinct labels that are expected, as key and value.
        predicted: Labels that were predicted, with their scores.
    """
    return {
        "expected": [joined(*label) for label in expected],
        "predicted": [joined(key, value) for key, value, _ in predicted],
        "scores": [score for *_, score in predicted],
    }


@dataclass(frozen=True, slots=True)
class Items:
    """Distinct payloads as arrays. Labels, keys, items and pairs are numbers.

    Attributes:
        size: Number of items.
        labels: Key and value of each label, sorted.
        keys: The label keys that have ground truth, sorted.
        key_of: For each label the number of its key, -1 for a key without ground truth.
        best: For each pair the label with the highest score, the first of equals; -1 where none was predicted.
        matched: For each pair the label that ``best`` is compared with: itself if it is right, else the first expected.
        right: For each pair whether the best label is expected.
        gt_pair: For each expected label its pair.
        pd_pair: For each prediction its pair, ascending.
        pd_right: Whether the label is expected.
    """

    size: int
    labels: list[tuple[str, str]]
    keys: list[str]
    key_of: npt.NDArray[np.int64]
    pair_item: npt.NDArray[np.int64]
    pair_key: npt.NDArray[np.int64]
    best: npt.NDArray[np.int64]
    best_score: npt.NDArray[np.float64]
    matched: npt.NDArray[np.int64]
    right: npt.NDArray[np.bool_]
    gt_pair: npt.NDArray[np.int64]
    gt_label: npt.NDArray[np.int64]
    pd_pair: npt.NDArray[np.int64]
    pd_label: npt.NDArray[np.int64]
    pd_score: npt.NDArray[np.float64]
    pd_right: npt.NDArray[np.bool_]


def items_of(payloads: Sequence[Json], score_threshold: float) -> Items:
    """Return payloads as arrays.

    Args:
        payloads: Payloads, see :func:`payload_of`.
        score_threshold: Score below which the best label of a pair counts as no prediction.
    """
    given = cast("Sequence[dict[str, Any]]", payloads)
    names = sorted({*chain.from_iterable(p["expected"] for p in given), *_distinct(given)})
    number = {name: index for index, name in enumerate(names)}
    labels = [cast("tuple[str, str]", tuple(name.split(_BETWEEN, 1))) for name in names]
    gt_item, gt_label = _flat(given, "expected", number)
    pd_item, pd_label = _flat(given, "predicted", number)
    scores = np.fromiter(chain.from_iterable(p["scores"] for p in given), np.float64, count=len(pd_label))

    all_keys = sorted({key for key, _ in labels})
    key_number = {key: index for index, key in enumerate(all_keys)}
    key_of = np.array([key_number[key] for key, _ in labels], dtype=np.int64)
    codes, gt_pair = np.unique(gt_item * len(all_keys) + key_of[gt_label], return_inverse=True)
    pair_item, pair_key = np.divmod(codes, len(all_keys)) if len(codes) else (codes, codes)

    pd_code = pd_item * len(all_keys) + key_of[pd_label]
    pd_pair = np.searchsorted(codes, pd_code)
    known = pd_pair < len(codes)
    known[known] = codes[pd_pair[known]] == pd_code[known]
    if not known.all():
        pd_pair, pd_label, scores = pd_pair[known], pd_label[known], scores[known]
    order = np.argsort(pd_pair, kind="stable")
    pd_pair, pd_label, scores = pd_pair[order], pd_label[order], scores[order]

    first_gt = np.full(len(codes), -1, dtype=np.int64)
    first_gt[gt_pair[::-1]] = gt_label[::-1]
    pd_right = _are_expected(pd_pair, pd_label, gt_pair, gt_label, first_gt, len(names))
    best, best_score, best_at = _best(pd_pair, pd_label, scores, len(codes), score_threshold)
    right = (best >= 0) & pd_right[best_at] if len(pd_right) else np.zeros(len(codes), dtype=bool)

    used = sorted({int(key) for key in pair_key})
    renumber = np.full(len(all_keys), -1, dtype=np.int64)
    renumber[used] = np.arange(len(used))
    return Items(
        size=len(given),
        labels=labels,
        keys=[all_keys[key] for key in used],
        key_of=renumber[key_of],
        pair_item=pair_item,
        pair_key=renumber[pair_key],
        best=best,
        best_score=best_score,
        matched=np.where(right, best, first_gt),
        right=right,
        gt_pair=gt_pair,
        gt_label=gt_label,
        pd_pair=pd_pair,
        pd_label=pd_label,
        pd_score=scores,
        pd_right=pd_right,
    )


def _distinct(payloads: Sequence[dict[str, Any]]) -> set[str]:
    return set(chain.from_iterable(payload["predicted"] for payload in payloads))


def _flat(
    payloads: Sequence[dict[str, Any]], member: str, number: dict[str, int]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return item and label of everything in a member's lists."""
    sizes = np.fromiter((len(payload[member]) for payload in payloads), np.int64, count=len(payloads))
    found = chain.from_iterable(payload[member] for payload in payloads)
    labels = np.fromiter(map(number.__getitem__, found), np.int64, count=int(sizes.sum()))
    return np.repeat(np.arange(len(payloads)), sizes), labels


def _are_expected(
    pairs: npt.NDArray[np.int64],
    labels: npt.NDArray[np.int64],
    gt_pair: npt.NDArray[np.int64],
    gt_label: npt.NDArray[np.int64],
    first_gt: npt.NDArray[np.int64],
    n_labels: int,
) -> npt.NDArray[np.bool_]:
    """Return for each predicted label whether it is expected; one expected label per pair needs no search."""
    if len(gt_pair) == len(first_gt):
        return np.asarray(first_gt[pairs] == labels)
    known = np.sort(gt_pair * n_labels + gt_label)
    wanted = pairs * n_labels + labels
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.asarray(known[at] == wanted)


def _best(
    pairs: npt.NDArray[np.int64],
    labels: npt.NDArray[np.int64],
    scores: npt.NDArray[np.float64],
    n_pairs: int,
    threshold: float,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Return for each pair the label that scores highest, its score, and where it stands among the predictions."""
    best = np.full(n_pairs, -1, dtype=np.int64)
    best_score = np.full(n_pairs, -1.0)
    best_at = np.zeros(n_pairs, dtype=np.int64)
    if len(pairs):
        starts = np.flatnonzero(np.concatenate(([True], pairs[1:] != pairs[:-1])))
        highest = np.maximum.reduceat(scores, starts)
        at = np.flatnonzero(scores == np.repeat(highest, np.diff(np.append(starts, len(pairs)))))
        at = at[np.concatenate(([True], pairs[at][1:] != pairs[at][:-1]))]
        at = at[scores[at] >= threshold]
        best[pairs[at]], best_score[pairs[at]], best_at[pairs[at]] = labels[at], scores[at], at
    return best, best_score, best_at


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


def by_key(items: Items, weights: Table, roc: Table, average: Average) -> KeyValues:
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
        values = averages(found[:, mine], right[:, mine], wanted[:, mine], average)
        averaged.append((*values.values(), mean_of_known(roc[:, mine], 0.0)))
    columns = [np.stack([of_key[name] for of_key in averaged], axis=1) for name in range(4)] if keys else [total] * 4
    return KeyValues(*(np.where(total > 0, column, np.nan) for column in (accuracy, *columns)))


def ratios(found: Table, right: Table, wanted: Table) -> dict[str, Table]:
    """Return precision, recall and F1 of each label, from how often it was answered, answered rightly and expected."""
    return {"precision": ratio(right, found), "recall": ratio(right, wanted), "f1": ratio(2 * right, found + wanted)}


def averages(found: Table, right: Table, wanted: Table, average: Average, *, every: bool = False) -> dict[str, Table]:
    """Return precision, recall and F1 averaged over labels, ``(b,)``, as scikit-learn with ``zero_division=0``.

    Args:
        found: How often each label was answered, shape ``(b, labels)``.
        right: How often rightly.
        wanted: How often it was expected.
        every: Whether ``macro`` counts labels too that were neither expected nor answered.
    """
    if average == "micro":
        found, right, wanted = (each.sum(axis=1, keepdims=True) for each in (found, right, wanted))
    if average == "weighted":
        counted = wanted
    else:
        counted = np.ones_like(found) if every else (found + wanted > 0).astype(np.float64)
    total = counted.sum(axis=1)
    return {name: ratio((values * counted).sum(axis=1), total) for name, values in ratios(found, right, wanted).items()}


def mean_of_known(table: Table, unknown: float) -> Table:
    """Return the mean of each line of a table without its NaN; ``unknown`` where it has nothing else."""
    known = ~np.isnan(table)
    mean = ratio(np.where(known, table, 0.0).sum(axis=1), known.sum(axis=1).astype(np.float64))
    return np.where(known.any(axis=1), mean, unknown)


def sums(weights: npt.NDArray[np.float64], index: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.float64]:
    """Return the sum of the weights of each label, shape ``(b, size)``.

    Args:
        weights: Array of shape ``(b, n)``.
        index: Label of each of the ``n``; -1 counts nowhere.
        size: Number of labels.
    """
    out = np.zeros((len(weights), size))
    order = np.argsort(index, kind="stable")
    order = order[index[order] >= 0]
    if len(order):
        ranked = index[order]
        first = np.flatnonzero(np.concatenate(([True], ranked[1:] != ranked[:-1])))
        out[:, ranked[first]] = np.add.reduceat(weights[:, order], first, axis=1)
    return out


def ratio(above: npt.NDArray[np.float64], below: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return above / below, 0 where ``below`` is 0.

    Args:
        above: Numerators.
        below: Denominators, of the same shape.
    """
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)
