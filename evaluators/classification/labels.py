"""Classification: the answer is a label, and so is the expected answer; which labels are taken for which others."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, Self, cast

import numpy as np
from pydantic import Field, model_validator

from leadline.evaluators.classification._items import Average, averages, ratios, sums
from leadline.evaluators.core import (
    RESAMPLES,
    DataKind,
    Effect,
    EvalContext,
    Metric,
    Params,
    RowEvaluator,
    Spec,
    register,
)
from leadline.evaluators.data import (
    MOST_CONFUSED,
    MOST_LABELS,
    NO_EVIDENCE,
    Confusion,
    Details,
    Evidence,
    Flag,
    Json,
    LabelValues,
    Row,
    RowField,
    RowScore,
    Severity,
)

if TYPE_CHECKING:
    import numpy.typing as npt

_TRAILING: Final = " \t\r\n.,;:!?。！？"  # noqa: RUF001
_NO_SPACES: Final = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
"""Thai, Lao, Burmese, Khmer, Japanese and Chinese letters."""
_LONGEST: Final = 200
"""Characters of a label that are kept; what is longer is prose, not a label."""

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


class ClassificationParams(Params):
    """Parameters of the classification evaluator."""

    average: Annotated[
        Average,
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


class Averaged(NamedTuple):
    """The average over the labels' ratios.

    Attributes:
        average: As scikit-learn's parameter of this name.
        labels: The labels to average over; all that occur if empty.
        positive: The positive label of ``binary``.
    """

    average: Average
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
    tallies = _tallies(_pairs(payloads), weights, _labels(payloads, averaged))
    # A label that is not in a resample does not count in it, unless it was given.
    return averages(*tallies, averaged.average, every=bool(averaged.labels))


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
    table = ratios(found, right, wanted)
    whole = precision_recall_f1(payloads, once, averaged)
    total = float(weights.sum())
    counts = {"items": _count(total), "answers": _count(total)}
    out: list[LabelValues] = [
        {"key": KEY, "value": "", "values": {name: float(value[0]) for name, value in whole.items()} | counts}
    ]
    for place in sorted(range(len(labels)), key=lambda place: (-wanted[0, place], -found[0, place], labels[place])):
        values = {name: float(column[0, place]) for name, column in table.items()}
        counts = {"items": _count(wanted[0, place]), "answers": _count(found[0, place])}
        out.append({"key": KEY, "value": _shown(labels[place]), "values": values | counts})
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


def _pairs(payloads: Sequence[Json]) -> list[tuple[str, str | None]]:
    return [(payload["expected"], payload["actual"]) for payload in cast("Sequence[dict[str, Any]]", payloads)]
