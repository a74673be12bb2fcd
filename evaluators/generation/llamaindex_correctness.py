"""Correctness from 1 to 5, as LlamaIndex's guide builds it from scratch."""

from __future__ import annotations

import asyncio
from typing import Annotated, NamedTuple

from pydantic import Field

from leadline.evaluators.core import EvalContext, JudgeKey, Metric, Spec, register
from leadline.evaluators.data import DataKind, Evidence, Row, RowField, RowScore
from leadline.evaluators.judge.judge_evaluator import Judge, JudgeEvaluator, prompt_beside
from leadline.evaluators.judge_client.replies import read_number


class CorrectnessParams(JudgeKey):
    """Parameters of correctness."""

    passing_threshold: Annotated[float, Field(ge=1, le=5, description="An answer passes with this score or more.")] = (
        4.0
    )


class Grade(NamedTuple):
    """A score from 1 to 5, and the reasoning of the judge that gave it."""

    score: float
    reasoning: str


def read_grade(text: str) -> Grade:
    """Read a reply of a line with only the score, followed by the reasoning, which may be missing.

    Raises:
        JudgeUnparseable: The first line that is not blank is no number from 1 to 5.
    """
    score, _, reasoning = text.strip().partition("\n")
    return Grade(read_number(score, 1, 5), reasoning.strip())


@register
class LlamaIndexCorrectness(JudgeEvaluator):
    """Relevance and correctness of the answer against the reference answer, from 1 to 5.

    **Method.** The judge replies with a line with only the score, and its reasoning on the lines after: 1 for an answer
    that is not relevant to the question, 2 to 3 for one with mistakes, 4 to 5 for a correct one. An answer is passing
    with a score of at least ``passing_threshold``, 4.0 by default. Scores need not be whole numbers.

    **Edge cases.**

    * A reply without reasoning is read; one whose first line is no number from 1 to 5 is asked for again, and then the
      row is unscored (the reference counts it as 0 in its averages).
    * With several expected answers the judge is asked about each, and the best score counts.

    **Source.** LlamaIndex, "Building Evaluation from Scratch", "Building a Correctness Evaluator".
    """

    spec = Spec(
        id="llamaindex.correctness",
        name="Correctness 1-5 (LlamaIndex)",
        origin="llamaindex",
        inputs=(RowField.QUESTION, RowField.EXPECTED_ANSWER, RowField.ACTUAL_ANSWER),
        metrics=(
            Metric.higher(
                "score",
                "Relevance and correctness of the answer, from 1 to 5.",
                range=(1, 5),
                threshold=4.0,
                primary=True,
            ),
            Metric.higher(
                "passing", "Share of answers whose score is at least the passing threshold.", threshold=None, share=True
            ),
        ),
        judge="llm",
        keywords=("judge", "ground truth"),
        suits=(DataKind.QUESTIONS,),
        source="LlamaIndex, Building Evaluation from Scratch",
    )
    parameters = CorrectnessParams
    params: CorrectnessParams
    prompts = {"grade": prompt_beside(__file__, "llamaindex_correctness.jinja")}  # noqa: RUF012

    async def judge_row(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Judge one row."""
        grades = await asyncio.gather(
            *(
                judge.read(
                    "grade",
                    read_grade,
                    query=row.question,
                    reference_answer=reference,
                    generated_answer=row.actual_answer,
                )
                for reference in row.expected_answers
            )
        )
        best = max(grades, key=lambda grade: grade.score)
        return RowScore(
            {"score": best.score, "passing": float(best.score >= self.params.passing_threshold)},
            Evidence(best.reasoning, data={"reasoning": best.reasoning, "scores": [grade.score for grade in grades]}),
        )
