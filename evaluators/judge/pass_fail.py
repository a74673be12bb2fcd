"""The bases of judge evaluators that pass or fail a row."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from typing import Annotated

from pydantic import Field

from leadline.evaluators.core import EvalContext, JudgeKey, unparseable, verdict
from leadline.evaluators.data import Evidence, Json, Row, RowScore, Severity
from leadline.evaluators.judge.judge_evaluator import Judge, JudgeEvaluator
from leadline.evaluators.judge_client.calls import JudgeError, JudgeUnparseable


class PassFailEvaluator(JudgeEvaluator):
    """An evaluator whose metrics are those of :func:`leadline.evaluators.core.metric.boolean_metrics`.

    A row whose reply cannot be read, twice, is a parsing failure: it neither passes nor fails, and is a problem.
    """

    async def judge_row(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Judge one row."""
        (fails, answer), (context_fails, context_answer) = await asyncio.gather(
            self.fails(row, judge), self.context_fails(row, judge)
        )
        data: dict[str, Json] = {} if answer is None else {"verdict": answer}
        if context_answer is not None:
            data["context_verdict"] = context_answer
        return RowScore(verdict(self.metrics, generation=fails, retrieval=context_fails), Evidence(data=data))

    @abstractmethod
    async def fails(self, row: Row, judge: Judge) -> tuple[bool, Json]:
        """Return whether a row fails, and the judge's verdict; ``None`` where it was not asked.

        Args:
            judge: The judge to ask.
        """

    async def context_fails(self, row: Row, judge: Judge) -> tuple[bool, Json]:
        """Return whether the row's retrieved context fails, and the judge's verdict; by default it is not checked.

        Args:
            judge: The judge to ask.
        """
        return False, None

    def without_verdict(self, row: Row, error: JudgeError) -> RowScore:
        """Return the score of a row that got no verdict."""
        if not isinstance(error, JudgeUnparseable):
            return super().without_verdict(row, error)
        return unparseable(self.metrics, str(error), why=error.reason, severity=Severity.HIGH)


class TextCheckParams(JudgeKey):
    """Parameters of evaluators that look for something unwanted in a text."""

    evaluate_retrieved_context: Annotated[
        bool,
        Field(description="Check the retrieved context too, with a call of its own; a row fails when it does."),
    ] = False
