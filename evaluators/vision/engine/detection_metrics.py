"""The six metrics of detection, from average precision and recall: of a dataset, and of each image of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from leadline.evaluators.vision.engine.image_batch import MatchedBatch
from leadline.evaluators.vision.engine.ranking import Method, RankedMetrics, rank

if TYPE_CHECKING:
    import numpy.typing as npt


def summarise(
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
    values = summarise(measured, truth, key, owner_of_key, returned)
    out: list[dict[str, float] | None] = [None] * images
    for line, image in enumerate(owners.tolist()):
        out[image] = {metric: float(column[line]) for metric, column in values.items()}
    return out
