"""Labelled items as flat arrays: what was expected, what was predicted with which score, and what scored best.

The unit is a *pair* of an item and a label key under which the item has ground truth. Predictions under a key for which
an item has no ground truth cannot be right or wrong, and are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from leadline.evaluators.data import Json

if TYPE_CHECKING:
    import numpy.typing as npt

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
