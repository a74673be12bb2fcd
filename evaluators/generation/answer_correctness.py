"""Answer correctness: does the answer say what the expected answer says?"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

from pydantic import Field

from leadline.evaluators.core import EvalContext, Metric, Spec, register
from leadline.evaluators.data import DataKind, Reason, Row, RowField, RowScore, Source, clip
from leadline.evaluators.ground import ModelRef
from leadline.evaluators.judge.embedding_judge import EmbeddingJudgeEvaluator, EmbeddingJudgeParams
from leadline.evaluators.judge.judge_evaluator import Judge, prompt_beside
from leadline.evaluators.judge.ragas_base import (
    SOURCE,
    Measured,
    as_evidence,
    best_of,
    expected_answers,
    is_yes,
    verbatim_spans,
)
from leadline.evaluators.judge.statements import STATEMENTS, statements_of
from leadline.evaluators.judge.verdicts import AT_ONCE, Verdict, Verdicts, one_each


class AnswerCorrectnessParams(EmbeddingJudgeParams):
    """Parameters of answer correctness."""

    factuality_weight: Annotated[
        float, Field(ge=0, le=1, description="Weight of factuality; the rest is that of semantic similarity.")
    ] = 0.75
    beta: Annotated[
        float,
        Field(gt=0, le=100, description="Above 1 what the answer lacks counts more than what it says wrongly."),
    ] = 1.0


def f_score(tp: int, fp: int, fn: int, beta: float = 1.0) -> float:
    """Return (1 + beta²) tp / ((1 + beta²) tp + beta² fn + fp), and 0 without true positives.

    Args:
        tp: Number of true positives.
        fp: Number of false positives.
        fn: Number of false negatives.
        beta: Weight of recall relative to precision, above 0; at 1 both weigh the same.
    """
    weighted = (1 + beta * beta) * tp
    return weighted / (weighted + beta * beta * fn + fp) if tp else 0.0


@register
class AnswerCorrectness(EmbeddingJudgeEvaluator):
    """Weighted mean of the answer's factuality and its semantic similarity to the expected answer.

    **Method.** The judge takes both texts apart into statements, and says of each whether the other text makes it too:
    statements of the answer that the expected answer supports (TP) and does not support (FP), and statements of the
    expected answer that the answer lacks (FN)::

        factuality         = TP / (TP + 0.5 (FP + FN)),  the F1 score; with ``beta`` the F score of that beta
        similarity         = cosine(emb(expected answer), emb(answer)), a negative one counts as 0
        answer correctness = 0.75 factuality + 0.25 similarity

    With several expected answers it is the best of them.

    **Edge cases.**

    * Neither text makes a statement ("Hi." for "Hello."): nothing differs in fact, factuality 1, as in RAGAS.
    * Only one of them does: factuality 0. (The newest RAGAS says 1 there, which rewards saying nothing.)
    * A blank answer is not correct: 0, and the judge is not asked.
    * Expected answers that are all blank: the row is unscored.
    * A reply with more or fewer verdicts than statements is unreadable, and asked for again.
    * Without its embedder a row is unscored, and the judge is not asked.

    **Source.** H2O Sonar evaluator reference, "Answer Correctness Evaluator"; RAGAS, https://docs.ragas.io.
    """

    spec = Spec(
        id="answer_correctness",
        name="Answer Correctness Evaluator",
        origin="h2o",
        inputs=(RowField.EXPECTED_ANSWER, RowField.ACTUAL_ANSWER),
        metrics=(
            Metric.higher(
                "answer_correctness", "How far the answer says what the expected answer says, in facts and in meaning."
            ),
        ),
        judge="llm",
        keywords=("judge", "embeddings", "factuality", "RAGAS"),
        suits=(DataKind.SENTENCES,),
        source=SOURCE,
    )
    parameters = AnswerCorrectnessParams
    params: AnswerCorrectnessParams
    prompts = {"statements": STATEMENTS, "answer_correctness": prompt_beside(__file__, "answer_correctness.jinja")}  # noqa: RUF012

    def calls_per_row(self) -> float:
        """The statements of both texts, and their verdicts."""
        return 3.0

    def texts_to_embed(self, rows: Sequence[Row], ctx: EvalContext) -> Mapping[ModelRef, Iterable[str]]:
        """Return the answers and the expected answers."""
        texts = (text for row in rows for text in (row.actual_answer or "", *row.expected_answers))
        return {self.embedder(ctx): dict.fromkeys(texts)}

    async def judge_and_compare(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Judge one row."""
        expected, answer = expected_answers(row), row.actual_answer or ""
        if not expected:
            return RowScore.unscored(self.row_metrics, Reason.UNSCORABLE, "The expected answer is blank.")
        if not answer.strip():
            return Measured(0.0, "The answer is blank.").as_score("answer_correctness")
        cosines = dict(zip(expected, await self.cosines(answer, list(expected.values()), ctx), strict=True))

        async def measure(number: int, truth: str) -> Measured:
            return await self._compare(judge, answer, truth, clip(cosines[number], 0.0, 1.0))

        return (await best_of(expected, measure)).as_score("answer_correctness")

    async def _compare(self, judge: Judge, answer: str, truth: str, similarity: float) -> Measured:
        ours, theirs = await asyncio.gather(statements_of(judge, answer), statements_of(judge, truth))
        verdicts: tuple[Verdict, ...] = ()
        if ours and theirs:
            verdicts = await _presence(judge, answer, truth, ours, theirs)
        of_answer, of_truth = verdicts[: len(ours)], verdicts[len(ours) :]
        tp, found = sum(map(is_yes, of_answer)), sum(map(is_yes, of_truth))
        fp, fn = len(ours) - tp, len(theirs) - found
        factuality = f_score(tp, fp, fn, self.params.beta) if ours or theirs else 1.0
        weight = self.params.factuality_weight
        return Measured(
            weight * factuality + (1 - weight) * similarity,
            f"The expected answer supports {tp} of the answer's {len(ours)} statements; the answer lacks {fn} of "
            f"the expected {len(theirs)}.",
            {
                "factuality": factuality,
                "similarity": similarity,
                "answer": as_evidence(ours, of_answer) if verdicts else list(ours),
                "expected": as_evidence(theirs, of_truth) if verdicts else list(theirs),
            },
            verbatim_spans(Source.ACTUAL_ANSWER, answer, ours, of_answer) if verdicts else (),
        )


async def _presence(
    judge: Judge, answer: str, truth: str, ours: Sequence[str], theirs: Sequence[str]
) -> tuple[Verdict, ...]:
    """Ask of each statement of the answer, then of the expected answer, whether the other makes it too."""
    items = (*ours, *theirs)
    starts = range(0, len(items), AT_ONCE)
    replies = await asyncio.gather(
        *(
            one_each(
                judge,
                "answer_correctness",
                Verdicts,
                items[start : start + AT_ONCE],
                of_answer=len(ours) - start,
                answer=answer,
                truth=truth,
            )
            for start in starts
        )
    )
    return tuple(verdict for reply in replies for verdict in reply.verdicts)
