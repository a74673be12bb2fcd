"""All images of one model: the six metrics of detection under any weights of the images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from leadline.evaluators.data import LabelName
from leadline.evaluators.vision.engine.image_batch import MatchedBatch
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
        lines.append(_summarise(measured, truth, dataset.key, one_owner, threshold))
    return {
        metric: np.array([line[metric][0] if len(line[metric]) else np.nan for line in lines]) for metric in lines[0]
    }


def _summarise(
    measured: RankedMetrics,
    truth: npt.NDArray[np.float64],
    key: npt.NDArray[np.int64],
    owner_of_key: npt.NDArray[np.int64],
    threshold: int,
) -> dict[str, npt.NDArray[np.float64]]:
    """Return the metrics of each owner (a dataset or an image), NaN for one without ground truth.

    Args:
        measured: Average precision and recall by group (a label of an owner) and threshold.
        truth: Weighted ground truths of each group.
        key: The label key of each group; keys of different owners differ.
        threshold: Place of the threshold of ``map`` and ``ap``.
    """
    at_one, over_ious = measured.precision[:, threshold], measured.precision.mean(axis=1)
    recall = measured.recall.mean(axis=1)
    owner = owner_of_key[key]
    owners = int(owner_of_key.max(initial=-1)) + 1
    even = (truth > 0).astype(float)
    out = {}
    for mean, each, values in (("map", "ap", at_one), ("map_averaged_over_ious", "ap_averaged_over_ious", over_ious),
                               ("mar", "ar", recall)):  # fmt: skip
        by_key = _weighted_mean(values, even, key, len(owner_of_key))
        out[mean] = _weighted_mean(by_key, (by_key == by_key).astype(float), owner_of_key, owners)
        out[each] = _weighted_mean(values, truth, owner, owners)
    return out


def _weighted_mean(
    values: npt.NDArray[np.float64], weight: npt.NDArray[np.float64], group: npt.NDArray[np.int64], groups: int
) -> npt.NDArray[np.float64]:
    """Return the weighted mean of the values of each group, NaN where all weights are 0."""
    total = np.bincount(group, weight, groups)
    summed = np.bincount(group, np.where(weight > 0, values, 0.0) * weight, groups)
    out: npt.NDArray[np.float64] = np.divide(summed, total, out=np.full(groups, np.nan), where=total > 0)
    return out


def values_by_image(
    matched: MatchedBatch, images: int, *, thresholds: int, returned: int, method: Method, least_score: float
) -> list[dict[str, float] | None]:
    """Return the six metrics of each image, ``None`` for one without ground truth.

    Args:
        images: Number of its images.
        thresholds: Number of thresholds, the first ones, that are averaged over.
        returned: Place of the threshold of ``map`` and ``ap``.
        method: Valor's rules or COCO's.
        least_score: Confidence below which a true positive does not count for recall.
    """
    if not len(matched.truth):
        return [None] * images
    labels = len(matched.names)
    groups, number = np.unique(matched.truth.image * labels + matched.truth.label, return_counts=True)
    group = matched.predictions.image * labels + matched.predictions.label
    place = np.minimum(np.searchsorted(groups, group), len(groups) - 1)
    relevant = np.flatnonzero(groups[place] == group)  # a label without ground truth in the image has no AP there
    ranking = rank(
        place[relevant],
        matched.predictions.score[relevant],
        matched.hits[relevant, :thresholds],
        matched.ignored[relevant, :thresholds],
        len(groups),
        method,
        least_score,
    )
    truth = number.astype(np.float64)
    measured = ranking.measure(np.ones(len(relevant)), truth)
    key_names = list(dict.fromkeys(key for key, _ in matched.names))
    key_of_label = np.array([key_names.index(key) for key, _ in matched.names])
    keys, key = np.unique(groups // labels * len(key_names) + key_of_label[groups % labels], return_inverse=True)
    owners, owner_of_key = np.unique(keys // len(key_names), return_inverse=True)
    values = _summarise(measured, truth, key, owner_of_key, returned)
    out: list[dict[str, float] | None] = [None] * images
    for line, image in enumerate(owners.tolist()):
        out[image] = {metric: float(column[line]) for metric, column in values.items()}
    return out
