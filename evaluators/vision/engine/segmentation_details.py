"""Details of one model's segmentations: values by label, confusion matrices, examples, Valor's records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from leadline.evaluators.data import MOST_EXAMPLES, MOST_LABELS, Confusion, Details, Example, Json, LabelValues
from leadline.evaluators.vision.engine.detection_errors import as_count, confusion
from leadline.evaluators.vision.engine.segmentation import Segmented, iou_by_label

if TYPE_CHECKING:
    import numpy.typing as npt


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
