"""Base of the corpus metrics of sacrebleu: each row's counts, and the score of many rows' counts at once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np

from leadline.evaluators.core import EvalContext, RowEvaluator
from leadline.evaluators.data import Details, Json, Reason, Row, RowScore, clip

if TYPE_CHECKING:
    import numpy.typing as npt

_VARYING: Final = -1
"""Number of expected answers, as sacrebleu writes it where rows have different ones."""


class Counted(NamedTuple):
    """The counts of a model's rows.

    Attributes:
        counts: Array of shape ``(n, k)``.
        references: How many expected answers a row has; -1 where rows have different numbers.
    """

    counts: npt.NDArray[np.float64]
    references: int


class SacrebleuEvaluator(RowEvaluator):
    """A metric of sacrebleu: a row's value is that of the row alone, a model's that of all rows' counts together."""

    @abstractmethod
    def metric(self) -> Any:
        """Return sacrebleu's metric under these parameters."""

    @abstractmethod
    def values(self, counts: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the scores of sums of counts.

        Args:
            counts: Array of shape ``(b, k)``, in the order of sacrebleu's statistics.

        Returns:
            Array of shape ``(b,)``.
        """

    def too_long(self, row: Row) -> str:
        """Return why a row's texts are too long to be compared, ``""`` if they are not."""
        return ""

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Count one row, and score its counts."""
        problem = self.too_long(row)
        if problem:
            return RowScore.unscored(self.row_metrics, Reason.UNSCORABLE, problem)
        answer, expected = row.actual_answer or "", [[text] for text in row.expected_answers]
        [counts] = self.metric()._extract_corpus_statistics([answer], expected)
        [key], [metric] = self.row_metrics, self.metrics
        value = float(self.values(np.array([counts], dtype=np.float64))[0])
        return RowScore({key: clip(value, *metric.range)}, payload=[len(row.expected_answers), *map(float, counts)])

    def prepare(self, payloads: Sequence[Json]) -> Counted:
        """Return the counts of all rows."""
        lines = np.array(cast("Sequence[Sequence[float]]", payloads), dtype=np.float64)
        references = {int(number) for number in lines[:, 0]}
        return Counted(lines[:, 1:], references.pop() if len(references) == 1 else _VARYING)

    def aggregate(self, payloads: Counted, weights: npt.NDArray[np.float64]) -> dict[str, npt.NDArray[np.float64]]:
        """Return the score of all rows together for each weighting of them."""
        [key] = self.row_metrics
        return {key: self.values(weights @ payloads.counts)}

    def details(self, prepared: Counted, weights: npt.NDArray[np.float64], cases: Sequence[str]) -> Details:
        """Return sacrebleu's signature, which says all that the score depends on."""
        metric = self.metric()
        metric.num_refs = prepared.references
        return {"notes": [f"Signature of sacrebleu: {metric.get_signature()}."]}
