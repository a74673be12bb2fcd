"""Pairs of predictions and ground truth that overlap, with their intersection over union."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from leadline.evaluators.vision.engine import mask_runs, planar
from leadline.evaluators.vision.engine.objects import Objects

if TYPE_CHECKING:
    import numpy.typing as npt

_MOST_PAIRS: Final = 1_000_000
"""Pairs in memory at a time: some 100 MB."""


@dataclass(slots=True)
class Pairs:
    """Predictions and ground truth of one image and label key that overlap, ordered by prediction.

    Attributes:
        prediction: Line of the prediction, shape ``(n,)``.
        truth: Line of the ground truth.
        iou: Area of the intersection over that of the union; over that of the prediction where the truth is a crowd.
    """

    prediction: npt.NDArray[np.int64]
    truth: npt.NDArray[np.int64]
    iou: npt.NDArray[np.float64]

    def take(self, which: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> Pairs:
        """Return the pairs at the given positions, or where a mask is true."""
        return Pairs(self.prediction[which], self.truth[which], self.iou[which])


def overlapping(predictions: Objects, truth: Objects, key_of: npt.NDArray[np.int64], least: float) -> Pairs:
    """Return the pairs within an image and label key whose IoU is at least ``least``, which is above 0.

    Geometries without an area overlap nothing. Boxes that do not touch are sorted out before anything exact is
    computed.

    Args:
        predictions: The predictions of a batch.
        truth: Its ground truth.
        key_of: Number of each label's key.
        least: Least IoU, above 0.
    """
    found = [_at_least(_exact(pairs, predictions, truth), least) for pairs in _candidates(predictions, truth, key_of)]
    if not found:
        nothing = np.empty(0, dtype=np.int64)
        return Pairs(nothing, nothing, np.empty(0))
    return Pairs(
        np.concatenate([pairs.prediction for pairs in found]),
        np.concatenate([pairs.truth for pairs in found]),
        np.concatenate([pairs.iou for pairs in found]),
    )


def _at_least(pairs: Pairs, least: float) -> Pairs:
    return pairs.take(pairs.iou >= least)


def _candidates(predictions: Objects, truth: Objects, key_of: npt.NDArray[np.int64]) -> Iterator[Pairs]:
    """Yield, in portions, the pairs whose boxes overlap; ``iou`` is that of the boxes."""
    if not len(predictions) or not len(truth):
        return
    keys = int(key_of.max()) + 1
    group = predictions.image * keys + key_of[predictions.label]
    truth_group = truth.image * keys + key_of[truth.label]
    order = np.argsort(truth_group, kind="stable")
    first = np.searchsorted(truth_group[order], group, "left")
    count = np.searchsorted(truth_group[order], group, "right") - first
    until = np.cumsum(count)
    start = 0
    while start < len(count):
        before = until[start] - count[start]
        stop = max(start + 1, int(np.searchsorted(until, before + _MOST_PAIRS, "right")))
        number = count[start:stop]
        prediction = np.repeat(np.arange(start, stop), number)
        within = np.arange(len(prediction)) - np.repeat(np.cumsum(number) - number, number)
        pairs = _box_iou(prediction, order[first[prediction] + within], predictions, truth)
        if len(pairs.iou):
            yield pairs
        start = stop


def _box_iou(
    prediction: npt.NDArray[np.int64], true: npt.NDArray[np.int64], predictions: Objects, truth: Objects
) -> Pairs:
    a, b = predictions.box, truth.box
    width = np.minimum(a[prediction, 2], b[true, 2]) - np.maximum(a[prediction, 0], b[true, 0])
    near = np.flatnonzero(width > 0)
    prediction, true, width = prediction[near], true[near], width[near]
    height = np.minimum(a[prediction, 3], b[true, 3]) - np.maximum(a[prediction, 1], b[true, 1])
    near = np.flatnonzero(height > 0)
    prediction, true = prediction[near], true[near]
    shared = width[near] * height[near]
    return Pairs(prediction, true, _ratio(shared, _box_area(a)[prediction], _box_area(b)[true], truth.crowd[true]))


def _box_area(box: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    area: npt.NDArray[np.float64] = (box[:, 2] - box[:, 0]) * (box[:, 3] - box[:, 1])
    return area


def _ratio(
    shared: npt.NDArray[np.float64],
    predicted: npt.NDArray[np.float64],
    true: npt.NDArray[np.float64],
    crowd: npt.NDArray[np.bool_],
) -> npt.NDArray[np.float64]:
    union = np.where(crowd, predicted, predicted + true - shared)
    return np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)


def _exact(pairs: Pairs, predictions: Objects, truth: Objects) -> Pairs:
    """Replace the IoU of boxes by that of the geometries that are no axis-aligned boxes."""
    if not predictions.shape and not truth.shape:
        return pairs
    shaped = np.array(
        [
            p in predictions.shape or t in truth.shape
            for p, t in zip(pairs.prediction.tolist(), pairs.truth.tolist(), strict=True)
        ],
        dtype=bool,
    )
    masks = np.array([isinstance(truth.shape.get(t), mask_runs.Runs) for t in pairs.truth.tolist()], dtype=bool)
    iou = pairs.iou.copy()
    for which, measure in ((np.flatnonzero(shaped & masks), _of_masks), (np.flatnonzero(shaped & ~masks), _of_planar)):
        if len(which):
            shared, predicted, true = measure(pairs.take(which), predictions, truth)
            iou[which] = _ratio(shared, predicted, true, truth.crowd[pairs.truth[which]])
    return Pairs(pairs.prediction, pairs.truth, iou)


def _of_masks(
    pairs: Pairs, predictions: Objects, truth: Objects
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the intersections and both areas of masks, in pixels; all that meet one true mask are measured at once."""
    shared = np.zeros(len(pairs.truth))
    order = np.argsort(pairs.truth, kind="stable")
    for which in np.split(order, np.flatnonzero(np.diff(pairs.truth[order])) + 1):
        masks = [predictions.shape[p] for p in pairs.prediction[which].tolist()]
        shared[which] = mask_runs.intersections(masks, truth.shape[int(pairs.truth[which[0]])])
    return shared, _mask_areas(predictions, pairs.prediction), _mask_areas(truth, pairs.truth)


def _mask_areas(objects: Objects, lines: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    different, where = np.unique(lines, return_inverse=True)
    return np.array([objects.shape[line].area for line in different.tolist()], dtype=np.float64)[where]


def _of_planar(
    pairs: Pairs, predictions: Objects, truth: Objects
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the intersections and both areas of polygons and rotated boxes."""
    left = [_planar_shape(predictions, line) for line in pairs.prediction.tolist()]
    right = [_planar_shape(truth, line) for line in pairs.truth.tolist()]
    return planar.intersection(left, right), planar.area(left), planar.area(right)


def _planar_shape(objects: Objects, line: int) -> planar.Shape:
    shape = objects.shape.get(line)
    return planar.from_box(objects.box[line].tolist()) if shape is None else shape
