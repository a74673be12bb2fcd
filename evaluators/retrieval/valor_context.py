"""Context precision and recall as Valor's judges measure them."""

from __future__ import annotations

import asyncio

from leadline.evaluators.core import EvalContext, Spec, one_metric, register
from leadline.evaluators.data import Evidence, Reason, Row, RowField, RowScore
from leadline.evaluators.judge.judge_evaluator import Judge, JudgeEvaluator, prompt_beside
from leadline.evaluators.judge.verdicts import (
    STATEMENTS,
    VALOR_SOURCE,
    as_json,
    chunk_spans,
    count_of,
    one_each,
    parts_of,
)
from leadline.evaluators.retrieval.ragas_contexts import average_precision


@register
class ValorContextPrecision(JudgeEvaluator):
    """Mean precision at the ranks of the contexts that are useful for the expected answer.

    **Method.** The judge says of each context whether it is useful for producing the expected answer to the question.
    With v_k = 1 for a useful context at rank k and precision@k = (v_1 + … + v_k) / k, the score is the sum of
    precision@k · v_k divided by the number of useful contexts. With several expected answers a context is useful when
    it is for any of them: the verdicts are united, not the scores.

    **Edge cases.**

    * No context is useful: 0. Verdicts yes, no, no, yes give 0.75; no, yes, no, yes give 0.5.
    * A reply with more or fewer verdicts than contexts is unreadable, and asked for again.

    **Source.** Striveworks Valor, metrics reference, "Context Precision (LLM-Guided)".
    """

    spec = Spec(
        id="valor.context_precision",
        name="Context Precision (Valor)",
        origin="valor",
        inputs=(RowField.QUESTION, RowField.EXPECTED_ANSWER, RowField.RETRIEVED_CONTEXT),
        metrics=one_metric("context_precision", threshold=None),
        judge="llm",
        llm=False,
        keywords=("judge", "retrieval", "rank"),
        source=VALOR_SOURCE,
    )
    prompts = {"verdicts": prompt_beside(__file__, "valor_context_precision.jinja")}  # noqa: RUF012

    async def judge_row(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Judge one row."""
        contexts = [chunk.content for chunk in row.retrieved_context]
        replies = await asyncio.gather(
            *(
                one_each(judge, "verdicts", contexts, question=row.question, truth=truth)
                for truth in row.expected_answers
            )
        )
        useful = [any(verdict.verdict == "yes" for verdict in of_context) for of_context in zip(*replies, strict=True)]
        return RowScore(
            {"context_precision": average_precision(useful)},
            Evidence(
                f"{sum(useful)} of {len(contexts)} retrieved contexts are useful for the expected answer.",
                chunk_spans(row.retrieved_context, useful, "useful", "not useful"),
                {"by_expected_answer": [[verdict.model_dump() for verdict in reply] for reply in replies]},
            ),
        )


@register
class ValorContextRecall(JudgeEvaluator):
    """Share of an expected answer's statements that can be attributed to the retrieved contexts.

    **Method.** The judge takes each expected answer apart into statements (not sentences), and says of each statement
    whether it can be attributed to the contexts. The score is the share that can, and with several expected answers
    their maximum.

    **Edge cases.**

    * An expected answer that makes no statement is passed over; where none makes any, the row is unscorable. The
      reference divides by zero there.
    * A reply with more or fewer verdicts than statements is unreadable, and asked for again.

    **Source.** Striveworks Valor, metrics reference, "Context Recall (LLM-Guided)".
    """

    spec = Spec(
        id="valor.context_recall",
        name="Context Recall (Valor)",
        origin="valor",
        inputs=(RowField.EXPECTED_ANSWER, RowField.RETRIEVED_CONTEXT),
        metrics=one_metric(
            "context_recall",
            "Share of the expected answer's statements that can be attributed to the contexts.",
            threshold=None,
        ),
        judge="llm",
        llm=False,
        keywords=("judge", "retrieval", "statements"),
        source=VALOR_SOURCE,
    )
    prompts = {"statements": STATEMENTS, "verdicts": prompt_beside(__file__, "valor_context_recall.jinja")}  # noqa: RUF012

    def calls_per_row(self) -> float:
        """The statements and their verdicts."""
        return 2.0

    async def judge_row(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Judge one row."""
        contexts = [chunk.content for chunk in row.retrieved_context]
        truths = await asyncio.gather(*(parts_of(judge, "statements", text) for text in row.expected_answers))
        stated = [truth for truth in truths if truth]
        if not stated:
            return RowScore.unscored(self.row_metrics, Reason.UNSCORABLE, "No expected answer makes a statement.")
        replies = await asyncio.gather(*(one_each(judge, "verdicts", truth, contexts=contexts) for truth in stated))
        scores = [count_of(reply) / len(truth) for truth, reply in zip(stated, replies, strict=True)]
        best = max(range(len(scores)), key=scores.__getitem__)
        attributed = count_of(replies[best])
        return RowScore(
            {"context_recall": scores[best]},
            Evidence(
                f"{attributed} of the expected answer's {len(stated[best])} statements can be attributed to a context.",
                data={
                    "statements": as_json(stated[best], replies[best]),
                    "by_expected_answer": scores,
                },
            ),
        )
