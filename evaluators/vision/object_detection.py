"""Object detection and instance segmentation: what was found, and where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from leadline.evaluators.core import REPORT_ONLY, EvalContext, Evaluator, Metric, Params, Spec, register
from leadline.evaluators.data import (
    Details,
    Evidence,
    Json,
    NotApplicable,
    Reason,
    Row,
    RowField,
    RowScore,
    clip,
)
from leadline.evaluators.data.label_map import LabelMap
from leadline.evaluators.vision.engine.detection_details import DetectionModel, details
from leadline.evaluators.vision.engine.matching import COCO_MOST, MatchedBatch, Method, Rules, match_images
from leadline.evaluators.vision.engine.ranking import Dataset, gather, metrics_under, values_by_image

if TYPE_CHECKING:
    import numpy.typing as npt

_MOST_THRESHOLDS: Final = 60
_MOST_PAIRS: Final = 4_000_000
"""Predictions times ground truths of the images that are matched at once."""

_RESAMPLED: Final = 100_000_000
"""Predictions times resamples that intervals are worth: some five seconds."""


def _rising(thresholds: tuple[float, ...]) -> tuple[float, ...]:
    if not thresholds or len(thresholds) > _MOST_THRESHOLDS:
        raise ValueError(f"give 1 to {_MOST_THRESHOLDS} thresholds")
    return tuple(sorted(set(thresholds)))


IouThreshold = Annotated[float, Field(gt=0, le=1)]
IouThresholds = Annotated[tuple[IouThreshold, ...], AfterValidator(_rising)]


class DetectionParams(Params):
    """Parameters of the detection evaluator."""

    method: Annotated[
        Method,
        Field(
            description="Rules that decide what is found: 'valor' (a prediction can only find the ground truth that "
            "it overlaps most) or 'coco' (it finds the best one that is still free; crowds are ignored; the 100 most "
            "confident predictions of an image and label count)."
        ),
    ] = "valor"
    iou_thresholds_to_compute: Annotated[IouThresholds, Field(description="IoU thresholds that are averaged over.")] = (
        tuple(round(0.5 + 0.05 * step, 2) for step in range(10))
    )
    iou_thresholds_to_return: Annotated[
        IouThresholds,
        Field(
            description="IoU thresholds whose AP and mAP are listed, of those that are computed; the metrics map and "
            "ap are those of the first one."
        ),
    ] = (0.5, 0.75)
    recall_score_threshold: Annotated[
        float, Field(ge=0, le=1, description="Predictions with a lower score find nothing, for AR and mAR.")
    ] = 0.0
    pr_curve_iou_threshold: Annotated[
        IouThreshold, Field(description="IoU threshold of the curves, the confusion matrix and the examples.")
    ] = 0.5
    pr_curve_max_examples: Annotated[
        int,
        Field(ge=0, description="Most examples of each kind of error, for each label.", json_schema_extra=REPORT_ONLY),
    ] = 1
    confusion_score_threshold: Annotated[
        float, Field(ge=0, le=1, description="Least score of a prediction in the confusion matrix.")
    ] = 0.5
    max_detections: Annotated[
        int | None,
        Field(
            ge=0,
            description="Only the most confident predictions of an image and label count, that many; 0: all. By "
            "default all with method valor, 100 with method coco.",
        ),
    ] = None
    convert_annotations_to_type: Annotated[
        Literal["box", "polygon", "raster"] | None,
        Field(
            description="Compare everything as this type of geometry. By default everything in an image is "
            "converted to the least detailed type in it."
        ),
    ] = None
    label_map: LabelMap = ()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        unknown = sorted(set(self.iou_thresholds_to_return) - set(self.iou_thresholds_to_compute))
        if "iou_thresholds_to_return" not in self.model_fields_set:
            return self
        if unknown:
            raise ValueError(f"iou_thresholds_to_return has {unknown[0]}, which is not among iou_thresholds_to_compute")
        return self

    @property
    def returned(self) -> tuple[float, ...]:
        """The thresholds whose AP and mAP are listed, all of them computed."""
        return (
            tuple(one for one in self.iou_thresholds_to_return if one in self.iou_thresholds_to_compute)
            or self.iou_thresholds_to_compute
        )

    def rules(self) -> Rules:
        """Return what decides whether a prediction has found something."""
        thresholds = tuple(dict.fromkeys((*self.iou_thresholds_to_compute, self.pr_curve_iou_threshold)))
        most = self.max_detections
        if most is None:
            most = COCO_MOST if self.method == "coco" else 0
        return Rules(
            method=self.method,
            thresholds=thresholds,
            curve=thresholds.index(self.pr_curve_iou_threshold),
            most=most,
            confusion_score=self.confusion_score_threshold,
            label_map=dict(self.label_map),
            convert=self.convert_annotations_to_type,
        )


def _metric(key: str, name: str, description: str, *, primary: bool = False) -> Metric:
    return Metric(key, name, True, threshold=None, primary=primary, pooled=True, description=description)


@register
class ObjectDetection(Evaluator):
    """Object detection and instance segmentation: average precision and recall of labelled boxes, polygons and masks.

    Method: within an image, predictions and ground truth of the same label are compared by intersection over union
    (IoU). A prediction is a true positive at an IoU threshold if it reaches that IoU with a ground truth that no more
    confident prediction has found. Over all images of a model and one label, the predictions by falling score give
    precision = TP / (TP + FP) and recall = TP / ground truths; **AP** is the mean of the best precision at or beyond
    the recalls 0, 0.01, …, 1. **AR** is the recall of the predictions whose score is at least
    ``recall_score_threshold``, averaged over the IoU thresholds. **mAP** and **mAR** are means over the labels of a
    label key, and over the label keys where there are several; the metrics ``ap``, ``ap_averaged_over_ious`` and ``ar``
    weigh each label by its number of ground truths instead. ``map`` and ``ap`` are those of the first of
    ``iou_thresholds_to_return``. The values of every label and threshold, the curves and the errors are among the
    details of the run.

    Geometries: axis-aligned and rotated boxes, polygons and masks. In an image with several types everything is
    converted to the least detailed one: masks become the outline of their pixels, polygons and masks the box around
    them. An IoU with an empty union is 0. Rotated boxes and polygons need shapely (the extra ``vision``).

    Edge cases: a label without ground truth has no AP and no AR and enters no mean, yet its predictions appear in
    the curves; a label without predictions has AP and AR 0; predictions on an image without their label count as false.
    A prediction without a score counts as certain (1). Annotations that are no instances are left out. A row's
    values are those of its image alone; an image without ground truth has none, but its false positives count.
    ``method`` chooses between Valor's rules and COCO's, which differ in crowded images, for equal scores, for
    predictions of score 0 and for crowds; see docs/origins/valor.md.

    Source: Valor, "Metrics" (Object Detection and Instance Segmentation); Lin et al. 2014, "Microsoft COCO".
    """

    spec = Spec(
        id="valor.object_detection",
        name="Object Detection / Instance Segmentation (Valor)",
        origin="valor",
        inputs=(RowField.EXPECTED_ANNOTATIONS, RowField.PREDICTED_ANNOTATIONS),
        annotations=("box", "polygon", "raster"),
        input_names=("geometries",),
        metrics=(
            _metric("map", "mAP", "Mean over the labels of AP at the first IoU threshold (0.5).", primary=True),
            _metric(
                "map_averaged_over_ious",
                "mAP averaged over IOUs",
                "Mean over the labels of AP, averaged over the IoU thresholds (0.5 to 0.95).",
            ),
            _metric("ap", "AP", "AP at the first IoU threshold, labels weighted by their ground truths."),
            _metric(
                "ap_averaged_over_ious",
                "AP averaged over IOUs",
                "AP averaged over the IoU thresholds, labels weighted by their ground truths.",
            ),
            _metric("ar", "AR", "Share of the ground truths that are found, averaged over the IoU thresholds."),
            _metric("mar", "mAR", "Mean over the labels of the share that is found, averaged over the IoU thresholds."),
        ),
        insight_type="detection",
        problem_type="detection",
        keywords=("boxes", "polygons", "masks", "instance segmentation", "COCO", "IoU"),
        source="Striveworks Valor, metrics reference; Lin et al. 2014, Microsoft COCO",
    )
    parameters = DetectionParams
    params: DetectionParams

    def score(self, rows: Sequence[Row], ctx: EvalContext) -> list[RowScore]:
        """Match all images of a batch at once; if one of them makes no sense, each by itself."""
        return [score for portion in _portions(rows) for score in self._guarded(portion)]

    def _guarded(self, rows: Sequence[Row]) -> list[RowScore]:
        try:
            return self._score(rows)
        except ValueError as error:
            if len(rows) > 1:
                return [score for row in rows for score in self._guarded([row])]
            message = f"The annotations cannot be compared: {error}."
            return [RowScore.unscored(self.row_metrics, Reason.UNSCORABLE, message)]

    def _score(self, rows: Sequence[Row]) -> list[RowScore]:
        rules = self.params.rules()
        matched = match_images(
            [(row.expected_annotations or (), row.predicted_annotations or ()) for row in rows], rules
        )
        values = values_by_image(
            matched,
            len(rows),
            thresholds=len(self.params.iou_thresholds_to_compute),
            returned=self._returned,
            method=rules.method,
            least_score=self.params.recall_score_threshold,
        )
        return [
            RowScore(self._values(each), evidence=evidence, payload=payload)
            for each, evidence, payload in zip(
                values, _evidence(matched, rules, len(rows)), matched.payloads(len(rows)), strict=True
            )
        ]

    def _values(self, measured: dict[str, float] | None) -> dict[str, float | NotApplicable]:
        if measured is None:
            return dict.fromkeys(self.row_metrics, NotApplicable("There is nothing to be found in the image."))
        return {metric: clip(measured[metric], 0.0, 1.0) for metric in self.row_metrics}

    @property
    def _returned(self) -> int:
        """Place of the threshold of the metrics ``map`` and ``ap``."""
        return self.params.iou_thresholds_to_compute.index(self.params.returned[0])

    def prepare(self, payloads: Sequence[Json]) -> Dataset:
        """Return the predictions and ground truth of all images."""
        rules = self.params.rules()
        return gather(
            payloads,  # type: ignore[arg-type]
            bits=len(rules.thresholds),
            thresholds=len(self.params.iou_thresholds_to_compute),
            method=rules.method,
            least_score=self.params.recall_score_threshold,
        )

    def resamples(self, prepared: Any) -> int:
        """Return 1,000, fewer where there are more than 100,000 predictions, at least 100."""
        return max(100, min(super().resamples(prepared), _RESAMPLED // max(1, len(prepared.predictions))))

    def aggregate(self, payloads: Dataset, weights: npt.NDArray[np.float64]) -> dict[str, npt.NDArray[np.float64]]:
        """Return the six metrics for each weighting of the images."""
        return metrics_under(payloads, weights, self._returned)

    def details(self, prepared: Dataset, weights: npt.NDArray[np.float64], cases: Sequence[str]) -> Details:
        """Return the values by label, the curves, the confusion matrices and examples of errors."""
        params = self.params
        return details(
            DetectionModel(
                dataset=prepared,
                weights=weights,
                cases=cases,
                rules=params.rules(),
                ious=params.iou_thresholds_to_compute,
                returned=params.returned,
                examples=params.pr_curve_max_examples,
            )
        )


def _portions(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """Cut rows so that the pairs of predictions and ground truth of a portion fit into memory."""
    start = pairs = 0
    for end, row in enumerate(rows):
        mine = len(row.expected_annotations or ()) * len(row.predicted_annotations or ())
        if end > start and pairs + mine > _MOST_PAIRS:
            yield rows[start:end]
            start, pairs = end, 0
        pairs += mine
    if rows:
        yield rows[start:]


def _evidence(matched: MatchedBatch, rules: Rules, images: int) -> list[Evidence]:
    """Return for each image how much was found."""
    hit = matched.hits[:, rules.curve]
    false = ~hit & ~matched.ignored[:, rules.curve]
    counts = zip(
        np.bincount(matched.predictions.image[hit], minlength=images).tolist(),
        np.bincount(matched.truth.image, minlength=images).tolist(),
        np.bincount(matched.predictions.image[false], minlength=images).tolist(),
        strict=True,
    )
    at = f"(IoU {rules.thresholds[rules.curve]:g}, any score)"
    return [Evidence(f"Found {found} of {true}, with {wrong} false predictions {at}.") for found, true, wrong in counts]
