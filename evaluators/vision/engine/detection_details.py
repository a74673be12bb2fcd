"""Details of one model's detections: values by label, curves, confusion matrices, examples, Valor's records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from leadline.evaluators.data import (
    MOST_EXAMPLES,
    MOST_LABELS,
    MOST_SERIES,
    Confusion,
    Curve,
    Details,
    Example,
    Json,
    LabelValues,
    Series,
)
from leadline.evaluators.vision.engine.confusion import as_count, confusion
from leadline.evaluators.vision.engine.matching import NEVER, RIGHT, WRONG, Records, Rules
from leadline.evaluators.vision.engine.ranking import POINTS, Dataset, RankedMetrics, rank, unfold

if TYPE_CHECKING:
    import numpy.typing as npt

CONFIDENCES: Final = tuple(step / 100 for step in range(5, 100, 5))
"""Scores from which a prediction counts: 0.05, 0.10, …, 0.95."""


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


@dataclass(frozen=True, slots=True)
class CountedErrors:
    """Weighted counts by label and confidence, each of shape ``(labels, len(CONFIDENCES))``.

    The plain curve pairs each ground truth with one prediction at most; the detailed one looks at every overlap.

    Attributes:
        tp: Predictions that found a ground truth that no more confident one did.
        fp: The other predictions, but those that are neither right nor wrong.
        fn: Ground truths that were not found.
        right: Predictions that overlap a ground truth of their label.
        misclassified: Predictions that overlap a ground truth of another label of their key.
        hallucinated: Predictions that overlap neither.
        mistaken: Ground truths that only predictions of another label overlap.
        missed: Ground truths that nothing overlaps.
    """

    tp: npt.NDArray[np.float64]
    fp: npt.NDArray[np.float64]
    fn: npt.NDArray[np.float64]
    right: npt.NDArray[np.float64]
    misclassified: npt.NDArray[np.float64]
    hallucinated: npt.NDArray[np.float64]
    mistaken: npt.NDArray[np.float64]
    missed: npt.NDArray[np.float64]


def count(dataset: Dataset, weights: npt.NDArray[np.float64], curve: int) -> CountedErrors:
    """Count at every confidence.

    Args:
        dataset: The images.
        weights: How often each payload counts.
        curve: Bit of the IoU threshold of the curves.
    """
    labels = len(dataset.names)
    lines, truth = dataset.predictions, dataset.truth
    weight, truth_weight = weights[dataset.prediction_image], weights[dataset.truth_image]
    level, label = _levels(lines["score"]), lines["label"].astype(np.int64)
    bit = lines["hits"].dtype.type(1) << lines["hits"].dtype.type(curve)
    hit, ignored, how = (lines["hits"] & bit) > 0, (lines["ignored"] & bit) > 0, lines["how"]

    def passing(which: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
        counts = _histogram(label[which], level[which], weight[which], labels)
        out: npt.NDArray[np.float64] = counts[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:]
        return out

    def failing(levels: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        counts = _histogram(truth["label"].astype(np.int64), levels, truth_weight, labels)
        out: npt.NDArray[np.float64] = counts.cumsum(axis=1)[:, :-1]
        return out

    tp = passing(hit)
    right, wrong = _levels(truth["right"]), _levels(truth["wrong"])
    missed = failing(np.maximum(right, wrong))
    return CountedErrors(
        tp=tp,
        fp=passing(~hit & ~ignored),
        fn=dataset.truths(weights)[:, np.newaxis] - tp,
        right=passing((how & RIGHT) > 0),
        misclassified=passing((how & WRONG) > 0),
        hallucinated=passing((how == 0) & ~ignored),
        mistaken=failing(right) - missed,
        missed=missed,
    )


def _levels(score: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return how many of the confidences a score reaches."""
    return np.searchsorted(np.array(CONFIDENCES), score, "right").astype(np.int64)


def _histogram(
    label: npt.NDArray[np.int64], level: npt.NDArray[np.int64], weight: npt.NDArray[np.float64], labels: int
) -> npt.NDArray[np.float64]:
    width = len(CONFIDENCES) + 1
    return np.bincount(label * width + level, weight, labels * width).reshape(labels, width).astype(np.float64)


@dataclass(frozen=True, slots=True)
class Errors:
    """Lines of the dataset by label; each list is ordered by what is worst.

    Attributes:
        right: Predictions that overlap a ground truth of their label, the most confident first.
        misclassified: Predictions that overlap one of another label.
        hallucinated: Predictions that overlap neither.
        truth: Ground truths, those first that nothing overlaps with any confidence.
    """

    right: list[npt.NDArray[np.int64]]
    misclassified: list[npt.NDArray[np.int64]]
    hallucinated: list[npt.NDArray[np.int64]]
    truth: list[npt.NDArray[np.int64]]


def errors_of(dataset: Dataset) -> Errors:
    """Return the right and wrong predictions and the ground truths of a dataset."""
    lines, truth, labels = dataset.predictions, dataset.truth, len(dataset.names)
    how = lines["how"]
    neither = (how == 0) & (lines["ignored"] == 0)
    return Errors(
        right=_by_label(lines, np.flatnonzero(how & RIGHT), -lines["score"], labels),
        misclassified=_by_label(lines, np.flatnonzero(how & WRONG), -lines["score"], labels),
        hallucinated=_by_label(lines, np.flatnonzero(neither), -lines["score"], labels),
        truth=_by_label(truth, np.arange(len(truth)), np.maximum(truth["right"], truth["wrong"]), labels),
    )


def _by_label(
    records: Records, which: npt.NDArray[np.int64], worst: npt.NDArray[np.float64], labels: int
) -> list[npt.NDArray[np.int64]]:
    label = records["label"][which]
    order = np.lexsort((worst[which], label))
    bounds = np.searchsorted(label[order], np.arange(1, labels))
    return np.split(which[order], bounds) if labels else []


def ratio(part: npt.NDArray[np.float64], total: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return part / total, 0 where the total is 0, as Valor does in these curves.

    Args:
        part: Numerators.
        total: Denominators, of the same shape.
    """
    return np.divide(part, total, out=np.zeros_like(part), where=total > 0)


def f1(precision: npt.NDArray[np.float64], recall: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the harmonic mean, 0 where both are 0.

    Args:
        recall: Recall, of the same shape.
    """
    return ratio(2 * precision * recall, precision + recall)


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
