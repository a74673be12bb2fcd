"""Detection metrics as Valor's records: one per metric, label or label key, and threshold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from leadline.evaluators.data import Json
from leadline.evaluators.vision.engine.detection_errors import CONFIDENCES, CountedErrors, Errors, as_count, f1, ratio
from leadline.evaluators.vision.engine.image_set import Dataset
from leadline.evaluators.vision.engine.ranking import RankedMetrics

if TYPE_CHECKING:
    import numpy.typing as npt


def metric_records(
    dataset: Dataset, measured: RankedMetrics, ious: Sequence[float], returned: Sequence[float]
) -> Iterator[Mapping[str, Json]]:
    """Yield AP, AR and their means by label and label key.

    A label without ground truth has no AP and an AR of -1, as in Valor.

    Args:
        dataset: The images.
        measured: Average precision and recall by label and threshold.
        ious: The thresholds.
        returned: Thresholds whose AP and mAP are listed.
    """
    over = {"ious": list(ious)}
    known = np.isfinite(measured.precision[:, 0])
    recall = measured.recall.mean(axis=1)
    for number, (key, value) in enumerate(dataset.names):
        label: dict[str, Json] = {"key": key, "value": value}
        yield {"type": "AR", "label": label, "parameters": over, "value": _or(recall[number], -1.0)}
        if not known[number]:
            continue
        precision = measured.precision[number]
        for iou in returned:
            at = {"iou": iou}
            yield {"type": "AP", "label": label, "parameters": at, "value": float(precision[ious.index(iou)])}
        yield {"type": "APAveragedOverIOUs", "label": label, "parameters": over, "value": float(precision.mean())}
    for number, key in enumerate(dataset.keys):
        mine = known & (dataset.key == number)
        parameters: dict[str, Json] = {"label_key": key}
        yield {"type": "mAR", "parameters": {**parameters, **over}, "value": _mean(recall[mine], -1.0)}
        if not mine.any():
            continue
        for iou in returned:
            mean = float(measured.precision[mine, ious.index(iou)].mean())
            yield {"type": "mAP", "parameters": {**parameters, "iou": iou}, "value": mean}
        mean = float(measured.precision[mine].mean())
        yield {"type": "mAPAveragedOverIOUs", "parameters": {**parameters, **over}, "value": mean}


def _or(value: float, missing: float) -> float:
    return float(value) if value == value else missing


def _mean(values: npt.NDArray[np.float64], missing: float) -> float:
    return float(values.mean()) if len(values) else missing


def curve_records(
    dataset: Dataset,
    counted: CountedErrors,
    errors: Errors,
    *,
    labels: Sequence[int],
    cases: Sequence[str],
    iou: float,
    most: int,
) -> Iterator[Mapping[str, Json]]:
    """Yield the precision-recall curve and the detailed one of each label key.

    Args:
        dataset: The images.
        counted: Counts by label and confidence.
        errors: What went wrong.
        labels: The labels that are listed.
        cases: A case of each payload.
        iou: The IoU threshold of the curves.
        most: Most examples of each kind; each is a case and the position of the annotation in its list.
    """
    for number, key in enumerate(dataset.keys):
        mine = [label for label in labels if dataset.key[label] == number]
        parameters: dict[str, Json] = {"label_key": key, "pr_curve_iou_threshold": iou}
        if not mine:
            continue
        plain = {dataset.names[label][1]: _plain(counted, label) for label in mine}
        yield {"type": "PrecisionRecallCurve", "parameters": parameters, "value": plain}
        detailed = {dataset.names[label][1]: _detailed(dataset, counted, errors, label, cases, most) for label in mine}
        yield {"type": "DetailedPrecisionRecallCurve", "parameters": parameters, "value": detailed}


def _plain(counted: CountedErrors, label: int) -> dict[str, Json]:
    tp, fp, fn = counted.tp[label], counted.fp[label], counted.fn[label]
    precision, recall = ratio(tp, tp + fp), ratio(tp, tp + fn)
    columns = zip(CONFIDENCES, tp, fp, fn, precision, recall, f1(precision, recall), strict=True)
    return {
        str(confidence): {
            "tp": as_count(t),
            "fp": as_count(p),
            "fn": as_count(n),
            "precision": float(x),
            "recall": float(y),
            "f1_score": float(z),
        }
        for confidence, t, p, n, x, y, z in columns
    }


def _detailed(
    dataset: Dataset, counted: CountedErrors, errors: Errors, label: int, cases: Sequence[str], most: int
) -> dict[str, Json]:
    score = dataset.predictions["score"]
    truth = errors.truth[label]
    right, wrong = dataset.truth["right"][truth], dataset.truth["wrong"][truth]
    predicted = [errors.right[label][:most], errors.misclassified[label][:most], errors.hallucinated[label][:most]]

    def shown(lines: npt.NDArray[np.int64], confidence: float) -> Json:
        return [
            [cases[dataset.prediction_image[line]], int(dataset.predictions["index"][line])]
            for line in lines[score[lines] >= confidence].tolist()
        ]

    def shown_truth(which: npt.NDArray[np.bool_]) -> Json:
        return [
            [cases[dataset.truth_image[line]], int(dataset.truth["index"][line])]
            for line in truth[which][:most].tolist()
        ]

    out: dict[str, Json] = {}
    for step, confidence in enumerate(CONFIDENCES):
        examples = [shown(lines, confidence) for lines in predicted]
        unfound = right < confidence
        false = {
            "misclassifications": _seen(counted.misclassified[label, step], examples[1]),
            "hallucinations": _seen(counted.hallucinated[label, step], examples[2]),
        }
        missing = {
            "misclassifications": _seen(counted.mistaken[label, step], shown_truth(unfound & (wrong >= confidence))),
            "no_predictions": _seen(counted.missed[label, step], shown_truth(unfound & (wrong < confidence))),
        }
        out[str(confidence)] = {
            "tp": _all({"all": _seen(counted.right[label, step], examples[0])}),
            "fp": _all(false),
            "fn": _all(missing),
        }
    return out


def _seen(number: float, examples: Json) -> dict[str, Any]:
    return {"count": as_count(number), "examples": examples}


def _all(observations: Mapping[str, Mapping[str, Any]]) -> Json:
    return {"total": as_count(sum(one["count"] for one in observations.values())), "observations": dict(observations)}
