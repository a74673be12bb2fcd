"""Which predictions and ground truths went wrong, the worst of each kind first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from leadline.evaluators.vision.engine.image_set import Dataset
from leadline.evaluators.vision.engine.payload import RIGHT, WRONG, Records

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


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
    """Sort out the predictions and ground truths of a dataset."""
    import numpy as np

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
    import numpy as np

    label = records["label"][which]
    order = np.lexsort((worst[which], label))
    bounds = np.searchsorted(label[order], np.arange(1, labels))
    return np.split(which[order], bounds) if labels else []
