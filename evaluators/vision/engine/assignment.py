"""Assigns ground truth to predictions at many IoU thresholds at once: which prediction found which.

Predictions take their turn by falling score. At each threshold a prediction finds the best of its candidates that
no other prediction has found yet. Turns of different groups (an image and a label) do not depend on each other, so
that the n-th turns of all groups are taken together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from leadline.evaluators.vision.engine.overlap import Pairs

if TYPE_CHECKING:
    import numpy.typing as npt


def ranks(group: npt.NDArray[np.int64], *keys: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return the rank of each line within its group by rising keys, the first deciding first, ties by position."""
    order = np.lexsort((*reversed(keys), group))
    sorted_group = group[order]
    first = np.ones(len(group), dtype=bool)
    first[1:] = sorted_group[1:] != sorted_group[:-1]
    starts = np.flatnonzero(first)
    out = np.empty(len(group), dtype=np.int64)
    out[order] = np.arange(len(group)) - np.repeat(starts, np.diff(np.append(starts, len(group))))
    return out


def best_only(pairs: Pairs) -> Pairs:
    """Return for each prediction its pair of highest IoU, the first ground truth where several are equal."""
    order = np.lexsort((pairs.truth, -pairs.iou, pairs.prediction))
    sorted_prediction = pairs.prediction[order]
    first = np.ones(len(order), dtype=bool)
    first[1:] = sorted_prediction[1:] != sorted_prediction[:-1]
    return pairs.take(order[first])


def assign(
    pairs: Pairs,
    group: npt.NDArray[np.int64],
    order: tuple[npt.NDArray[np.float64], ...],
    shared: npt.NDArray[np.bool_],
    thresholds: npt.NDArray[np.float64],
) -> npt.NDArray[np.int64]:
    """Assign ground truth to predictions, at most one to each, at each threshold.

    Args:
        pairs: The candidates.
        group: For each prediction its group, shape ``(predictions,)``; only predictions of one group may have a
            candidate in common.
        order: Keys by which the predictions of a group take their turn, each of shape ``(predictions,)``, lowest first,
            the first deciding first, ties by position.
        shared: For each ground truth whether any number of predictions may find it; such ones are chosen last, as
            crowds are in COCO.
        thresholds: Least IoU, shape ``(t,)``.

    Returns:
        Lines of the ground truth, -1 for none, shape ``(predictions, t)``.
    """
    found = np.full((len(group), len(thresholds)), -1, dtype=np.int64)
    if not len(pairs.iou):
        return found
    involved, which = np.unique(pairs.prediction, return_inverse=True)
    turn = ranks(group[involved], *(key[involved] for key in order))[which]
    taken = np.zeros((len(shared), len(thresholds)), dtype=bool)
    sequence = np.lexsort((-pairs.truth, -pairs.iou, shared[pairs.truth], pairs.prediction, turn))
    pairs, turn = pairs.take(sequence), turn[sequence]
    bounds = np.append(np.flatnonzero(np.diff(turn, prepend=-1)), len(turn))
    for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        _take_turn(pairs.take(np.arange(start, stop)), thresholds, shared, taken, found)
    return found


def _take_turn(
    pairs: Pairs,
    thresholds: npt.NDArray[np.float64],
    shared: npt.NDArray[np.bool_],
    taken: npt.NDArray[np.bool_],
    found: npt.NDArray[np.int64],
) -> None:
    """Let one prediction of each group choose; ``pairs`` are in the order of preference within a prediction."""
    free = (pairs.iou[:, np.newaxis] >= thresholds) & ~taken[pairs.truth]
    starts = np.flatnonzero(np.diff(pairs.prediction, prepend=-1))
    position = np.where(free, np.arange(len(pairs.iou))[:, np.newaxis], len(pairs.iou))
    chosen = np.minimum.reduceat(position, starts, axis=0)
    which, threshold = np.nonzero(chosen < len(pairs.iou))
    truth = pairs.truth[chosen[which, threshold]]
    found[pairs.prediction[starts[which]], threshold] = truth
    exclusive = ~shared[truth]
    taken[truth[exclusive], threshold[exclusive]] = True
