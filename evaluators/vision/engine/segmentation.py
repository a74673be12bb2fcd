"""Areas of regions summed over a dataset: what each image adds, and intersection over union of the sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from leadline.evaluators.data import Json, LabelName
from leadline.evaluators.vision.engine.regions import Overlap

if TYPE_CHECKING:
    import numpy.typing as npt
    from scipy.sparse import csr_array

NOTHING = -1
"""The label of what is outside all regions, in the confusion matrix of a payload."""


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
            areas.append([_short(side.area if side else 0.0) for side in (truth, predicted)] + [_short(both)])
            at.append([list(side.indices) if side else [] for side in (truth, predicted)])
        confused += [
            [place[row], place[column], _short(area)]
            for row, line in zip(rows, overlap.shared.tolist(), strict=True)
            for column, area in zip(columns, line, strict=True)
            if area and row != column
        ]
        confused += [
            [place[row], NOTHING, _short(area)] for row, area in zip(rows, overlap.missed.tolist(), strict=True) if area
        ]
        confused += [
            [NOTHING, place[column], _short(area)]
            for column, area in zip(columns, overlap.spurious.tolist(), strict=True)
            if area
        ]
    return {"labels": labels, "areas": areas, "at": at, "confused": confused}


def _short(area: float) -> float | int:
    return int(area) if float(area).is_integer() else float(area)


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
