"""The six metrics of detection from average precision and recall by label and threshold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leadline.evaluators.vision.engine.ranking import RankedMetrics

if TYPE_CHECKING:
    import numpy as np
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
        owner_of_key: The owner of each key.
        threshold: Which threshold ``map`` and ``ap`` are of.
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
    import numpy as np

    total = np.bincount(group, weight, groups)
    summed = np.bincount(group, np.where(weight > 0, values, 0.0) * weight, groups)
    out: npt.NDArray[np.float64] = np.divide(summed, total, out=np.full(groups, np.nan), where=total > 0)
    return out
