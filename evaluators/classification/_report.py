"""The details of a classification: values by key and label, curves, confusion matrices, examples, Valor's records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from leadline.evaluators.classification._curves import (
    THRESHOLDS,
    Counts,
    Weighted,
    area,
    count,
    examples,
    rankings,
    reached,
    roc_points,
)
from leadline.evaluators.classification._items import (
    Average,
    Items,
    KeyValues,
    LabelSums,
    by_key,
    label_areas,
    label_sums,
    ratios,
)
from leadline.evaluators.data import (
    MOST_CONFUSED,
    MOST_EXAMPLES,
    MOST_LABELS,
    MOST_POINTS,
    MOST_SERIES,
    Confusion,
    Curve,
    Details,
    Example,
    Json,
    LabelValues,
    Series,
)

if TYPE_CHECKING:
    import numpy.typing as npt


NO_PREDICTION: Final = "(no prediction)"
OTHERS: Final = "(other labels)"
_UNDEFINED: Final = -1.0
"""Valor's value of a ratio that is 0/0, and of labels that were neither expected nor answered."""

_BEST_SHOWN: Final = 3
"""Predictions of an example that are shown, from the best on."""


def details(
    items: Items,
    weights: npt.NDArray[np.float64],
    cases: Sequence[str],
    *,
    average: Average,
    compat: bool,
    most: int,
) -> Details:
    """Return the details of one model.

    Args:
        weights: Array of shape ``(n,)``: how often each item occurs.
        cases: For each item the key of a case.
        average: Average over the labels of a key.
        compat: Whether ROC curves are Valor's.
        most: Most items that are named for each kind of observation.
    """
    levels = reached(items)
    counts = count(items, levels, weights)
    sums = label_sums(items, weights[np.newaxis, :])
    wanted = sums.wanted[0]
    order = sorted(np.flatnonzero(items.key_of >= 0).tolist(), key=lambda label: (-wanted[label], items.labels[label]))
    weighted = Weighted.of(items, weights[np.newaxis, :])
    roc = {ranking.label: roc_points(ranking, weighted, compat=compat) for ranking in rankings(items)}
    found = np.array([[area(*points)[0] for points in roc.values()]])
    areas = label_areas(items, list(roc), found)
    of_keys = by_key(items, weights[np.newaxis, :], areas, average)
    values = _label_values(items, sums, areas[0], of_keys, order)
    kept = order[:MOST_SERIES]
    named = {label: examples(items, levels, label, most) for label in kept}
    out: Details = {
        "labels": values[: MOST_LABELS + len(items.keys)],
        "curves": list(_curves(items, counts, roc, kept)),
        "confusion": [_confusion(items, weights, key) for key in range(len(items.keys))],
        "examples": _examples(items, cases, most),
        "records": list(_records(items, values, counts, kept, named, cases)),
    }
    if len(order) > MOST_SERIES:
        out["notes"] = [f"Curves and examples are of the {MOST_SERIES} most frequent of {len(order):,} labels."]
    return out


def _label_values(
    items: Items,
    sums: LabelSums,
    areas: npt.NDArray[np.float64],
    of_keys: KeyValues,
    order: Sequence[int],
) -> list[LabelValues]:
    """Return the values of the keys, then of the labels in order."""
    n_of_key = np.zeros(len(items.keys))
    found, _, wanted = (table[0] for table in sums)
    np.add.at(n_of_key, items.key_of[items.key_of >= 0], wanted[items.key_of >= 0])
    out: list[LabelValues] = [
        {
            "key": key,
            "value": "",
            "values": {name: _number(table[0, number]) for name, table in of_keys._asdict().items()}
            | {"items": round(float(n_of_key[number]))},
        }
        for number, key in enumerate(items.keys)
    ]
    of_labels = ratios(*sums)
    for label in order:
        known = found[label] + wanted[label] > 0
        key, value = items.labels[label]
        values: dict[str, float | int | None] = {
            name: float(column[0, label]) if known else None for name, column in of_labels.items()
        }
        values |= {"rocauc": _number(areas[label])}
        values |= {"expected": round(float(wanted[label])), "answered": round(float(found[label]))}
        out.append({"key": key, "value": value, "values": values})
    return out


def _curves(
    items: Items,
    counts: Counts,
    roc: Mapping[int, tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]],
    kept: Sequence[int],
) -> Iterator[Curve]:
    for number, key in enumerate(items.keys):
        mine = [label for label in kept if items.key_of[label] == number]
        recall, rates, f1 = [], [], []
        for label in mine:
            name = items.labels[label][1]
            tp, fp, fn = counts.tp[label], counts.fp[label], counts.fn[label]
            points = [(k, t, tp[k], fp[k], fn[k]) for k, t in enumerate(THRESHOLDS) if tp[k] + fn[k] > 0]
            both = [(_divide(p, p + n), _divide(p, p + f)) for _, _, p, f, n in points if p + f > 0]
            recall.append(_series(name, [x for x, _ in both], [y for _, y in both]))
            f1.append(
                _series(name, [t for _, t, *_ in points], [_divide(2 * p, 2 * p + f + n) for *_, p, f, n in points])
            )
            if label in roc:
                false, true = (side[0] for side in roc[label])
                if false[-1] > 0 and true[-1] > 0:
                    rates.append(_thinned(name, false / false[-1], true / true[-1]))
        suffix = f": {key}" if len(items.keys) > 1 else ""
        for curve in (
            Curve(name=f"Precision and recall{suffix}", x_label="recall", y_label="precision", series=recall),
            Curve(name=f"F1 by score threshold{suffix}", x_label="score threshold", y_label="F1", series=f1),
            Curve(
                name=f"ROC curve{suffix}",
                x_label="false positive rate",
                y_label="true positive rate",
                diagonal=True,
                series=rates,
            ),
        ):
            shown = [series for series in curve["series"] if len(series["x"])]
            if shown:
                yield {**curve, "series": shown}


def _series(label: str, x: Sequence[float], y: Sequence[float]) -> Series:
    return {"label": label, "x": [round(float(each), 6) for each in x], "y": [round(float(each), 6) for each in y]}


def _thinned(label: str, x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> Series:
    """Return a curve through at most :data:`MOST_POINTS` of its points, spread along its length."""
    if len(x) > MOST_POINTS:
        length = np.concatenate(([0.0], np.cumsum(np.hypot(np.diff(x), np.diff(y)))))
        at = np.unique(np.searchsorted(length, np.linspace(0, length[-1], MOST_POINTS)))
        x, y = x[at], y[at]
    return _series(label, x.tolist(), y.tolist())


def _confusion(items: Items, weights: npt.NDArray[np.float64], key: int) -> Confusion:
    """Return the confusion matrix of a key; rare labels are put together, missing predictions stand last."""
    mine = items.pair_key == key
    expected, best, of_pair = items.matched[mine], items.best[mine], weights[items.pair_item[mine]]
    size = len(items.labels)
    frequent = np.bincount(expected, of_pair, minlength=size) + np.bincount(best[best >= 0], of_pair[best >= 0], size)
    ranked = sorted(np.flatnonzero(frequent).tolist(), key=lambda label: (-frequent[label], items.labels[label]))
    kept = sorted(ranked[:MOST_CONFUSED], key=lambda label: items.labels[label])
    place = np.full(size + 1, len(kept), dtype=np.int64)
    place[kept] = np.arange(len(kept))
    place[size] = len(kept) + 1  # where best is -1
    rows, columns = place[expected], place[best]
    names = [items.labels[label][1] for label in kept]
    side = len(kept) + 2
    table = np.bincount(rows * side + columns, of_pair, minlength=side * side).reshape(side, side)
    more, none = len(ranked) > len(kept), bool(table[:, -1].any())
    shown = [*range(len(kept)), *([len(kept)] if more else [])]
    across = [*shown, *([side - 1] if none else [])]
    return {
        "key": items.keys[key],
        "expected": [*names, *([OTHERS] if more else [])],
        "predicted": [*names, *([OTHERS] if more else []), *([NO_PREDICTION] if none else [])],
        "counts": [[round(float(table[row, column]), 3) for column in across] for row in shown],
    }


def _examples(items: Items, cases: Sequence[str], most: int) -> list[Example]:
    """Return wrong answers, the surest first, up to ``most`` of each expected label and kind."""
    wrong = np.flatnonzero(~items.right)
    wrong = wrong[np.argsort(-items.best_score[wrong], kind="stable")]
    taken: dict[tuple[int, bool], int] = {}
    out: list[Example] = []
    for pair in wrong.tolist():
        label, answered = int(items.matched[pair]), bool(items.best[pair] >= 0)
        if len(out) == MOST_EXAMPLES or taken.get((label, answered), 0) >= most:
            continue
        taken[label, answered] = taken.get((label, answered), 0) + 1
        key, value = items.labels[label]
        out.append(
            {
                "kind": "misclassification" if answered else "no_predictions",
                "case": cases[int(items.pair_item[pair])],
                "key": key,
                "value": value,
                "score": float(items.best_score[pair]) if answered else None,
                "expected": [{"labels": [{"key": key, "value": value}]}],
                "predicted": [
                    {"labels": [{"key": key, "value": items.labels[found][1], "score": score}]}
                    for found, score in _best_of(items, pair)
                ],
            }
        )
    return out


def _best_of(items: Items, pair: int) -> list[tuple[int, float]]:
    low, high = np.searchsorted(items.pd_pair, [pair, pair + 1])
    order = low + np.argsort(-items.pd_score[low:high], kind="stable")[:_BEST_SHOWN]
    return [(int(items.pd_label[at]), float(items.pd_score[at])) for at in order]


def _records(
    items: Items,
    values: Sequence[LabelValues],
    counts: Counts,
    kept: Sequence[int],
    named: dict[int, list[dict[str, list[int]]]],
    cases: Sequence[str],
) -> Iterator[dict[str, Json]]:
    """Yield the metrics in the form that Valor returns them, with -1 for what is not defined."""
    names = {"accuracy": "Accuracy", "rocauc": "ROCAUC", "precision": "Precision", "recall": "Recall", "f1": "F1"}
    for line in values:
        of_key = line["value"] == ""
        for name in ("accuracy", "rocauc") if of_key else ("precision", "recall", "f1"):
            found = line["values"][name]
            record: dict[str, Json] = {"type": names[name], "value": _UNDEFINED if found is None else found}
            if of_key:
                yield record | {"parameters": {"label_key": line["key"]}}
            else:
                yield record | {"label": {"key": line["key"], "value": line["value"]}}
    for number, key in enumerate(items.keys):
        mine = [label for label in kept if items.key_of[label] == number]
        parameters: Json = {"label_key": key}
        curve = {items.labels[label][1]: _points(counts, label) for label in mine}
        yield {"type": "PrecisionRecallCurve", "parameters": parameters, "value": curve}
        detailed = {items.labels[label][1]: _detailed(counts, label, named[label], cases) for label in mine}
        yield {"type": "DetailedPrecisionRecallCurve", "parameters": parameters, "value": detailed}


def _points(counts: Counts, label: int) -> dict[str, Json]:
    out: dict[str, Json] = {}
    for k, threshold in enumerate(THRESHOLDS):
        tp, fp, fn, tn = (float(each[label, k]) for each in (counts.tp, counts.fp, counts.fn, counts.tn))
        out[str(threshold)] = {
            "tp": tp,
            "fp": fp,
            "fn": fn,
            "tn": tn,
            "accuracy": _divide(tp + tn, tp + fp + fn + tn, _UNDEFINED),
            "precision": _divide(tp, tp + fp, _UNDEFINED),
            "recall": _divide(tp, tp + fn, _UNDEFINED),
            "f1_score": _divide(2 * tp, 2 * tp + fp + fn) if tp else _UNDEFINED,
        }
    return out


def _detailed(
    counts: Counts, label: int, named: Sequence[dict[str, list[int]]], cases: Sequence[str]
) -> dict[str, Json]:
    out: dict[str, Json] = {}
    for k, threshold in enumerate(THRESHOLDS):
        tp, fp, fn, tn = (float(each[label, k]) for each in (counts.tp, counts.fp, counts.fn, counts.tn))
        mistaken = float(counts.fn_misclassified[label, k])
        found: dict[str, Json] = {kind: [[cases[item]] for item in chosen] for kind, chosen in named[k].items()}
        out[str(threshold)] = {
            "tp": _observed(tp, all=(tp, found["tp"])),
            "tn": _observed(tn, all=(tn, found["tn"])),
            "fn": _observed(
                fn,
                misclassifications=(mistaken, found["fn_misclassifications"]),
                no_predictions=(fn - mistaken, found["fn_no_predictions"]),
            ),
            "fp": _observed(fp, misclassifications=(fp, found["fp_misclassifications"])),
        }
    return out


def _observed(total: float, **kinds: tuple[float, Json]) -> Json:
    observations: dict[str, Json] = {kind: {"count": n, "examples": cases} for kind, (n, cases) in kinds.items()}
    return {"total": total, "observations": observations}


def _divide(above: float, below: float, undefined: float = 0.0) -> float:
    return float(above / below) if below else undefined


def _number(value: float) -> float | None:
    return float(value) if value == value else None
