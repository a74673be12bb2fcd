"""The metrics of single images, for all images of a batch at once."""

from __future__ import annotations

from leadline.evaluators.vision.engine.image_batch import Looked
from leadline.evaluators.vision.engine.ranking import Method, rank
from leadline.evaluators.vision.engine.summary import summarise


def values_by_image(
    looked: Looked, images: int, *, thresholds: int, returned: int, method: Method, least_score: float
) -> list[dict[str, float] | None]:
    """Return the six metrics of each image, ``None`` for one without ground truth.

    Args:
        looked: A batch.
        images: Number of its images.
        thresholds: How many of the thresholds, the first ones, are averaged over.
        returned: Which of them ``map`` and ``ap`` are of.
        method: Whose rules decide.
        least_score: Confidence below which a true positive does not count for recall.
    """
    import numpy as np

    if not len(looked.truth):
        return [None] * images
    labels = len(looked.names)
    groups, number = np.unique(looked.truth.image * labels + looked.truth.label, return_counts=True)
    group = looked.predictions.image * labels + looked.predictions.label
    place = np.minimum(np.searchsorted(groups, group), len(groups) - 1)
    relevant = np.flatnonzero(groups[place] == group)  # a label without ground truth in the image has no AP there
    ranking = rank(
        place[relevant],
        looked.predictions.score[relevant],
        looked.hits[relevant, :thresholds],
        looked.ignored[relevant, :thresholds],
        len(groups),
        method,
        least_score,
    )
    truth = number.astype(np.float64)
    measured = ranking.measure(np.ones(len(relevant)), truth)
    key_names = list(dict.fromkeys(key for key, _ in looked.names))
    key_of_label = np.array([key_names.index(key) for key, _ in looked.names])
    keys, key = np.unique(groups // labels * len(key_names) + key_of_label[groups % labels], return_inverse=True)
    owners, owner_of_key = np.unique(keys // len(key_names), return_inverse=True)
    values = summarise(measured, truth, key, owner_of_key, returned)
    out: list[dict[str, float] | None] = [None] * images
    for line, image in enumerate(owners.tolist()):
        out[image] = {metric: float(column[line]) for metric, column in values.items()}
    return out
