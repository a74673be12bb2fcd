"""Semantic segmentation: which part of an image belongs to which label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from leadline.evaluators.core import EvalContext, Metric, Params, RowEvaluator, Spec, register
from leadline.evaluators.data import Details, Evidence, Json, Reason, Row, RowField, RowScore, clip
from leadline.evaluators.data.label_map import LabelMap
from leadline.evaluators.vision.engine.segmentation import (
    Overlap,
    Segmented,
    details,
    gather,
    overlaps,
    pack,
    pooled,
)

if TYPE_CHECKING:
    import numpy.typing as npt

_RESAMPLED: Final = 500_000_000
"""Regions times resamples that intervals are worth: some five seconds."""


class SegmentationParams(Params):
    """Parameters of the segmentation evaluator."""

    label_map: LabelMap = ()


@register
class SemanticSegmentation(RowEvaluator):
    """Semantic segmentation: intersection over union of the regions of each label, over the whole dataset.

    Method: the region of a label in an image is the union of its masks and polygons, and for each label the pixels of
    intersection and union are summed over all images of a model. **IoU** of a label = intersection / union =
    TP / (TP + FP + FN). ``miou`` is the mean over the labels of a label key, and over the label keys where there are
    several; ``iou`` is the intersection of all labels together over their union, so that each label weighs as much as
    it is large. Precision, recall and F1 of every label, in pixels, are among the details of the run.

    Masks are compared as runs of pixels and never decoded; only counts are kept of an image, so that a dataset of any
    size can be measured. Where an image has polygons, its masks become the outlines of their pixels and exact areas
    are compared, which needs shapely (the extra ``vision``). Boxes are no regions and are left out.

    Edge cases: a label that is predicted but never in the ground truth has no IoU and enters no mean; one in the ground
    truth that is never predicted has 0. A row's values are those of its image alone; an image without a region in its
    ground truth has none, but what is predicted there counts. Masks of one image that differ in size make the row
    unscorable.

    Source: Valor, "Metrics" (Semantic Segmentation).
    """

    spec = Spec(
        id="valor.semantic_segmentation",
        name="Semantic Segmentation (Valor)",
        origin="valor",
        inputs=(RowField.EXPECTED_ANNOTATIONS, RowField.PREDICTED_ANNOTATIONS),
        annotations=("raster", "region"),
        input_names=("rasters",),
        metrics=(
            Metric.higher(
                "iou",
                "Intersection of all labels' regions over their union, over the whole dataset.",
                name="IOU",
                threshold=None,
                pooled=True,
            ),
            Metric.higher(
                "miou",
                "Mean over the labels of the intersection over union over the whole dataset.",
                name="Mean IOU",
                threshold=None,
                primary=True,
                pooled=True,
            ),
        ),
        insight_type="segmentation",
        problem_type="segmentation",
        keywords=("masks", "rasters", "IoU", "Jaccard"),
        source="Striveworks Valor, metrics reference",
    )
    parameters = SegmentationParams
    params: SegmentationParams

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Return the values of one image, and what it adds to the sums."""
        expected, predicted = row.expected_annotations or (), row.predicted_annotations or ()
        try:
            found = overlaps(expected, predicted, dict(self.params.label_map))
        except ValueError as error:
            message = f"The annotations cannot be compared: {error}."
            return RowScore.unscored(self.row_metrics, Reason.UNSCORABLE, message)
        if not any(overlap.truth for overlap in found.values()):
            aside = RowScore.not_applicable(self.row_metrics, "There is no region in the ground truth of the image.")
            return RowScore(aside.values, payload=pack(found))
        return RowScore(self._values(found), evidence=_evidence(found), payload=pack(found))

    def _values(self, found: dict[str, Overlap]) -> dict[str, float]:
        payload = pack(found)
        alone = pooled(gather([payload]), np.ones((1, 1)))
        return {metric: clip(float(alone[metric][0]), 0.0, 1.0) for metric in self.row_metrics}

    def prepare(self, payloads: Sequence[Json]) -> Segmented:
        """Return the areas of all images by label."""
        return gather(payloads)

    def resamples(self, prepared: Any) -> int:
        """Return 1,000, fewer where there are more than 500,000 regions, at least 100."""
        return max(100, min(super().resamples(prepared), _RESAMPLED // max(1, int(prepared.truth.nnz))))

    def aggregate(self, payloads: Segmented, weights: npt.NDArray[np.float64]) -> dict[str, npt.NDArray[np.float64]]:
        """Return IoU and mean IoU for each weighting of the images."""
        return pooled(payloads, weights)

    def details(self, prepared: Segmented, weights: npt.NDArray[np.float64], cases: Sequence[str]) -> Details:
        """Return the values by label, the confusion matrices and the images with the greatest errors."""
        return details(prepared, weights, cases)


def _evidence(found: Mapping[str, Overlap]) -> Evidence:
    """Name the label of the ground truth whose region was met worst."""
    worst: list[tuple[float, str]] = []
    for overlap in found.values():
        columns = list(overlap.predicted)
        for row, (value, region) in enumerate(overlap.truth.items()):
            predicted = overlap.predicted.get(value)
            shared = overlap.shared[row, columns.index(value)] if predicted else 0.0
            union = region.area + (predicted.area if predicted else 0.0) - shared
            worst.append((float(shared / union) if union else 0.0, value))
    iou, value = min(worst)
    return Evidence(f"The least overlap is that of {value!r}: IoU {iou:.3f}.")
