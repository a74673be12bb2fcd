"""Segmentation: the overlap of the labelled regions of an image, its sums over a dataset, and the details of a model.

Regions are compared in pixels or, where an image has polygons, in exact areas. Of an image only areas are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from leadline.evaluators.data import (
    MOST_EXAMPLES,
    MOST_LABELS,
    Annotations,
    Confusion,
    Details,
    Example,
    Json,
    LabelName,
    LabelValues,
)
from leadline.evaluators.vision.engine.confusion import as_count, confusion
from leadline.evaluators.vision.engine.geometry import (
    areas,
    same_size,
    shared_areas,
    shared_pixels,
    united_masks,
    united_shapes,
)
from leadline.evaluators.vision.engine.objects import convert

if TYPE_CHECKING:
    import numpy.typing as npt
    from scipy.sparse import csr_array

NOTHING: Final = -1
"""The label of what is outside all regions, in the confusion matrix of a payload."""


@dataclass(frozen=True, slots=True)
class Region:
    """The region of one label on one side of an image.

    Attributes:
        shape: Its area, a shapely shape or :class:`~leadline.evaluators.vision.engine.geometry.Runs`.
        area: Its size.
        indices: Positions of the annotations in their list.
    """

    shape: Any
    area: float
    indices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Overlap:
    """The regions of one label key in one image.

    Attributes:
        truth: Regions of the ground truth by label.
        predicted: Regions of the predictions by label.
        shared: Area shared by each label of the ground truth and each of the predictions, shape ``(truth, predicted)``.
        missed: Area of each label of the ground truth that no prediction of the key covers.
        spurious: Area of each predicted label that no ground truth of the key covers.
    """

    truth: Mapping[str, Region]
    predicted: Mapping[str, Region]
    shared: npt.NDArray[np.float64]
    missed: npt.NDArray[np.float64]
    spurious: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Geometry:
    """Functions that measure regions of one kind of geometry."""

    union: Callable[[Sequence[Any]], Any]
    area: Callable[[Any], float]
    shared: Callable[[Sequence[Any], Any], npt.NDArray[Any]]


_MASKS: Final = _Geometry(united_masks, lambda runs: runs.area, shared_pixels)
_SHAPES: Final = _Geometry(
    united_shapes,
    lambda shape: float(areas([shape])[0]),
    lambda shapes, other: shared_areas(shapes, [other] * len(shapes)),
)


def overlaps(
    expected: Annotations, predicted: Annotations, label_map: Mapping[LabelName, LabelName]
) -> dict[str, Overlap]:
    """Return the overlap of the regions of an image by label key.

    A region is the union of all masks and polygons of a label; boxes are no regions. Where an image has polygons,
    its masks become the outlines of their pixels.

    Args:
        expected: Annotations of the ground truth.
        predicted: Annotations of the prediction.
        label_map: Labels that count as another.

    Raises:
        ValueError: A geometry makes no sense, or the masks differ in size.
    """
    sides = [[(at, one) for at, one in enumerate(side) if "raster" in one or "polygon" in one]
             for side in (expected, predicted)]  # fmt: skip
    masks = all("raster" in annotation for side in sides for _, annotation in side)
    geometry = _MASKS if masks else _SHAPES
    same_size(tuple(one["raster"]["size"]) for side in sides for _, one in side if "raster" in one)
    regions: tuple[dict[str, dict[str, Region]], ...] = ({}, {})
    for side, by_key in zip(sides, regions, strict=True):
        parts: dict[LabelName, list[tuple[int, Any]]] = {}
        for at, annotation in side:
            _, shape = convert(annotation, "raster" if masks else "polygon")
            for label in annotation["labels"]:
                name = label["key"], label["value"]
                parts.setdefault(label_map.get(name, name), []).append((at, shape))
        for (key, value), found in parts.items():
            shape = geometry.union([part for _, part in found])
            region = Region(shape, geometry.area(shape), tuple(dict.fromkeys(at for at, _ in found)))
            by_key.setdefault(key, {})[value] = region
    truth, predictions = regions
    return {
        key: _overlap(truth.get(key, {}), predictions.get(key, {}), geometry)
        for key in dict.fromkeys((*truth, *predictions))
    }


def _overlap(truth: Mapping[str, Region], predicted: Mapping[str, Region], geometry: _Geometry) -> Overlap:
    true, found = ([region.shape for region in side.values()] for side in (truth, predicted))
    shared = np.zeros((len(true), len(found)))
    for line, shape in enumerate(true):
        if found:
            shared[line] = geometry.shared(found, shape)
    return Overlap(
        truth,
        predicted,
        shared,
        missed=_uncovered(truth, found, geometry),
        spurious=_uncovered(predicted, true, geometry),
    )


def _uncovered(regions: Mapping[str, Region], others: Sequence[Any], geometry: _Geometry) -> npt.NDArray[np.float64]:
    """Return how much of each region none of the others covers."""
    areas = np.array([region.area for region in regions.values()], dtype=np.float64)
    if not len(areas) or not others:
        return areas
    covered = geometry.shared([region.shape for region in regions.values()], geometry.union(others))
    out: npt.NDArray[np.float64] = np.maximum(areas - covered, 0.0)
    return out


def pack(found: Mapping[str, Overlap]) -> Json:
    """Return the payload of an image.

    ``labels`` are numbered in the order of ``{key: [value, …]}``. ``areas`` has for each its truth, its prediction and
    their intersection; ``at`` the positions of its annotations on both sides; ``confused`` lines of label of the truth,
    label of the prediction and area, where they differ, -1 for no region.
    """
    labels: dict[str, list[str]] = {}
    areas, at, confused = [], [], []
    first = 0
    for key, overlap in sorted(found.items()):
        values = sorted({*overlap.truth, *overlap.predicted})
        labels[key] = values
        place = {value: first + number for number, value in enumerate(values)}
        first += len(values)
        rows, columns = list(overlap.truth), list(overlap.predicted)
        for value in values:
            truth, predicted = overlap.truth.get(value), overlap.predicted.get(value)
            both = overlap.shared[rows.index(value), columns.index(value)] if truth and predicted else 0.0
            areas.append([as_count(side.area if side else 0.0) for side in (truth, predicted)] + [as_count(both)])
            at.append([list(side.indices) if side else [] for side in (truth, predicted)])
        confused += [
            [place[row], place[column], as_count(area)]
            for row, line in zip(rows, overlap.shared.tolist(), strict=True)
            for column, area in zip(columns, line, strict=True)
            if area and row != column
        ]
        missed = zip(rows, overlap.missed.tolist(), strict=True)
        confused += [[place[row], NOTHING, as_count(area)] for row, area in missed if area]
        spurious = zip(columns, overlap.spurious.tolist(), strict=True)
        confused += [[NOTHING, place[column], as_count(area)] for column, area in spurious if area]
    return {"labels": labels, "areas": areas, "at": at, "confused": confused}


@dataclass(frozen=True, slots=True)
class Segmented:
    """The areas of many images.

    Attributes:
        names: Labels by number.
        keys: Label keys by number.
        key: Number of each label's key.
        truth: Area of the truth by image and label, sparse, shape ``(images, labels)``.
        predicted: Area of the prediction.
        shared: Area of their intersection.
        confused: Image, label of the truth, label of the prediction (-1 for no region) and area of what is confused.
        payloads: The payloads themselves, for the positions of annotations.
    """

    names: list[LabelName]
    keys: list[str]
    key: npt.NDArray[np.int64]
    truth: csr_array
    predicted: csr_array
    shared: csr_array
    confused: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float64]]
    payloads: Sequence[Mapping[str, Any]]

    def positions(self, image: int, label: int) -> Sequence[Sequence[int]]:
        """Return the positions of the annotations of a label in an image, in the lists of both sides.

        Args:
            image: Number of the image.
            label: Number of the label.
        """
        payload = self.payloads[image]
        place = _names(payload).index(self.names[label])
        positions: Sequence[Sequence[int]] = payload["at"][place]
        return positions


def _names(payload: Mapping[str, Any]) -> list[LabelName]:
    return [(key, value) for key, values in payload["labels"].items() for value in values]


def gather(payloads: Sequence[Any]) -> Segmented:
    """Return the areas of the images whose payloads these are."""
    from scipy.sparse import csr_array

    numbers: dict[LabelName, int] = {}
    columns: list[int] = []
    confused: list[tuple[int, int, int, float]] = []
    for image, payload in enumerate(payloads):
        place = [numbers.setdefault(name, len(numbers)) for name in _names(payload)]
        columns += place
        place.append(NOTHING)  # at -1, which is how it is written
        confused += [(image, place[true], place[found], area) for true, found, area in payload["confused"]]
    sizes = [len(payload["areas"]) for payload in payloads]
    flat = chain.from_iterable(areas for payload in payloads for areas in payload["areas"])
    table = np.fromiter(flat, dtype=np.float64, count=3 * len(columns)).reshape(-1, 3)
    position = (np.repeat(np.arange(len(payloads)), sizes), np.array(columns, dtype=np.int64))
    shape = (len(payloads), len(numbers))
    keys = list(dict.fromkeys(key for key, _ in numbers))
    wrong = np.array(confused, dtype=np.float64).reshape(-1, 4)
    return Segmented(
        names=list(numbers),
        keys=keys,
        key=np.array([keys.index(key) for key, _ in numbers], dtype=np.int64),
        truth=csr_array((table[:, 0], position), shape=shape),
        predicted=csr_array((table[:, 1], position), shape=shape),
        shared=csr_array((table[:, 2], position), shape=shape),
        confused=(*wrong[:, :3].astype(np.int64).T, wrong[:, 3]),
        payloads=payloads,
    )


def iou_by_label(segmented: Segmented, weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the IoU of each label for each row of weights, NaN for a label without ground truth.

    Args:
        segmented: The images.
        weights: Weightings of the images, shape ``(b, images)``.
    """
    truth, union, shared = _sums(segmented, weights)
    out: npt.NDArray[np.float64] = np.divide(shared, union, out=np.full(shared.shape, np.nan), where=truth > 0)
    return out


def pooled(segmented: Segmented, weights: npt.NDArray[np.float64]) -> dict[str, npt.NDArray[np.float64]]:
    """Return IoU and mean IoU for each row of weights, shape ``(b,)`` each, NaN without ground truth.

    Args:
        segmented: The images.
        weights: Weightings of the images, shape ``(b, images)``.
    """
    truth, union, shared = _sums(segmented, weights)
    known = truth > 0
    by_label = np.divide(shared, union, out=np.zeros(shared.shape), where=known)
    member = np.equal.outer(segmented.key, np.arange(len(segmented.keys))).astype(np.float64)
    number = known @ member
    by_key = np.divide((by_label * known) @ member, number, out=np.zeros(number.shape), where=number > 0)
    return {
        "iou": _ratio((shared * known).sum(axis=1), (union * known).sum(axis=1)),
        "miou": _ratio(by_key.sum(axis=1), (number > 0).sum(axis=1).astype(np.float64)),
    }


def _sums(
    segmented: Segmented, weights: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return truth, union and intersection by row of weights and label."""
    truth, predicted, shared = (weights @ areas for areas in (segmented.truth, segmented.predicted, segmented.shared))
    return truth, truth + predicted - shared, shared


def _ratio(part: npt.NDArray[np.float64], whole: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    out: npt.NDArray[np.float64] = np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole > 0)
    return out


def details(segmented: Segmented, weights: npt.NDArray[np.float64], cases: Sequence[str]) -> Details:
    """Return the values by label, confusion matrices in pixels, and for each label the image with the greatest error.

    Args:
        segmented: The images of a model.
        weights: How often each payload counts.
        cases: A case of each payload.
    """
    truth, predicted, shared = (
        (weights[np.newaxis] @ areas)[0] for areas in (segmented.truth, segmented.predicted, segmented.shared)
    )
    iou = iou_by_label(segmented, weights[np.newaxis])[0]
    order = np.lexsort((np.arange(len(truth)), -truth)).tolist()
    columns = (iou.tolist(), truth.tolist(), predicted.tolist(), shared.tolist())
    values = [_values(*line) for line in zip(*columns, strict=True)]
    return {
        "labels": [
            *_key_values(segmented, iou),
            *(_named(segmented, label, values[label]) for label in order[:MOST_LABELS]),
        ],
        "confusion": [_confusion(segmented, key, shared, weights) for key in range(len(segmented.keys))],
        "examples": list(_examples(segmented, cases, order))[:MOST_EXAMPLES],
        "records": list(_records(segmented, iou, values)),
    }


def _values(iou: float, truth: float, predicted: float, shared: float) -> dict[str, float | int | None]:
    return {
        "IoU": iou if iou == iou else None,
        "precision": shared / predicted if predicted else 0.0,
        "recall": shared / truth if truth else 0.0,
        "F1": 2 * shared / (truth + predicted) if truth + predicted else 0.0,
        "ground truth area": as_count(truth),
        "predicted area": as_count(predicted),
    }


def _named(segmented: Segmented, label: int, values: dict[str, float | int | None]) -> LabelValues:
    key, value = segmented.names[label]
    return {"key": key, "value": value, "values": values}


def _key_values(segmented: Segmented, iou: npt.NDArray[np.float64]) -> Iterator[LabelValues]:
    for number, key in enumerate(segmented.keys):
        yield {"key": key, "value": "", "values": {"IoU": _mean(segmented, iou, number)}}


def _mean(segmented: Segmented, iou: npt.NDArray[np.float64], key: int) -> float | None:
    mine = iou[(segmented.key == key) & np.isfinite(iou)]
    return float(mine.mean()) if len(mine) else None


def _records(
    segmented: Segmented, iou: npt.NDArray[np.float64], values: Sequence[dict[str, float | int | None]]
) -> Iterator[dict[str, Json]]:
    """Yield Valor's records: of each label in the ground truth, and of each label key."""
    for number, ((key, value), of_label) in enumerate(zip(segmented.names, values, strict=True)):
        if iou[number] == iou[number]:
            label: dict[str, Json] = {"key": key, "value": value}
            for name, kind in (("IoU", "IOU"), ("precision", "Precision"), ("recall", "Recall"), ("F1", "F1")):
                yield {"type": kind, "label": label, "value": of_label[name]}
    for number, key in enumerate(segmented.keys):
        mean = _mean(segmented, iou, number)
        if mean is not None:
            yield {"type": "mIOU", "parameters": {"label_key": key}, "value": mean}


def _confusion(
    segmented: Segmented, key: int, shared: npt.NDArray[np.float64], weights: npt.NDArray[np.float64]
) -> Confusion:
    image, true, found, area = segmented.confused
    labels = np.flatnonzero(segmented.key == key)
    mine = np.isin(true, labels) | np.isin(found, labels)
    nothing = len(segmented.names)
    return confusion(
        segmented.keys[key],
        segmented.names,
        labels,
        np.concatenate([labels, np.where(true < 0, nothing, true)[mine]]),
        np.concatenate([labels, np.where(found < 0, nothing, found)[mine]]),
        np.concatenate([shared[labels], (area * weights[image])[mine]]),
    )


def _examples(segmented: Segmented, cases: Sequence[str], labels: Sequence[int]) -> Iterator[Example]:
    """Yield for each label the image where most of the union is wrong, by area; the commonest labels first."""
    wrong = (segmented.truth + segmented.predicted - 2 * segmented.shared).tocsc()
    for label in labels:
        start, stop = wrong.indptr[label], wrong.indptr[label + 1]
        if start == stop or not wrong.data[start:stop].max() > 0:
            continue
        image = int(wrong.indices[start:stop][wrong.data[start:stop].argmax()])
        key, value = segmented.names[label]
        expected, predicted = segmented.positions(image, label)
        yield {
            "kind": "misclassification",
            "case": cases[image],
            "key": key,
            "value": value,
            "score": None,
            "expected": list(expected),
            "predicted": list(predicted),
        }
