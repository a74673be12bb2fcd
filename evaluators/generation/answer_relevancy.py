"""Answer relevancy: would the question be guessed from the answer?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

from pydantic import Field

from leadline.evaluators.core import EvalContext, Metric, Spec, register
from leadline.evaluators.core.embedding_evaluator import quote
from leadline.evaluators.data import DataKind, Reason, Row, RowField, RowScore, clip
from leadline.evaluators.ground import ModelRef
from leadline.evaluators.judge.embedding_judge import EmbeddingJudgeEvaluator, EmbeddingJudgeParams
from leadline.evaluators.judge.judge_evaluator import Judge, prompt_beside
from leadline.evaluators.judge.ragas_base import SOURCE, Measured
from leadline.evaluators.judge.verdicts import JudgeReply
from leadline.evaluators.judge_client.calls import JudgeUnparseable


class Questions(JudgeReply):
    """Questions that an answer would answer, and whether it is noncommittal."""

    noncommittal: bool
    questions: tuple[str, ...]


class AnswerRelevancyParams(EmbeddingJudgeParams):
    """Parameters of answer relevancy."""

    generated_questions: Annotated[
        int, Field(ge=1, le=20, description="Questions that the judge generates from the answer.")
    ] = 3


def relevancy(cosines: Sequence[float], *, noncommittal: bool) -> float:
    """Return the mean of cosines, brought into [0, 1], and 0 for a noncommittal answer.

    Args:
        cosines: Similarity of each generated question to the row's own, from -1 to 1; at least one, unless the answer
            is noncommittal.
        noncommittal: Whether the answer avoids the question.
    """
    return 0.0 if noncommittal else clip(sum(cosines) / len(cosines), 0.0, 1.0)


@register
class AnswerRelevancy(EmbeddingJudgeEvaluator):
    """Mean similarity of the question and questions that the judge generates from the answer.

    **Method.** The judge generates N (3) questions for the answer, in one reply, and says whether the answer is
    noncommittal::

        answer relevancy = mean over i of cosine(emb(generated question i), emb(question)),  0 if noncommittal

    **Edge cases.**

    * A noncommittal answer ("I don't know") is not relevant: 0. So is a blank one, and nothing is asked about it.
    * A mean cosine below 0 counts as 0, the end of the metric's range; RAGAS leaves it negative.
    * A blank question can be answered by nothing: the row is unscored.
    * A reply with more or fewer questions, or with a blank one, is unreadable, and asked for again.
    * Without its embedder a row is unscored, and the judge is not asked.

    The retrieved context is not read: the reference lists it as an input, but its method does not use it.

    **Source.** H2O Sonar evaluator reference, "Answer Relevancy Evaluator"; RAGAS, https://arxiv.org/abs/2309.15217,
    since 0.3.6 noncommittal only when all of the questions are.
    """

    spec = Spec(
        id="answer_relevancy",
        name="Answer Relevancy Evaluator",
        origin="h2o",
        inputs=(RowField.QUESTION, RowField.RETRIEVED_CONTEXT, RowField.ACTUAL_ANSWER),
        optional=frozenset({RowField.RETRIEVED_CONTEXT}),
        metrics=(
            Metric.higher(
                "answer_relevancy",
                "Mean similarity of the question and questions that a judge generates from the answer.",
            ),
        ),
        judge="llm",
        keywords=("judge", "embeddings", "relevance", "RAGAS"),
        suits=(DataKind.QUESTIONS,),
        source=SOURCE,
    )
    parameters = AnswerRelevancyParams
    params: AnswerRelevancyParams
    prompts = {"answer_relevancy": prompt_beside(__file__, "answer_relevancy.jinja")}  # noqa: RUF012

    @property
    def reads(self) -> tuple[RowField, ...]:
        """The question and the answer."""
        return (RowField.QUESTION, RowField.ACTUAL_ANSWER)

    def texts_to_embed(self, rows: Sequence[Row], ctx: EvalContext) -> Mapping[ModelRef, Iterable[str]]:
        """Return the questions; those that the judge will generate are not known yet."""
        return {self.embedder(ctx): dict.fromkeys(row.question or "" for row in rows)}

    async def judge_and_compare(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Judge one row."""
        question, answer = row.question or "", row.actual_answer or ""
        if not question.strip():
            return RowScore.unscored(self.row_metrics, Reason.UNSCORABLE, "The question is blank.")
        if not answer.strip():
            return Measured(0.0, "The answer is blank.").as_score("answer_relevancy")
        await self.cosines(question, (), ctx)
        reply = await self._generate(judge, answer)
        cosines = [] if reply.noncommittal else await self.cosines(question, reply.questions, ctx)
        return Measured(
            relevancy(cosines, noncommittal=reply.noncommittal),
            "The answer is noncommittal." if reply.noncommittal else "",
            {
                "noncommittal": reply.noncommittal,
                "questions": [quote(generated) for generated in reply.questions],
                "cosines": cosines,
            },
        ).as_score("answer_relevancy")

    async def _generate(self, judge: Judge, answer: str) -> Questions:
        count = self.params.generated_questions

        def check(reply: Questions) -> None:
            filled = sum(bool(generated.strip()) for generated in reply.questions)
            if not reply.noncommittal and (filled != count or len(reply.questions) != count):
                raise JudgeUnparseable(f"The reply holds {filled} questions instead of {count}.")

        return await judge.ask("answer_relevancy", Questions, check=check, answer=answer, count=count)
