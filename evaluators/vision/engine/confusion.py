"""Confusion matrices of label keys, for detection and for segmentation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from leadline.evaluators.data import MOST_CONFUSED, Confusion, LabelName

if TYPE_CHECKING:
    import numpy.typing as npt

NOTHING: Final = "(nothing)"
"""Label of no object or region."""

OTHERS: Final = "(other labels)"
"""The rarest labels together, where there are too many."""


def confusion(
    key: str,
    names: Sequence[LabelName],
    labels: npt.NDArray[np.int64],
    expected: npt.NDArray[np.int64],
    found: npt.NDArray[np.int64],
    weight: npt.NDArray[np.float64],
) -> Confusion:
    """Return the confusion matrix of a label key.

    Args:
        names: All labels by number.
        labels: Numbers of the labels of the key.
        expected: For each item its true label by number, ``len(names)`` for none.
        found: For each item its predicted label by number, ``len(names)`` for none.
        weight: For each item its weight.
    """
    seen = np.bincount(expected, weight, len(names) + 1) + np.bincount(found, weight, len(names) + 1)
    order = labels[np.lexsort((labels, -seen[labels]))]
    kept = order if len(order) < MOST_CONFUSED else order[: MOST_CONFUSED - 2]
    shown = [names[label][1] for label in kept.tolist()]
    place = np.full(len(names) + 1, len(shown), dtype=np.int64)
    place[kept] = np.arange(len(kept))
    if len(kept) < len(order):
        shown.append(OTHERS)
    place[-1] = len(shown)
    shown.append(NOTHING)
    size = len(shown)
    counts = np.bincount(place[expected] * size + place[found], weight, size * size).reshape(size, size)
    table = [[as_count(number) for number in line] for line in counts.tolist()]
    return {"key": key, "expected": shown, "predicted": shown, "counts": table}


def as_count(value: float) -> float | int:
    """Return a count as an integer where it is one; a row that was scored in trials counts in parts."""
    return int(value) if float(value).is_integer() else float(value)
