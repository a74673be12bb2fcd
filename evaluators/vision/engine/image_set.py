"""All images of one model: its metrics under any weights of the images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from leadline.evaluators.data.label_map import LabelName
from leadline.evaluators.vision.engine.detection_metrics import summarise
from leadline.evaluators.vision.engine.payload import Records, prediction_type, truth_type, unpack
from leadline.evaluators.vision.engine.ranking import Method, RankedMetrics, Ranking, rank

if TYPE_CHECKING:
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Dataset:
    """The predictions and ground truth of many payloads.

    Attributes:
        names: Labels by number.
        keys: Label keys by number.
        key: Number of each label's key.
        images: Number of payloads.
        prediction_image: Payload of each prediction.
        truth_image: Payload of each ground truth.
        truth: Records of the ground truth.
        ranking: The predictions by label and score.
    """

    names: list[LabelName]
    keys: list[str]
    key: npt.NDArray[np.int64]
    images: int
    prediction_image: npt.NDArray[np.int64]
    predictions: Records
    truth_image: npt.NDArray[np.int64]
    truth: Records
    ranking: Ranking

    def truths(self, weight: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the weighted number of ground truths of each label."""
        return np.bincount(self.truth["label"], weight[self.truth_image], len(self.names)).astype(np.float64)

    def measure(self, weight: npt.NDArray[np.float64]) -> RankedMetrics:
        """Return average precision and recall by label and threshold; ``weight`` is how often each payload counts."""
        ranked = weight[self.prediction_image][self.ranking.order]
        return self.ranking.measure(ranked, self.truths(weight))


def gather(
    payloads: Sequence[Mapping[str, Any]], bits: int, thresholds: int, method: Method, least_score: float
) -> Dataset:
    """Return the dataset that payloads make up.

    Args:
        payloads: Payloads of images.
        bits: IoU thresholds that the payloads know.
        thresholds: How many of them, the first ones, the metrics are averaged over.
        method: Whose rules decide.
        least_score: Confidence below which a true positive does not count for recall.
    """
    names, joined = unpack(payloads, {"predictions": prediction_type(bits), "truth": truth_type()})
    (prediction_image, predictions), (truth_image, truth) = joined["predictions"], joined["truth"]
    keys = list(dict.fromkeys(key for key, _ in names))
    return Dataset(
        names=names,
        keys=keys,
        key=np.array([keys.index(key) for key, _ in names], dtype=np.int64),
        images=len(payloads),
        prediction_image=prediction_image,
        predictions=predictions,
        truth_image=truth_image,
        truth=truth,
        ranking=rank(
            predictions["label"].astype(np.int64),
            predictions["score"],
            unfold(predictions["hits"], thresholds),
            unfold(predictions["ignored"], thresholds),
            len(names),
            method,
            least_score,
        ),
    )


def unfold(bits: npt.NDArray[np.unsignedinteger[Any]], number: int) -> npt.NDArray[np.bool_]:
    """Return bits as columns, shape ``(n, number)``.

    Args:
        bits: Bits of each line, shape ``(n,)``.
        number: Number of bits.
    """
    return (bits[:, np.newaxis] >> np.arange(number, dtype=bits.dtype)) & bits.dtype.type(1) > 0


def metrics_under(
    dataset: Dataset, weights: npt.NDArray[np.float64], threshold: int
) -> dict[str, npt.NDArray[np.float64]]:
    """Return the six metrics for each row of weights, shape ``(b,)`` each.

    Args:
        dataset: The images.
        weights: Weightings of the images, shape ``(b, images)``.
        threshold: Place of the threshold of ``map`` and ``ap``.
    """
    one_owner = np.zeros(len(dataset.keys), dtype=np.int64)
    lines = []
    for weight in weights:
        truth = dataset.truths(weight)
        measured = dataset.measure(weight)
        lines.append(summarise(measured, truth, dataset.key, one_owner, threshold))
    return {
        metric: np.array([line[metric][0] if len(line[metric]) else np.nan for line in lines]) for metric in lines[0]
    }
