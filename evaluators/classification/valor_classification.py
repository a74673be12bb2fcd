"""Classification of data items as Valor measures it: labels with keys and scores, curves and examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final, Literal

import numpy as np
from pydantic import Field

from leadline.evaluators.classification import _report
from leadline.evaluators.classification._curves import areas
from leadline.evaluators.classification._items import Items, by_key, items_of, label_areas, mean_of_known, payload_of
from leadline.evaluators.core import (
    REPORT_ONLY,
    RESAMPLES,
    Effect,
    EvalContext,
    Metric,
    Params,
    RowEvaluator,
    Spec,
    register,
)
from leadline.evaluators.data import (
    NO_EVIDENCE,
    Annotations,
    Evidence,
    Json,
    LabelName,
    Row,
    RowField,
    RowScore,
    whole_item_labels,
)
from leadline.evaluators.data.label_map import LabelMap

if TYPE_CHECKING:
    import numpy.typing as npt

    from leadline.evaluators.data import Details

_WORK: Final = 100_000_000
"""Predictions that all resamples together look at; fewer resamples are made of a large dataset."""

_LEAST: Final = 100
"""Resamples of the largest dataset."""

_SHOWN: Final = 5
"""Keys whose verdict a row's evidence spells out."""


class ValorClassificationParams(Params):
    """Parameters of Valor's classification."""

    average: Annotated[
        Literal["macro", "micro", "weighted"],
        Field(
            description="How precision, recall and F1 of the labels of one key are averaged, as in scikit-learn. "
            "Values by label are in the details of the report.",
            json_schema_extra=Effect.DATASET_METRICS.extra,
        ),
    ] = "macro"
    label_map: LabelMap = ()
    pr_curve_max_examples: Annotated[
        int,
        Field(
            ge=0,
            le=50,
            description="How many items the detailed precision-recall curve names for each kind of observation.",
            json_schema_extra=REPORT_ONLY,
        ),
    ] = 1
    score_threshold: Annotated[
        float,
        Field(
            ge=0,
            le=1,
            description="Least score of the best label; below it the item counts as one without a prediction.",
        ),
    ] = 0.0
    valor_compat: Annotated[
        bool,
        Field(
            description="ROC AUC as Valor computes it: its curve lacks the origin, which loses the area under a tie at "
            "the top, and items for which a label was not predicted are left out of its curve.",
            json_schema_extra=Effect.DATASET_METRICS.extra,
        ),
    ] = False


@register
class ValorClassification(RowEvaluator):
    """Classification of data items whose ground truth and predictions are labels with keys (Valor).

    An item has one label per key (``animal: cat``, ``color: white``), or several of which any is right. The model gives
    any number of labels under each key, with scores; one without a score has 1. Only annotations without a geometry
    count: boxes and masks are object detection's.

    Method: the label with the highest score under a key, the first of equals, is the model's answer. Accuracy of a key
    = right answers / items with the key; an item without a prediction is wrong. Precision = TP / (TP + FP), recall =
    TP / (TP + FN), F1 = 2 * precision * recall / (precision + recall), each of one label, 0 where it is 0/0; labels
    that were neither expected nor answered have none (Valor: -1). They are averaged over the labels of a key as
    scikit-learn does (``average``). ROC AUC of a label is scikit-learn's ``roc_auc_score`` of its score, one against
    all others, and that of a key the mean over the labels that were predicted. The value of a model is the mean over
    the label keys; the details have each key's and each label's. A row's accuracy is the share of its keys that are
    right.

    Precision-recall curves take every label as a binary problem of its own (score >= threshold, in steps of 0.05), not
    only the best one; 0/0 is -1 there. The detailed curve splits false negatives into misclassifications (another label
    of the key reached the threshold) and no_predictions, and names ``pr_curve_max_examples`` items of each kind.

    Edge cases: a label that no item has, or every item, has a ROC AUC of 1, as in Valor; a key of which nothing was
    predicted has 0. Where a label was not predicted for an item, its score is 0 there. ``valor_compat`` selects
    Valor's own curve. An item without a label in its ground truth is not applicable, and what is predicted under a
    key that an item's ground truth lacks is left out.

    Source: Striveworks Valor, metrics reference, Classification Metrics (valor-core 0.33); scikit-learn.
    """

    spec = Spec(
        id="valor.classification",
        name="Classification (Valor)",
        origin="valor",
        inputs=(RowField.EXPECTED_ANNOTATIONS, RowField.PREDICTED_ANNOTATIONS),
        annotations=("whole",),
        input_names=("labels",),
        metrics=(
            Metric.higher(
                "accuracy",
                "Share of items whose highest-scored label is right, mean over the label keys.",
                threshold=None,
                primary=True,
                pooled=True,
            ),
            Metric.higher(
                "precision",
                "How many of the answers with a label are right, averaged over labels, then over keys.",
                threshold=None,
                dataset_level=True,
            ),
            Metric.higher(
                "recall",
                "How many of the items with a label were found, averaged over labels, then over keys.",
                threshold=None,
                dataset_level=True,
            ),
            Metric.higher(
                "f1",
                "Harmonic mean of precision and recall, averaged over labels, then over label keys.",
                threshold=None,
                dataset_level=True,
            ),
            Metric.higher(
                "rocauc",
                "Area under the ROC curve of each label against all others, mean over labels and keys.",
                name="ROC AUC",
                threshold=None,
                dataset_level=True,
            ),
        ),
        insight_type="classification",
        problem_type="classification",
        keywords=("valor", "labels", "roc", "precision-recall curve", "confusion matrix"),
        source="Striveworks Valor, metrics reference: Classification Metrics",
    )
    parameters = ValorClassificationParams
    params: ValorClassificationParams

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Return the share of the item's label keys that are right, and its labels for the other metrics."""
        mapped = dict(self.params.label_map)
        expected = list(dict.fromkeys((key, value) for key, value, _ in _labels(row.expected_annotations, mapped)))
        if not expected:
            return RowScore.not_applicable(self.row_metrics, "The ground truth has no label of the whole item.")
        predicted: dict[tuple[str, str], float] = {}
        for key, value, score in _labels(row.predicted_annotations, mapped):
            predicted[key, value] = max(score, predicted.get((key, value), 0.0))
        verdicts = self._verdicts(expected, predicted)
        return RowScore(
            {"accuracy": sum(right for right, _ in verdicts.values()) / len(verdicts)},
            evidence=_evidence(verdicts),
            payload=payload_of(expected, [(*label, score) for label, score in predicted.items()]),
        )

    def _verdicts(
        self, expected: Sequence[tuple[str, str]], predicted: Mapping[tuple[str, str], float]
    ) -> dict[str, tuple[bool, str]]:
        """Return for each key whether the best label is right, and the message if it is not."""
        best: dict[str, tuple[str, float]] = {}
        for (key, value), score in predicted.items():
            if score >= self.params.score_threshold and (key not in best or score > best[key][1]):
                best[key] = value, score
        out = {}
        for key in dict.fromkeys(key for key, _ in expected):
            wanted = [value for of, value in expected if of == key]
            found = best.get(key)
            got = f"got {found[0]!r} ({found[1]:.3g})" if found else "nothing was predicted"
            out[key] = (
                found is not None and found[0] in wanted,
                f"{key}: expected {' or '.join(map(repr, wanted[:3]))}, {got}",
            )
        return out

    def prepare(self, payloads: Sequence[Json]) -> Items:
        """Return the items as arrays."""
        return items_of(payloads, self.params.score_threshold)

    def resamples(self, prepared: Items) -> int:
        """Return 1,000, fewer from 100,000 predictions on, so that their cost stays bounded."""
        size = len(prepared.pd_pair) + len(prepared.gt_pair)
        return int(min(RESAMPLES, max(_LEAST, _WORK // max(1, size))))

    def aggregate(self, prepared: Items, weights: npt.NDArray[np.float64]) -> dict[str, npt.NDArray[np.float64]]:
        """Return each metric's mean over the label keys by weighting; keys without an item in it are left out."""
        params = self.params
        roc = label_areas(prepared, *areas(prepared, weights, compat=params.valor_compat))
        values = by_key(prepared, weights, roc, params.average)._asdict()
        return {name: mean_of_known(table, np.nan) for name, table in values.items()}

    def details(self, prepared: Items, weights: npt.NDArray[np.float64], cases: Sequence[str]) -> Details:
        """Return values by key and label, curves, confusion matrices and examples."""
        params = self.params
        return _report.details(
            prepared,
            weights,
            cases,
            average=params.average,
            compat=params.valor_compat,
            most=params.pr_curve_max_examples,
        )


def _labels(annotations: Annotations | None, mapped: Mapping[LabelName, LabelName]) -> list[tuple[str, str, float]]:
    """Return key, value and score of the labels of the item, not of a part of it."""
    found = []
    for label in whole_item_labels(annotations or ()):
        name = label["key"], label["value"]
        found.append((*mapped.get(name, name), label.get("score", 1.0)))
    return found


def _evidence(verdicts: Mapping[str, tuple[bool, str]]) -> Evidence:
    wrong = [message for right, message in verdicts.values() if not right]
    if not wrong:
        return NO_EVIDENCE
    return Evidence("; ".join(wrong[:_SHOWN]) + ("; …" if len(wrong) > _SHOWN else "."))
