"""Classification: the answer is a label, and so is the expected answer."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from leadline.evaluators.classification._label_confusion import Averaged, details, intervals, precision_recall_f1
from leadline.evaluators.core import Effect, EvalContext, Metric, Params, RowEvaluator, Spec, register
from leadline.evaluators.data import NO_EVIDENCE, DataKind, Evidence, Flag, Json, Row, RowField, RowScore, Severity

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from leadline.evaluators.data import Details

_TRAILING: Final = " \t\r\n.,;:!?。！？"  # noqa: RUF001
_NO_SPACES: Final = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
"""Thai, Lao, Burmese, Khmer, Japanese and Chinese letters."""
_LONGEST: Final = 200
"""Characters of a label that are kept; what is longer is prose, not a label."""


class ClassificationParams(Params):
    """Parameters of the classification evaluator."""

    average: Annotated[
        Literal["macro", "micro", "weighted", "binary"],
        Field(
            description="How precision, recall and F1 are averaged over the labels, as in scikit-learn; 'binary' "
            "takes those of the positive label alone.",
            json_schema_extra=Effect.DATASET_METRICS.extra,
        ),
    ] = "macro"
    positive_label: Annotated[
        str | None,
        Field(
            description="The label that counts as positive where average is 'binary'.",
            json_schema_extra=Effect.DATASET_METRICS.extra,
        ),
    ] = None
    labels: Annotated[
        tuple[str, ...],
        Field(description="The labels there are. Answers outside them count as wrong, and as no label of their own."),
    ] = ()
    match: Annotated[
        Literal["exact", "contains"],
        Field(description="'contains': the answer may be prose in which exactly one of the labels stands as a word."),
    ] = "exact"
    case_sensitive: Annotated[bool, Field(description="Distinguish upper and lower case in labels.")] = False
    categories: Annotated[
        tuple[str, ...],
        Field(description="Only the cases with one of these categories; empty: all cases."),
    ] = ()
    max_label_length: Annotated[
        int,
        Field(
            ge=0,
            description="A row whose expected answers are all longer, in characters, is prose and not applicable; "
            "0: no limit.",
        ),
    ] = 50
    strip: Annotated[bool, Field(description="Ignore white space around a label and punctuation behind it.")] = True

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.match == "contains" and not self.labels:
            raise ValueError("match=contains needs the labels to look for; give them as labels")
        if self.average == "binary" and self.positive_label is None:
            raise ValueError("average=binary needs positive_label")
        return self


@register
class Classification(RowEvaluator):
    """Classification: accuracy, precision, recall and F1 of the labels that a model answered.

    Method: the answer is compared with the expected label after white space around them and punctuation behind them
    is dropped and case is folded ("Spam." is "spam"). With several expected labels any of them is right. Where models
    answer in prose ("The answer is: spam."), give the ``labels`` and ``match=contains``: then an answer counts as a
    label if exactly one of them stands in it as a word, the longer one where they overlap ("not spam" is not "spam").

    Accuracy is the share of right answers. Precision = TP / (TP + FP), recall = TP / (TP + FN) and their harmonic
    mean F1 belong to one label and are computed over all rows of a model, then averaged: ``macro`` (the mean over
    labels), ``weighted`` (by how often a label is expected), ``micro`` (from the sums of TP, FP and FN) or ``binary``
    (the ``positive_label`` alone, every other label being negative). A ratio of 0/0 is 0. All equal scikit-learn's.

    The report shows them for each label, with a confusion matrix of the 50 labels that are expected most; neither where
    more than 20 labels are expected, less than twice each on average.

    Edge cases: a row whose expected answers are all longer than ``max_label_length`` (50 characters), or whose case has
    none of the ``categories`` asked for, is not applicable: prose is not a label. Without ``labels``, every distinct
    wrong answer is a label of its own, as in scikit-learn, which lowers the macro average. With ``labels`` the averages
    are over these, and any other answer counts as "(other)" in the confusion matrix.

    Source: H2O Sonar, Classification Evaluator; scikit-learn ``precision_recall_fscore_support``.
    """

    spec = Spec(
        id="classification",
        name="Classification Evaluator",
        family="classification",
        origin="h2o",
        inputs=(RowField.EXPECTED_ANSWER, RowField.ACTUAL_ANSWER),
        metrics=(
            Metric("accuracy", "Accuracy", True, primary=True, share=True, description="Share of right labels."),
            Metric.higher(
                "precision",
                "How many of the answers with a label are right, averaged over the labels.",
                dataset_level=True,
            ),
            Metric.higher(
                "recall", "How many of the cases with a label were found, averaged over the labels.", dataset_level=True
            ),
            Metric.higher("f1", "Harmonic mean of precision and recall, averaged over the labels.", dataset_level=True),
        ),
        insight_type="classification",
        problem_type="classification",
        keywords=("binomial", "multinomial", "confusion matrix"),
        suits=(DataKind.LABELS,),
        source="H2O Sonar, Classification Evaluator; scikit-learn",
    )
    interval_method = "posterior"
    parameters = ClassificationParams
    params: ClassificationParams

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Return accuracy, 0 or 1, and the pair of labels for the other metrics."""
        reason = self._why_not(row)
        if reason:
            return RowScore.not_applicable(self.row_metrics, reason)
        known = {self._normal(label) for label in self.params.labels}
        accepted = [self._normal(label) for label in row.expected_answers]
        found = self._labels_in(row.actual_answer or "", known | set(accepted) if known else known)
        actual = found[0] if len(found) == 1 else None
        right = actual in accepted
        expected = found[0] if right else accepted[0]
        return RowScore(
            {"accuracy": float(right)},
            evidence=_evidence(expected, found, right=right),
            flags=_flags(expected, known),
            payload={"expected": _short(expected), "actual": None if actual is None else _short(actual)},
        )

    def aggregate(
        self, payloads: Sequence[Json], weights: npt.NDArray[np.float64]
    ) -> dict[str, npt.NDArray[np.float64]]:
        """Return precision, recall and F1 for each weighting of the distinct pairs of labels."""
        return precision_recall_f1(payloads, weights, self._averaged())

    def intervals(
        self, prepared: Sequence[Json], weights: npt.NDArray[np.float64], size: float
    ) -> dict[str, tuple[float, float]]:
        """Return intervals that allow for the errors which a rare label's few rows do not show."""
        return intervals(prepared, weights, self._averaged(), size)

    def details(
        self, prepared: Sequence[Json], weights: npt.NDArray[np.float64], cases: Sequence[str]
    ) -> Details | None:
        """Return precision, recall and F1 of each label, and the confusion matrix."""
        return details(prepared, weights, self._averaged())

    def _averaged(self) -> Averaged:
        positive = self.params.positive_label
        return Averaged(
            average=self.params.average,
            labels=tuple(dict.fromkeys(_short(self._normal(label)) for label in self.params.labels)),
            positive="" if positive is None else _short(self._normal(positive)),
        )

    @property
    def reads(self) -> tuple[RowField, ...]:
        """Categories matter only where some were asked for."""
        more = (RowField.CATEGORIES,) if self.params.categories else ()
        return tuple(field for field in RowField if field in (*self.spec.reads, *more))

    def _why_not(self, row: Row) -> str:
        """Return the reason why a row is not applicable, ``""`` if it is."""
        if self.params.categories and not set(self.params.categories) & set(row.categories):
            return "The case has none of the categories asked for."
        limit = self.params.max_label_length
        if limit and min(map(len, row.expected_answers)) > limit:
            return f"The expected answer is longer than {limit} characters: prose, not a label."
        return ""

    def _normal(self, text: str) -> str:
        if self.params.strip:
            stripped = text.strip()
            text = stripped.rstrip(_TRAILING) or stripped
        return text if self.params.case_sensitive else text.casefold()

    def _labels_in(self, answer: str, known: set[str]) -> list[str]:
        """Return the labels that an answer names; it is clear if there is exactly one."""
        normal = self._normal(answer)
        if not known or normal in known:
            return [normal]
        if self.params.match == "exact":
            return []
        text = answer if self.params.case_sensitive else answer.casefold()
        present = sorted((label for label in known if label and label in text), key=len, reverse=True)
        if not present:
            return []
        return sorted(set(re.findall("|".join(_as_word(label) for label in present), text)))


def _as_word(label: str) -> str:
    """Return the pattern of a label as a word of its own; in scripts without spaces it may stand anywhere."""
    before = "" if _NO_SPACES.match(label[0]) else r"(?<!\w)"
    after = "" if _NO_SPACES.match(label[-1]) else r"(?!\w)"
    return before + re.escape(label) + after


def _flags(expected: str, known: set[str]) -> tuple[Flag, ...]:
    if not known or expected in known:
        return ()
    message = "The expected answer is none of the labels given, so that no average counts it."
    return (Flag("dataset", Severity.MEDIUM, message),)


def _evidence(expected: str, found: list[str], *, right: bool) -> Evidence:
    if right:
        return NO_EVIDENCE
    if not found:
        return Evidence("The answer names none of the labels.")
    if len(found) > 1:
        return Evidence(f"The answer names {len(found)} labels, not one.")
    return Evidence(f"Expected {_short(expected)!r}, got {_short(found[0])!r}.")


def _short(label: str) -> str:
    """Return a label short enough to keep; long ones stay distinct by a digest."""
    label = label.encode("utf-8", errors="backslashreplace").decode("utf-8")
    if len(label) <= _LONGEST:
        return label
    return f"{label[:80]}… {hashlib.sha256(label.encode()).hexdigest()[:12]}"
