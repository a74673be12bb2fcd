"""Confusion matrices, and the averages of precision, recall and F1 from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, cast

from evaluators.types import Json

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

OTHER: Final = "(other)"
"""Shown for every answer that is none of the labels given; ``None`` in a payload."""


class Averaged(NamedTuple):
    """How the labels' ratios become one number.

    Attributes:
        average: As scikit-learn's parameter of this name.
        labels: The labels to average over; all that occur if empty.
        positive: The positive label of ``binary``.
    """

    average: Literal["macro", "micro", "weighted", "binary"]
    labels: tuple[str, ...] = ()
    positive: str = ""


def confusion(
    payloads: Sequence[Json], counts: npt.NDArray[np.float64] | Sequence[float]
) -> tuple[list[str], npt.NDArray[np.float64]]:
    """Return the confusion matrix of distinct ``{"expected", "actual"}`` pairs and how often each occurs.

    Returns:
        The labels, sorted, :data:`OTHER` last; and a matrix with a row per expected and a column per actual label.
    """
    import numpy as np

    pairs = [(expected, OTHER if actual is None else actual) for expected, actual in _pairs(payloads)]
    labels = sorted({label for pair in pairs for label in pair}, key=lambda label: (label == OTHER, label))
    number = {label: index for index, label in enumerate(labels)}
    matrix = np.zeros((len(labels), len(labels)))
    for (expected, actual), count in zip(pairs, counts, strict=True):
        matrix[number[expected], number[actual]] += count
    return labels, matrix


def precision_recall_f1(
    payloads: Sequence[Json], weights: npt.NDArray[np.float64], averaged: Averaged
) -> dict[str, npt.NDArray[np.float64]]:
    """Return precision, recall and F1 of distinct pairs for many weightings, as scikit-learn with ``zero_division=0``.

    Args:
        payloads: Distinct ``{"expected", "actual"}`` pairs, ``n`` of them.
        weights: Array of shape ``(b, n)``: how often each pair counts.
        averaged: How to average over the labels.

    Returns:
        For each of ``precision``, ``recall`` and ``f1`` an array of shape ``(b,)``.
    """
    import numpy as np

    pairs = _pairs(payloads)
    occurring = {label for pair in pairs for label in pair if label is not None}
    labels = [averaged.positive] if averaged.average == "binary" else averaged.labels or sorted(occurring)
    number: dict[str | None, int] = {label: index for index, label in enumerate(labels)}
    expected = np.array([number.get(pair[0], -1) for pair in pairs], dtype=np.int64)
    actual = np.array([number.get(pair[1], -1) for pair in pairs], dtype=np.int64)
    hits = np.where(expected == actual, expected, -1)
    found, right, wanted = (sums(weights, index, len(labels)) for index in (actual, hits, expected))
    if averaged.average == "micro":
        found, right, wanted = (each.sum(axis=1, keepdims=True) for each in (found, right, wanted))
    each_label = {
        "precision": ratio(right, found),
        "recall": ratio(right, wanted),
        "f1": ratio(2 * right, found + wanted),
    }
    if averaged.average == "weighted":
        total = wanted.sum(axis=1)
        return {name: ratio((values * wanted).sum(axis=1), total) for name, values in each_label.items()}
    counted = np.ones_like(found)
    if averaged.average == "macro" and not averaged.labels:  # a label that a resample does not hold is none of it
        counted = (found + wanted > 0).astype(np.float64)
    return {name: ratio((values * counted).sum(axis=1), counted.sum(axis=1)) for name, values in each_label.items()}


def _pairs(payloads: Sequence[Json]) -> list[tuple[str, str | None]]:
    return [(payload["expected"], payload["actual"]) for payload in cast("Sequence[dict[str, Any]]", payloads)]


def sums(weights: npt.NDArray[np.float64], index: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.float64]:
    """Return ``(b, size)``: the sum of the weights of each label; an index of -1 counts nowhere."""
    import numpy as np

    out = np.zeros((len(weights), size))
    order = np.argsort(index, kind="stable")
    order = order[index[order] >= 0]
    if len(order):
        ranked = index[order]
        first = np.flatnonzero(np.concatenate(([True], ranked[1:] != ranked[:-1])))
        out[:, ranked[first]] = np.add.reduceat(weights[:, order], first, axis=1)
    return out


def ratio(above: npt.NDArray[np.float64], below: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    import numpy as np

    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)
