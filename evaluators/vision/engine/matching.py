"""Matches a batch of images: which predictions are right and which ground truth was found, at many IoU thresholds.

Everything is computed for all images of a batch at once; nothing of one image touches another.

Predictions take their turn by falling score. At each threshold a prediction finds the best of its candidates that
no other prediction has found yet. Turns of different groups (an image and a label) do not depend on each other, so
that the n-th turns of all groups are taken together.

The payload of an image is its predictions and ground truth and how they were matched, as short JSON: lines are packed
as base64 of little-endian records, some 25 characters a prediction, and labels are written once per image as
``{key: [value, …]}`` and numbered in that order.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np

from leadline.evaluators.data import Annotations, Json, LabelName
from leadline.evaluators.vision.engine.objects import (
    Detail,
    Labels,
    Objects,
    Pairs,
    collect,
    common_detail,
    countable,
    overlapping,
)

if TYPE_CHECKING:
    import numpy.typing as npt

Method: TypeAlias = Literal["valor", "coco"]
Records: TypeAlias = "npt.NDArray[np.void]"

RIGHT: Final = 1
"""Bit of ``how``: the prediction overlaps a ground truth of its label (by the IoU of the curves)."""

WRONG: Final = 2
"""Bit of ``how``: it overlaps a ground truth of another label of its key."""

NEVER: Final = -1.0
"""Score of a ground truth that no prediction overlaps."""

COCO_MOST: Final = 100
"""Predictions of one image and label that COCO looks at, the most confident ones."""


def prediction_type(thresholds: int) -> np.dtype[np.void]:
    """Return the record of a prediction.

    ``label`` and ``index`` (its place in the row's annotations), ``score``, the bits ``hits`` and ``ignored`` by IoU
    threshold, and ``how``.
    """
    bits = next(f"<u{size}" for size in (2, 4, 8) if thresholds <= 8 * size)
    return np.dtype(
        [("label", "<u4"), ("index", "<u4"), ("score", "<f8"), ("hits", bits), ("ignored", bits), ("how", "u1")]
    )


def truth_type() -> np.dtype[np.void]:
    """Return the record of a ground truth.

    ``label`` and ``index``, the highest score of a prediction that overlaps it with its label (``right``) and with
    another (``wrong``), and the line of its prediction in the confusion matrix, -1 for none.
    """
    return np.dtype([("label", "<u4"), ("index", "<u4"), ("right", "<f8"), ("wrong", "<f8"), ("partner", "<i4")])


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules that decide whether a prediction has found something.

    Attributes:
        method: Valor's rules or COCO's.
        thresholds: IoU thresholds, in the order of the bits of ``hits``.
        curve: Which of them the curves and the confusion matrix use.
        most: Predictions of one image and label that count, the most confident ones; 0 for all.
        confusion_score: Least score in the confusion matrix.
        label_map: Labels that count as another.
        convert: The type to which annotations are converted, ``None`` for the least detailed of each image.
    """

    method: Method
    thresholds: tuple[float, ...]
    curve: int
    most: int
    confusion_score: float
    label_map: dict[LabelName, LabelName]
    convert: Detail | None


@dataclass(frozen=True, slots=True)
class MatchedBatch:
    """The predictions and the ground truth of a batch, matched.

    Attributes:
        names: The labels by number.
        predictions: Predictions by image and falling score.
        truth: Ground truth by image, without crowds.
        prediction_records: The payload's record of each prediction.
        truth_records: The payload's record of each ground truth.
        hits: Whether each prediction is a true positive at each threshold, shape ``(predictions, thresholds)``.
        ignored: Whether it is neither right nor wrong.
    """

    names: list[LabelName]
    predictions: Objects
    truth: Objects
    prediction_records: Records
    truth_records: Records
    hits: npt.NDArray[np.bool_]
    ignored: npt.NDArray[np.bool_]

    def payloads(self, images: int) -> list[Json]:
        """Return the payload of each image of the batch."""
        predicted, true = (
            np.searchsorted(side.image, np.arange(images + 1)) for side in (self.predictions, self.truth)
        )
        return [
            _packed(
                self.names,
                predictions=self.prediction_records[predicted[image] : predicted[image + 1]],
                truth=self.truth_records[true[image] : true[image + 1]],
            )
            for image in range(images)
        ]


def match_images(images: Sequence[tuple[Annotations, Annotations]], rules: Rules) -> MatchedBatch:
    """Match the predictions of a batch of images with their ground truth.

    Args:
        images: For each image its ground truth and its predictions.
        rules: The rules that decide.

    Raises:
        ValueError: A geometry makes no sense, or cannot be converted.
    """
    names, predictions, truth, keys = _sides(images, rules)
    thresholds = np.array(rules.thresholds)
    if rules.method == "coco":
        thresholds = np.minimum(thresholds, 1 - 1e-10)
    pairs = overlapping(predictions, truth, keys, float(thresholds.min()))
    found = _found(pairs, predictions, truth, thresholds, rules.method)
    crowd = (found >= 0) & truth.crowd[found] if len(truth) else np.zeros(found.shape, dtype=bool)
    hits = (found >= 0) & ~crowd
    near = pairs.take((pairs.iou >= thresholds[rules.curve]) & ~truth.crowd[pairs.truth])
    first = np.searchsorted(predictions.image, np.arange(len(images)))
    counted = np.flatnonzero(~truth.crowd)
    truth_records = _truth_records(near, predictions, truth, first, _partners(near, predictions, truth, keys, rules))
    return MatchedBatch(
        names,
        predictions,
        truth.take(counted),
        _prediction_records(near, predictions, truth, hits, crowd),
        truth_records[counted],
        hits,
        crowd,
    )


def _sides(
    images: Sequence[tuple[Annotations, Annotations]], rules: Rules
) -> tuple[list[LabelName], Objects, Objects, npt.NDArray[np.int64]]:
    """Return the labels, the predictions by image and falling score, the ground truth, and the key of each label."""
    crowds = rules.method == "coco"
    kept = [(countable(expected, crowds=crowds), countable(predicted, crowds=False)) for expected, predicted in images]
    details = [common_detail([one for side in sides for _, one in side], rules.convert) for sides in kept]
    labels = Labels(rules.label_map)
    truth = collect([(expected, detail) for (expected, _), detail in zip(kept, details, strict=True)], labels)
    predictions = collect([(predicted, detail) for (_, predicted), detail in zip(kept, details, strict=True)], labels)
    order = np.lexsort((-predictions.score, predictions.image))
    if rules.most:
        place = _ranks(predictions.image * (len(labels.names) + 1) + predictions.label, -predictions.score)
        order = order[place[order] < rules.most]
    return labels.names, predictions.take(order), truth, labels.keys()


def _found(
    pairs: Pairs, predictions: Objects, truth: Objects, thresholds: npt.NDArray[np.float64], method: Method
) -> npt.NDArray[np.int64]:
    """Return the ground truth that each prediction found at each threshold, -1 for none."""
    own = pairs.take(predictions.label[pairs.prediction] == truth.label[pairs.truth])
    keys: tuple[npt.NDArray[np.float64], ...] = (-predictions.score,)
    if method == "valor":
        own = _best_only(own)
        best = np.zeros(len(predictions))
        best[own.prediction] = own.iou
        keys = (-predictions.score, -best)
    group = predictions.image * (int(predictions.label.max(initial=0)) + 1) + predictions.label
    return _assign(own, group, keys, truth.crowd, thresholds)


def _partners(
    near: Pairs, predictions: Objects, truth: Objects, keys: npt.NDArray[np.int64], rules: Rules
) -> npt.NDArray[np.int64]:
    """Return the prediction with which each ground truth stands in the confusion matrix, of whatever label."""
    confident = near.take(predictions.score[near.prediction] >= rules.confusion_score)
    group = predictions.image * (int(keys.max(initial=0)) + 1) + keys[predictions.label]
    threshold = np.array([rules.thresholds[rules.curve]])
    found = _assign(confident, group, (-predictions.score,), truth.crowd, threshold)[:, 0]
    partner = np.full(len(truth), -1, dtype=np.int64)
    which = np.flatnonzero(found >= 0)
    partner[found[which]] = which
    return partner


def _prediction_records(
    near: Pairs, predictions: Objects, truth: Objects, hits: npt.NDArray[np.bool_], ignored: npt.NDArray[np.bool_]
) -> Records:
    out = np.zeros(len(predictions), dtype=prediction_type(hits.shape[1]))
    out["label"], out["index"], out["score"] = predictions.label, predictions.index, predictions.score
    bits = np.uint64(1) << np.arange(hits.shape[1], dtype=np.uint64)
    out["hits"] = np.where(hits, bits, np.uint64(0)).sum(axis=1)
    out["ignored"] = np.where(ignored, bits, np.uint64(0)).sum(axis=1)
    same = predictions.label[near.prediction] == truth.label[near.truth]
    how = np.zeros(len(predictions), dtype=np.uint8)
    how[near.prediction[same]] |= RIGHT
    how[near.prediction[~same]] |= WRONG
    out["how"] = how
    return out


def _truth_records(
    near: Pairs, predictions: Objects, truth: Objects, first: npt.NDArray[np.int64], partner: npt.NDArray[np.int64]
) -> Records:
    out = np.zeros(len(truth), dtype=truth_type())
    out["label"], out["index"] = truth.label, truth.index
    same = predictions.label[near.prediction] == truth.label[near.truth]
    for name, which in (("right", same), ("wrong", ~same)):
        best = np.full(len(truth), NEVER)
        np.maximum.at(best, near.truth[which], predictions.score[near.prediction[which]])
        out[name] = best
    out["partner"] = np.where(partner >= 0, partner - first[truth.image], -1)
    return out


def _ranks(group: npt.NDArray[np.int64], *keys: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return the rank of each line within its group by rising keys, the first deciding first, ties by position."""
    order = np.lexsort((*reversed(keys), group))
    sorted_group = group[order]
    first = np.ones(len(group), dtype=bool)
    first[1:] = sorted_group[1:] != sorted_group[:-1]
    starts = np.flatnonzero(first)
    out = np.empty(len(group), dtype=np.int64)
    out[order] = np.arange(len(group)) - np.repeat(starts, np.diff(np.append(starts, len(group))))
    return out


def _best_only(pairs: Pairs) -> Pairs:
    """Return for each prediction its pair of highest IoU, the first ground truth where several are equal."""
    order = np.lexsort((pairs.truth, -pairs.iou, pairs.prediction))
    sorted_prediction = pairs.prediction[order]
    first = np.ones(len(order), dtype=bool)
    first[1:] = sorted_prediction[1:] != sorted_prediction[:-1]
    return pairs.take(order[first])


def _assign(
    pairs: Pairs,
    group: npt.NDArray[np.int64],
    order: tuple[npt.NDArray[np.float64], ...],
    shared: npt.NDArray[np.bool_],
    thresholds: npt.NDArray[np.float64],
) -> npt.NDArray[np.int64]:
    """Assign ground truth to predictions, at most one to each, at each threshold.

    Args:
        pairs: The candidates.
        group: For each prediction its group, shape ``(predictions,)``; only predictions of one group may have a
            candidate in common.
        order: Keys by which the predictions of a group take their turn, each of shape ``(predictions,)``, lowest first,
            the first deciding first, ties by position.
        shared: For each ground truth whether any number of predictions may find it; such ones are chosen last, as
            crowds are in COCO.
        thresholds: Least IoU, shape ``(t,)``.

    Returns:
        Lines of the ground truth, -1 for none, shape ``(predictions, t)``.
    """
    found = np.full((len(group), len(thresholds)), -1, dtype=np.int64)
    if not len(pairs.iou):
        return found
    involved, which = np.unique(pairs.prediction, return_inverse=True)
    turn = _ranks(group[involved], *(key[involved] for key in order))[which]
    taken = np.zeros((len(shared), len(thresholds)), dtype=bool)
    sequence = np.lexsort((-pairs.truth, -pairs.iou, shared[pairs.truth], pairs.prediction, turn))
    pairs, turn = pairs.take(sequence), turn[sequence]
    bounds = np.append(np.flatnonzero(np.diff(turn, prepend=-1)), len(turn))
    for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        _take_turn(pairs.take(np.arange(start, stop)), thresholds, shared, taken, found)
    return found


def _take_turn(
    pairs: Pairs,
    thresholds: npt.NDArray[np.float64],
    shared: npt.NDArray[np.bool_],
    taken: npt.NDArray[np.bool_],
    found: npt.NDArray[np.int64],
) -> None:
    """Let one prediction of each group choose; ``pairs`` are in the order of preference within a prediction."""
    free = (pairs.iou[:, np.newaxis] >= thresholds) & ~taken[pairs.truth]
    starts = np.flatnonzero(np.diff(pairs.prediction, prepend=-1))
    position = np.where(free, np.arange(len(pairs.iou))[:, np.newaxis], len(pairs.iou))
    chosen = np.minimum.reduceat(position, starts, axis=0)
    which, threshold = np.nonzero(chosen < len(pairs.iou))
    truth = pairs.truth[chosen[which, threshold]]
    found[pairs.prediction[starts[which]], threshold] = truth
    exclusive = ~shared[truth]
    taken[truth[exclusive], threshold[exclusive]] = True


def _packed(names: Sequence[LabelName], **sides: Records) -> Json:
    """Return the payload of an image from the records of its sides, whose labels are numbers of ``names``."""
    used = np.unique(np.concatenate([records["label"] for records in sides.values()])).tolist()
    used.sort(key=lambda label: names[label])
    labels: dict[str, list[str]] = {}
    for label in used:
        key, value = names[label]
        labels.setdefault(key, []).append(value)
    place = np.zeros(max(used, default=0) + 1, dtype=np.uint32)
    place[used] = np.arange(len(used))
    out: dict[str, Json] = {"labels": labels}
    for side, records in sides.items():
        lines = records.copy()
        lines["label"] = place[lines["label"]]
        out[side] = base64.b64encode(lines.tobytes()).decode("ascii")
    return out
