"""Base of the n-gram evaluators: each text is prepared once, then answers are compared with references."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

from leadline.evaluators.core import EvalContext, RowEvaluator
from leadline.evaluators.data import Row, RowScore

T = TypeVar("T")


class OverlapEvaluator(RowEvaluator, Generic[T]):
    """Compares an answer with its acceptable answers, after preparing (tokenizing, counting) each text.

    Rows are scored in the order of their expected answers, so that the references of a case are prepared once for
    all the models that answered it, while only one case's references are in memory.
    """

    @abstractmethod
    def read(self, text: str, ctx: EvalContext) -> T:
        """Prepare a text for ``compare``.

        Args:
            text: The answer or an acceptable answer.
            ctx: The context of the run.
        """

    @abstractmethod
    def compare(self, answer: T, references: Sequence[T]) -> RowScore:
        """Score an answer.

        Args:
            answer: The prepared answer.
            references: The prepared acceptable answers, at least one.
        """

    def score(self, rows: Sequence[Row], ctx: EvalContext) -> list[RowScore]:
        """Score each row; one row's failure leaves that row unscored and no other."""
        scores: dict[int, RowScore] = {}
        references: dict[str, T] = {}

        def score_one(row: Row, ctx: EvalContext) -> RowScore:
            for text in row.expected_answers:
                if text not in references:
                    references[text] = self.read(text, ctx)
            answer = self.read(row.actual_answer or "", ctx)
            return self.compare(answer, [references[text] for text in row.expected_answers])

        before: tuple[str, ...] = ()
        for index in sorted(range(len(rows)), key=lambda i: rows[i].expected_answers):
            if rows[index].expected_answers != before:
                before = rows[index].expected_answers
                references.clear()
            scores[index] = self._guarded(rows[index], ctx, score_one)
        return [scores[index] for index in range(len(rows))]

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Score one row alone."""
        return self.score([row], ctx)[0]
