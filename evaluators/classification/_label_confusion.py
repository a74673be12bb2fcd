"""Labels that are taken for others: averages of precision, recall and F1, and the values and counts by label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, cast

import numpy as np

from leadline.evaluators.core import RESAMPLES
from leadline.evaluators.data import MOST_CONFUSED, MOST_LABELS, Confusion, Details, Json, LabelValues

if TYPE_CHECKING:
    import numpy.typing as npt

OTHER: Final = "(other)"
"""Shown for every answer that is none of the labels given; ``None`` in a payload."""

RARE: Final = "(other labels)"
"""Shown for the labels that a confusion matrix has no place for."""

EMPTY: Final = "(empty)"
"""Shown for an answer without text."""

KEY: Final = "label"
"""Name of the one label key in the details."""

_SEED: Final = 20240601
_TAIL: Final = 0.025
_UNSEEN: Final = 0.9
"""Share of the row beyond those that were seen which goes to the side of an interval's end."""

_UNREPEATED: Final = 20
"""Number of labels above which they must repeat themselves to be worth a table."""


class Averaged(NamedTuple):
    """The average over the labels' ratios.

    Attributes:
        average: As scikit-learn's parameter of this name.
        labels: The labels to average over; all that occur if empty.
        positive: The positive label of ``binary``.
    """

    average: Literal["macro", "micro", "weighted", "binary"]
    labels: tuple[str, ...] = ()
    positive: str = ""


def precision_recall_f1(
    payloads: Sequence[Json], weights: npt.NDArray[np.float64], averaged: Averaged
) -> dict[str, npt.NDArray[np.float64]]:
    """Return precision, recall and F1 of distinct pairs for many weightings, as scikit-learn with ``zero_division=0``.

    Args:
        payloads: Distinct ``{"expected", "actual"}`` pairs, ``n`` of them.
        weights: Array of shape ``(b, n)``: how often each pair counts.
        averaged: The average over the labels.

    Returns:
        For each of ``precision``, ``recall`` and ``f1`` an array of shape ``(b,)``.
    """
    found, right, wanted = _tallies(_pairs(payloads), weights, _labels(payloads, averaged))
    if averaged.average == "micro":
        found, right, wanted = (each.sum(axis=1, keepdims=True) for each in (found, right, wanted))
    each_label = _ratios(found, right, wanted)
    if averaged.average == "weighted":
        total = wanted.sum(axis=1)
        return {name: ratio((values * wanted).sum(axis=1), total) for name, values in each_label.items()}
    counted = np.ones_like(found)
    if averaged.average == "macro" and not averaged.labels:  # a label that is not in a resample does not count in it
        counted = (found + wanted > 0).astype(np.float64)
    return {name: ratio((values * counted).sum(axis=1), counted.sum(axis=1)) for name, values in each_label.items()}


def intervals(
    payloads: Sequence[Json], weights: npt.NDArray[np.float64], averaged: Averaged, size: float
) -> dict[str, tuple[float, float]]:
    """Return 95 % intervals of precision, recall and F1, or none where there are more than 50 labels.

    Resampling cannot find the errors that a few rows of a rare label do not show, and takes 3 right answers of 3 for
    certain. Here the shares of a label's answers are drawn from their posterior (Dirichlet's), with one row beyond
    those that were seen: for the lower end it is wrong, for the upper one right, as far as :data:`_UNSEEN` says. That
    holds also for a label that was answered and never expected, whose right answers the rows may only have missed. In
    simulations with 2 to 10 labels of which the rarest has 3 rows the intervals cover 94 % and more; Jeffreys' prior
    has 90 %, with 8 % below the truth, and a bootstrap 72 %.

    Args:
        payloads: Distinct ``{"expected", "actual"}`` pairs, ``n`` of them.
        weights: Array of shape ``(n,)``: how often each pair occurs.
        averaged: The average over the labels.
        size: How many independent rows they are worth.
    """
    pairs = _pairs(payloads)
    labels = sorted({label for pair in pairs for label in pair if label is not None} | set(averaged.labels))
    if len(labels) > MOST_CONFUSED or not weights.sum():
        return {}
    cells: dict[tuple[str, str | None], float] = dict.fromkeys(((one, other) for one in labels for other in labels), 0)
    for pair, weight in zip(pairs, (weights * size / weights.sum()).tolist(), strict=True):
        cells[pair] = cells.get(pair, 0) + weight
    known: list[Json] = [{"expected": one, "actual": other} for one, other in cells]
    right = np.array([one == other for one, other in cells])
    random = np.random.default_rng(_SEED)
    seen = precision_recall_f1(payloads, weights[np.newaxis, :], averaged)
    ends = []
    for of_right, level in ((1 - _UNSEEN, _TAIL), (_UNSEEN, 1 - _TAIL)):
        beyond = np.where(right, of_right, (1 - of_right) / max(1, len(labels) - 1))
        drawn = random.standard_gamma(np.array(list(cells.values())) + beyond, size=(RESAMPLES, len(cells)))
        found = precision_recall_f1(known, drawn, averaged)
        ends.append({name: float(np.quantile(values, level)) for name, values in found.items()})
    return {
        name: (min(ends[0][name], float(value[0])), max(ends[1][name], float(value[0]))) for name, value in seen.items()
    }


def details(payloads: Sequence[Json], weights: npt.NDArray[np.float64], averaged: Averaged) -> Details | None:
    """Return precision, recall, F1 and counts by label, and the confusion matrix.

    Args:
        payloads: Distinct ``{"expected", "actual"}`` pairs, ``n`` of them.
        weights: Array of shape ``(n,)``: how often each pair occurs.
        averaged: The average over the labels.

    Returns:
        ``None`` where more than 20 labels are expected, less than twice each on average: their table is of no use.
    """
    expected = Counter[str]()
    for (label, _), weight in zip(_pairs(payloads), weights.tolist(), strict=True):
        expected[label] += weight
    if len(expected) > _UNREPEATED and 2 * len(expected) > expected.total():
        return None
    values = _label_values(payloads, weights, averaged)
    out: Details = {"labels": values[: MOST_LABELS + 1], "confusion": [_confusion(payloads, weights, expected)]}
    if len(values) > MOST_LABELS + 1:
        out["notes"] = [f"The values are of the {MOST_LABELS:,} most frequent of {len(values) - 1:,} labels."]
    return out


def _label_values(payloads: Sequence[Json], weights: npt.NDArray[np.float64], averaged: Averaged) -> list[LabelValues]:
    """Return the averages, then the values of each label; those that are expected most come first."""
    once = weights[np.newaxis, :]
    labels = _labels(payloads, averaged._replace(average="macro"))
    found, right, wanted = _tallies(_pairs(payloads), once, labels)
    table = _ratios(found, right, wanted)
    averages = precision_recall_f1(payloads, once, averaged)
    total = float(weights.sum())
    counts = {"items": _count(total), "answers": _count(total)}
    out: list[LabelValues] = [
        {"key": KEY, "value": "", "values": {name: float(value[0]) for name, value in averages.items()} | counts}
    ]
    for place in sorted(range(len(labels)), key=lambda place: (-wanted[0, place], -found[0, place], labels[place])):
        ratios = {name: float(values[0, place]) for name, values in table.items()}
        counts = {"items": _count(wanted[0, place]), "answers": _count(found[0, place])}
        out.append({"key": KEY, "value": _shown(labels[place]), "values": ratios | counts})
    return out


def _confusion(payloads: Sequence[Json], weights: npt.NDArray[np.float64], expected: Counter[str]) -> Confusion:
    """Return the confusion matrix: a line per expected label; a column for each, and then for other answers.

    It has no more than 50 of either; the rarest stand together in one line or column.
    """
    answered = Counter[str]()
    others = 0.0
    for (_, actual), weight in zip(_pairs(payloads), weights.tolist(), strict=True):
        if actual is None:
            others += weight
        elif actual not in expected:
            answered[actual] += weight
    lines = _ranked(expected)[:MOST_CONFUSED]
    columns = [*lines, *_ranked(answered)[: MOST_CONFUSED - len(lines)]]
    line_of, column_of = ({label: place for place, label in enumerate(labels)} for labels in (lines, columns))
    rare_line, rare_column, other_column = len(lines), len(columns), len(columns) + 1
    counts = [[0.0] * (len(columns) + 2) for _ in range(len(lines) + 1)]
    for (label, actual), weight in zip(_pairs(payloads), weights.tolist(), strict=True):
        column = other_column if actual is None else column_of.get(actual, rare_column)
        counts[line_of.get(label, rare_line)][column] += weight
    more_lines = len(expected) > len(lines)
    more_columns = len(expected) + len(answered) > len(columns)
    kept = [*range(len(columns)), *([rare_column] if more_columns else []), *([other_column] if others else [])]
    return {
        "key": KEY,
        "expected": [*map(_shown, lines), *([RARE] if more_lines else [])],
        "predicted": [*map(_shown, columns), *([RARE] if more_columns else []), *([OTHER] if others else [])],
        "counts": [[_count(line[column]) for column in kept] for line in counts[: len(lines) + more_lines]],
    }


def _ranked(counts: Counter[str]) -> list[str]:
    return sorted(counts, key=lambda label: (-counts[label], label))


def _shown(label: str) -> str:
    """Return a label as it is shown, in quotes where it could be mistaken for one of the names for several labels."""
    return f'"{label}"' if label in (OTHER, RARE, EMPTY) else label or EMPTY


def _count(value: float) -> float:
    """Return a count as an integer where it is one; a row that was scored in trials counts in parts."""
    return int(value) if float(value).is_integer() else round(float(value), 3)


def _labels(payloads: Sequence[Json], averaged: Averaged) -> Sequence[str]:
    """Return the labels that are averaged over."""
    if averaged.average == "binary":
        return [averaged.positive]
    return averaged.labels or sorted({label for pair in _pairs(payloads) for label in pair if label is not None})


def _tallies(
    pairs: Sequence[tuple[str, str | None]], weights: npt.NDArray[np.float64], labels: Sequence[str]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return three arrays of shape ``(b, labels)``: how often each is answered, answered rightly, and expected."""
    number: dict[str | None, int] = {label: index for index, label in enumerate(labels)}
    expected = np.array([number.get(pair[0], -1) for pair in pairs], dtype=np.int64)
    actual = np.array([number.get(pair[1], -1) for pair in pairs], dtype=np.int64)
    hits = np.where(expected == actual, expected, -1)
    return sums(weights, actual, len(labels)), sums(weights, hits, len(labels)), sums(weights, expected, len(labels))


def _ratios(
    found: npt.NDArray[np.float64], right: npt.NDArray[np.float64], wanted: npt.NDArray[np.float64]
) -> dict[str, npt.NDArray[np.float64]]:
    return {
        "precision": ratio(right, found),
        "recall": ratio(right, wanted),
        "f1": ratio(2 * right, found + wanted),
    }


def _pairs(payloads: Sequence[Json]) -> list[tuple[str, str | None]]:
    return [(payload["expected"], payload["actual"]) for payload in cast("Sequence[dict[str, Any]]", payloads)]


def sums(weights: npt.NDArray[np.float64], index: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.float64]:
    """Return the sum of the weights of each label, shape ``(b, size)``.

    Args:
        weights: Array of shape ``(b, n)``.
        index: Label of each of the ``n``; -1 counts nowhere.
        size: Number of labels.
    """
    out = np.zeros((len(weights), size))
    order = np.argsort(index, kind="stable")
    order = order[index[order] >= 0]
    if len(order):
        ranked = index[order]
        first = np.flatnonzero(np.concatenate(([True], ranked[1:] != ranked[:-1])))
        out[:, ranked[first]] = np.add.reduceat(weights[:, order], first, axis=1)
    return out


def ratio(above: npt.NDArray[np.float64], below: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return above / below, 0 where ``below`` is 0.

    Args:
        above: Numerators.
        below: Denominators, of the same shape.
    """
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)
