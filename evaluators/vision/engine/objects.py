"""The labelled geometries of many images as flat arrays, and the pairs of predictions and ground truth that overlap.

An annotation's detail is that of its geometry: a box is less detailed than a polygon, a polygon less than a raster.
Within an image all annotations are converted to the least detailed geometry among them: a raster becomes the outline
of its pixels, a polygon or raster the axis-aligned box around it. Pixel ``(row, column)`` is the square from
``(column, row)`` to ``(column + 1, row + 1)``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from leadline.evaluators.data import Annotation, Annotations, LabelName, geometry, parts
from leadline.evaluators.vision.engine.geometry import (
    Box,
    Runs,
    Shape,
    areas,
    bounds,
    box_shape,
    outline,
    polygon,
    runs_of,
    same_size,
    shared_areas,
    shared_pixels,
)

if TYPE_CHECKING:
    import numpy.typing as npt

Detail: TypeAlias = Literal["box", "polygon", "raster"]

_NAMES: Final[tuple[Detail, ...]] = ("box", "polygon", "raster")
_DETAIL: Final[dict[str, int]] = {name: detail for detail, name in enumerate(_NAMES)}

_MOST_PAIRS: Final = 1_000_000
"""Pairs in memory at a time: some 100 MB."""


class Labels:
    """The labels of a batch, numbered in the order in which they are met, after the label map."""

    def __init__(self, label_map: Mapping[LabelName, LabelName] | None = None) -> None:
        self.names: list[LabelName] = []
        self._map = label_map or {}
        self._by_name: dict[LabelName, int] = {}
        self._by_written: dict[LabelName, int] = {}

    def number(self, key: str, value: str) -> int:
        """Return the number of a label as it is written.

        Args:
            key: The label's key.
        """
        written = (key, value)
        number = self._by_written.get(written)
        if number is None:
            name = self._map.get(written, written)
            number = self._by_name.setdefault(name, len(self.names))
            if number == len(self.names):
                self.names.append(name)
            self._by_written[written] = number
        return number

    def keys(self) -> npt.NDArray[np.int64]:
        """Return for each label the number of its key."""
        numbers = {key: number for number, key in enumerate(dict.fromkeys(key for key, _ in self.names))}
        return np.array([numbers[key] for key, _ in self.names], dtype=np.int64)


@dataclass(slots=True)
class Objects:
    """One side (ground truth or predictions) of a batch of images; one line per label of an annotation.

    Attributes:
        image: Position of the image in the batch, ascending, shape ``(n,)``.
        label: Number of the label.
        score: Confidence; 1 where a prediction has none, and for ground truth.
        index: Position of the annotation in its image's list.
        crowd: Whether it is a region of ground truth around a group of objects.
        box: Axis-aligned box around it, shape ``(n, 4)``.
        shape: The geometry where it is no axis-aligned box: a shapely shape or :class:`~.geometry.Runs`.
    """

    image: npt.NDArray[np.int64]
    label: npt.NDArray[np.int64]
    score: npt.NDArray[np.float64]
    index: npt.NDArray[np.int64]
    crowd: npt.NDArray[np.bool_]
    box: npt.NDArray[np.float64]
    shape: Mapping[int, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.image)

    def take(self, order: npt.NDArray[np.int64]) -> Objects:
        """Return the lines at the given positions, in that order."""
        shape = {}
        if self.shape:
            shape = {new: self.shape[old] for new, old in enumerate(order.tolist()) if old in self.shape}
        return Objects(
            self.image[order],
            self.label[order],
            self.score[order],
            self.index[order],
            self.crowd[order],
            self.box[order],
            shape,
        )


def countable(annotations: Annotations, *, crowds: bool) -> list[tuple[int, Annotation]]:
    """Return the annotations that are objects, with their positions: those with a geometry that are instances.

    Args:
        annotations: All annotations of one side of an image.
        crowds: Whether to keep regions around a group of objects too.
    """
    return [
        (position, annotation)
        for position, annotation in enumerate(annotations)
        if ("box" in annotation or geometry(annotation) is not None)
        and (annotation.get("is_instance", True) or (crowds and annotation.get("is_crowd", False)))
    ]


def common_detail(annotations: Iterable[Annotation], wanted: Detail | None) -> Detail:
    """Return the type to which the annotations of both sides of an image are converted.

    Args:
        annotations: The annotations of both sides of an image.
        wanted: The type that was asked for, ``None`` for the least detailed one.

    Raises:
        ValueError: The type wanted is more detailed than an annotation, or masks differ in size.
    """
    annotations = list(annotations)
    least = min((_DETAIL[geometry(annotation) or "raster"] for annotation in annotations), default=_DETAIL["raster"])
    detail = wanted or _NAMES[least]
    if _DETAIL[detail] > least:
        raise ValueError(f"a {_NAMES[least]} cannot be converted to a {wanted}, which is more detailed")
    same_size(tuple(raster["size"]) for raster in (a["raster"] for a in annotations if "raster" in a))
    return detail


def collect(images: Sequence[tuple[Sequence[tuple[int, Annotation]], Detail]], labels: Labels) -> Objects:
    """Return the objects of one side of a batch.

    Args:
        images: For each image its countable annotations, and the type to which they are converted.
        labels: Numbers the labels; it is shared by both sides.

    Raises:
        ValueError: A geometry makes no sense.
    """
    image: list[int] = []
    label: list[int] = []
    score: list[float] = []
    index: list[int] = []
    crowd: list[bool] = []
    coordinates: list[float] = []
    shape: dict[int, Any] = {}
    number = labels.number
    masks = _masks_of(images)
    for at, (listed, detail) in enumerate(images):
        for position, annotation in listed:
            box: Any = annotation.get("box")
            converted = None
            if box is None or not isinstance(box[0], float | int):
                box, converted = convert(annotation, detail, masks.get(id(annotation)))
            for one in annotation["labels"]:
                if converted is not None:
                    shape[len(image)] = converted
                image.append(at)
                label.append(number(one["key"], one["value"]))
                score.append(one.get("score", 1.0))
                index.append(position)
                crowd.append("is_crowd" in annotation and annotation["is_crowd"])
                coordinates += box
    return Objects(
        np.array(image, dtype=np.int64),
        np.array(label, dtype=np.int64),
        np.array(score, dtype=np.float64),
        np.array(index, dtype=np.int64),
        np.array(crowd, dtype=np.bool_),
        np.array(coordinates, dtype=np.float64).reshape(-1, 4),
        shape,
    )


def _masks_of(images: Sequence[tuple[Sequence[tuple[int, Annotation]], Detail]]) -> dict[int, Runs]:
    """Return the runs of all masks of a batch by the identity of their annotations, decoded together."""
    masked = [annotation for listed, _ in images for _, annotation in listed if "raster" in annotation]
    runs = runs_of([annotation["raster"] for annotation in masked]) if masked else []
    return {id(annotation): one for annotation, one in zip(masked, runs, strict=True)}


def convert(annotation: Annotation, detail: Detail, runs: Runs | None = None) -> tuple[Sequence[float], Any]:
    """Return the box around an annotation and its geometry at a level of detail, ``None`` where that is the box.

    Args:
        detail: The type to convert it to.
        runs: Its mask, where it was decoded before.
    """
    if "raster" in annotation:
        runs = runs_of([annotation["raster"]])[0] if runs is None else runs
        if detail == "raster":
            return runs.box, runs
        return runs.box, None if detail == "box" else outline(runs)
    if "polygon" in annotation:
        if detail == "box":
            return _around([point for rings in parts(annotation) for point in rings[0]]), None
        shape = polygon(parts(annotation))
        return bounds(shape), shape
    corners: Any = annotation["box"]
    if isinstance(corners[0], float | int):
        return corners, None
    around = _around(corners)
    if all(x in around[::2] and y in around[1::2] for x, y in corners) and len({tuple(c) for c in corners}) == 4:
        return around, None
    return around, polygon([[corners]])


def _around(points: Sequence[Sequence[float]]) -> Box:
    xs, ys = [point[0] for point in points], [point[1] for point in points]
    return min(xs), min(ys), max(xs), max(ys)


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
    exact = (_exact(pairs, predictions, truth) for pairs in _candidates(predictions, truth, key_of))
    found = [pairs.take(pairs.iou >= least) for pairs in exact]
    if not found:
        nothing = np.empty(0, dtype=np.int64)
        return Pairs(nothing, nothing, np.empty(0))
    return Pairs(
        np.concatenate([pairs.prediction for pairs in found]),
        np.concatenate([pairs.truth for pairs in found]),
        np.concatenate([pairs.iou for pairs in found]),
    )


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
    masks = np.array([isinstance(truth.shape.get(t), Runs) for t in pairs.truth.tolist()], dtype=bool)
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
        shared[which] = shared_pixels(masks, truth.shape[int(pairs.truth[which[0]])])
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
    return shared_areas(left, right), areas(left), areas(right)


def _planar_shape(objects: Objects, line: int) -> Shape:
    shape = objects.shape.get(line)
    return box_shape(objects.box[line].tolist()) if shape is None else shape
