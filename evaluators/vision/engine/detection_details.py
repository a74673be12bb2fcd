"""Details of one model's detections: values by label, curves, confusion matrices, examples, Valor's records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import TYPE_CHECKING

import numpy as np

from leadline.evaluators.data import (
    MOST_EXAMPLES,
    MOST_LABELS,
    MOST_SERIES,
    Confusion,
    Curve,
    Details,
    Example,
    LabelValues,
    Series,
)
from leadline.evaluators.vision.engine.detection_errors import (
    CONFIDENCES,
    CountedErrors,
    Errors,
    as_count,
    confusion,
    count,
    errors_of,
    f1,
    ratio,
)
from leadline.evaluators.vision.engine.detection_records import curve_records, metric_records
from leadline.evaluators.vision.engine.image_batch import Rules
from leadline.evaluators.vision.engine.image_set import Dataset, unfold
from leadline.evaluators.vision.engine.payload import NEVER
from leadline.evaluators.vision.engine.ranking import POINTS, RankedMetrics, rank

if TYPE_CHECKING:
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class DetectionModel:
    """All that the details of one model are made from.

    Attributes:
        dataset: Its images.
        weights: How often each payload counts.
        cases: A case of each payload.
        rules: What decided.
        ious: Thresholds that are averaged over.
        returned: Those that are listed.
        examples: Most examples of each kind of error, for each label.
    """

    dataset: Dataset
    weights: npt.NDArray[np.float64]
    cases: Sequence[str]
    rules: Rules
    ious: tuple[float, ...]
    returned: tuple[float, ...]
    examples: int

    @property
    def curve_iou(self) -> float:
        """The IoU threshold of the curves."""
        return self.rules.thresholds[self.rules.curve]


def details(model: DetectionModel) -> Details:
    """Return the values by label, curves, confusion matrices, examples and Valor's records."""
    dataset, weights = model.dataset, model.weights
    measured, truths = dataset.measure(weights), dataset.truths(weights)
    counted, errors = count(dataset, weights, model.rules.curve), errors_of(dataset)
    order = np.lexsort((np.arange(len(truths)), -truths)).tolist()
    listed = order[:MOST_SERIES]
    notes = [f"The curves are those of the {MOST_SERIES} commonest labels."] if len(order) > MOST_SERIES else []
    return {
        "labels": [*_key_values(model, measured), *_label_values(model, measured, truths, order[:MOST_LABELS])],
        "curves": _curves(model, counted, truths, listed),
        "confusion": [_confusion(model, key) for key in range(len(dataset.keys))],
        "examples": _examples(model, errors),
        "records": [
            *metric_records(dataset, measured, model.ious, model.returned),
            *curve_records(
                dataset,
                counted,
                errors,
                labels=sorted(listed),
                cases=model.cases,
                iou=model.curve_iou,
                most=model.examples,
            ),
        ],
        "notes": notes,
    }


def _label_values(
    model: DetectionModel, measured: RankedMetrics, truths: npt.NDArray[np.float64], order: Sequence[int]
) -> Iterator[LabelValues]:
    dataset = model.dataset
    weight = model.weights[dataset.prediction_image]
    predicted = np.bincount(dataset.predictions["label"], weight, len(dataset.names))
    for label in order:
        key, value = dataset.names[label]
        numbers = {"ground truths": as_count(truths[label]), "predictions": as_count(predicted[label])}
        yield {"key": key, "value": value, "values": {**_values(model, measured, np.array([label])), **numbers}}


def _key_values(model: DetectionModel, measured: RankedMetrics) -> Iterator[LabelValues]:
    for number, key in enumerate(model.dataset.keys):
        labels = np.flatnonzero((model.dataset.key == number) & np.isfinite(measured.precision[:, 0]))
        yield {"key": key, "value": "", "values": _values(model, measured, labels)}


def _values(
    model: DetectionModel, measured: RankedMetrics, labels: npt.NDArray[np.int64]
) -> dict[str, float | int | None]:
    """Return the means over some labels: of a label key they are mAP and mAR."""
    precision, recall = measured.precision[labels], measured.recall[labels]
    out = {f"AP@{iou:g}": _finite(precision[:, model.ious.index(iou)]) for iou in model.returned}
    return {**out, "AP averaged over IoUs": _finite(precision), "AR": _finite(recall)}


def _finite(values: npt.NDArray[np.float64]) -> float | None:
    return float(values.mean()) if values.size and np.isfinite(values).all() else None


def _curves(
    model: DetectionModel, counted: CountedErrors, truths: npt.NDArray[np.float64], labels: Sequence[int]
) -> list[Curve]:
    dataset = model.dataset
    with_truth = [label for label in labels if truths[label] > 0]
    if not with_truth:
        return []
    bit = slice(model.rules.curve, model.rules.curve + 1)
    ranking = rank(
        dataset.predictions["label"].astype(np.int64),
        dataset.predictions["score"],
        unfold(dataset.predictions["hits"], len(model.rules.thresholds))[:, bit],
        unfold(dataset.predictions["ignored"], len(model.rules.thresholds))[:, bit],
        len(dataset.names),
        model.rules.method,
        0.0,
    )
    curve = ranking.curves(model.weights[dataset.prediction_image][ranking.order], truths)[:, 0]
    precision, recall = ratio(counted.tp, counted.tp + counted.fp), ratio(counted.tp, counted.tp + counted.fn)
    recalls = [point / (POINTS - 1) for point in range(POINTS)]
    at = f"IoU {model.curve_iou:g}"
    return [
        _curve(f"Precision and recall ({at})", "recall", "precision", recalls, curve, model, with_truth),
        _curve(f"F1 by score ({at})", "least score", "F1", CONFIDENCES, f1(precision, recall), model, with_truth),
        _curve(f"Precision by score ({at})", "least score", "precision", CONFIDENCES, precision, model, with_truth),
        _curve(f"Recall by score ({at})", "least score", "recall", CONFIDENCES, recall, model, with_truth),
    ]


def _curve(
    name: str,
    x_label: str,
    y_label: str,
    x: Sequence[float],
    y: npt.NDArray[np.float64],
    model: DetectionModel,
    labels: Sequence[int],
) -> Curve:
    several = len(model.dataset.keys) > 1
    series: list[Series] = [
        {"label": ": ".join(model.dataset.names[label][0 if several else 1 :]), "x": list(x), "y": y[label].tolist()}
        for label in labels
    ]
    return {"name": name, "x_label": x_label, "y_label": y_label, "series": series}


def _confusion(model: DetectionModel, key: int) -> Confusion:
    """Count which ground truth of a label key is taken for what, by predictions of at least the score asked for."""
    dataset, weights = model.dataset, model.weights
    mine = np.flatnonzero(dataset.key == key)
    truth = np.flatnonzero(dataset.key[dataset.truth["label"]] == key)
    partner = dataset.truth["partner"][truth].astype(np.int64)
    some = np.flatnonzero(partner >= 0)
    met = np.searchsorted(dataset.prediction_image, dataset.truth_image[truth[some]]) + partner[some]
    taken_for = np.full(len(truth), len(dataset.names))
    taken_for[some] = dataset.predictions["label"][met]
    free = dataset.predictions["score"] >= model.rules.confusion_score
    free &= (dataset.key[dataset.predictions["label"]] == key) & (
        ((dataset.predictions["ignored"] >> dataset.predictions["ignored"].dtype.type(model.rules.curve)) & 1) == 0
    )
    free[met] = False
    alone = np.flatnonzero(free)
    expected = np.concatenate([dataset.truth["label"][truth], np.full(len(alone), len(dataset.names))])
    got = np.concatenate([taken_for, dataset.predictions["label"][alone]])
    weight = np.concatenate([weights[dataset.truth_image[truth]], weights[dataset.prediction_image[alone]]])
    return confusion(dataset.keys[key], dataset.names, mine, expected.astype(np.int64), got.astype(np.int64), weight)


def _examples(model: DetectionModel, errors: Errors) -> list[Example]:
    """Return errors of every kind in turn, the worst of each first."""
    kinds = [
        _sorted(_mistaken(model, errors)),
        _sorted(_hallucinated(model, errors)),
        list(_missed(model, errors)),
    ]
    in_turn = chain.from_iterable(zip_longest(*kinds))
    return [example for example in in_turn if example is not None][:MOST_EXAMPLES]


def _sorted(examples: Iterator[Example]) -> list[Example]:
    return sorted(examples, key=lambda example: -(example["score"] or 0.0))


def _mistaken(model: DetectionModel, errors: Errors) -> Iterator[Example]:
    """Yield ground truths that stand beside a prediction of another label in the confusion matrix."""
    dataset = model.dataset
    for label, of_label in enumerate(errors.truth):
        lines = of_label[dataset.truth["partner"][of_label] >= 0]
        met = np.searchsorted(dataset.prediction_image, dataset.truth_image[lines]) + dataset.truth["partner"][lines]
        other = np.flatnonzero(dataset.predictions["label"][met] != label)
        best = other[np.argsort(-dataset.predictions["score"][met[other]], kind="stable")][: model.examples]
        for line, prediction in zip(lines[best].tolist(), met[best].tolist(), strict=True):
            yield _example(model, "misclassification", truth=line, prediction=prediction)


def _hallucinated(model: DetectionModel, errors: Errors) -> Iterator[Example]:
    for lines in errors.hallucinated:
        for line in lines[: model.examples].tolist():
            yield _example(model, "hallucination", prediction=line)


def _missed(model: DetectionModel, errors: Errors) -> Iterator[Example]:
    for lines in errors.truth:
        for line in lines[: model.examples].tolist():
            if max(model.dataset.truth["right"][line], model.dataset.truth["wrong"][line]) == NEVER:
                yield _example(model, "no_prediction", truth=line)


def _example(model: DetectionModel, kind: str, *, truth: int | None = None, prediction: int | None = None) -> Example:
    dataset = model.dataset
    image = dataset.truth_image[truth] if truth is not None else dataset.prediction_image[prediction]
    label = dataset.truth["label"][truth] if truth is not None else dataset.predictions["label"][prediction]
    key, value = dataset.names[int(label)]
    return {
        "kind": kind,
        "case": model.cases[int(image)],
        "key": key,
        "value": value,
        "score": None if prediction is None else float(dataset.predictions["score"][prediction]),
        "expected": [] if truth is None else [int(dataset.truth["index"][truth])],
        "predicted": [] if prediction is None else [int(dataset.predictions["index"][prediction])],
    }
