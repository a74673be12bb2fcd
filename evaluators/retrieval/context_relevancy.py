"""Context relevancy: how much of the retrieved context is needed to answer the question?"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from leadline.evaluators.core import EvalContext, Metric, Spec, register
from leadline.evaluators.core.embedding_evaluator import SPANS, quote
from leadline.evaluators.data import Evidence, Reason, Row, RowField, RowScore, Source, Span
from leadline.evaluators.judge.judge_evaluator import Judge, JudgeEvaluator, prompt_beside
from leadline.evaluators.judge.ragas_base import SOURCE
from leadline.evaluators.judge.verdicts import JudgeReply
from leadline.evaluators.judge.verdicts import Reason as Rationale
from leadline.evaluators.judge_client.calls import JudgeUnparseable

AT_ONCE: Final = 100
"""Sentences that the judge is shown at once, at most."""

MOST_SENTENCES: Final = 5_000
"""Sentences of a context that are judged: every 100 of them take a call."""


class Selection(JudgeReply):
    """The sentences that are relevant, by number from 1."""

    reason: Rationale = ""
    relevant: tuple[int, ...]


@register
class ContextRelevancy(JudgeEvaluator):
    """Share of the sentences of the retrieved context that are relevant to the question.

    **Method.** ``context relevancy = relevant sentences / sentences``, where the sentences of all chunks are found by
    the run's splitter and numbered, and the judge names those that are required to answer the question. It is shown
    100 sentences at once. (RAGAS lets its judge copy sentences and counts what comes back; naming them by number, no
    sentence can be changed or made up.)

    **Edge cases.**

    * No sentence is relevant: 0.
    * A context without a sentence has no share of relevant ones: the row is unscored. So is one with a blank question,
      and one with a context of more than 5,000 sentences.
    * A number that no sentence has, or one that is named twice, makes a reply unreadable, and it is asked for again.

    **Source.** H2O Sonar evaluator reference, "Context Relevancy Evaluator"; RAGAS, https://arxiv.org/abs/2309.15217.
    """

    spec = Spec(
        id="context_relevancy",
        name="Context Relevancy Evaluator",
        origin="h2o",
        inputs=(RowField.QUESTION, RowField.RETRIEVED_CONTEXT),
        metrics=(
            Metric.higher(
                "context_relevancy", "Share of the retrieved context's sentences that are relevant to the question."
            ),
        ),
        judge="llm",
        llm=False,
        sentences=True,
        keywords=("judge", "retrieval", "RAGAS"),
        source=SOURCE,
    )
    prompts = {"context_relevancy": prompt_beside(__file__, "context_relevancy.jinja")}  # noqa: RUF012

    async def judge_row(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Judge one row."""
        question = row.question or ""
        placed = [
            (number, sentence)
            for number, chunk in enumerate(row.retrieved_context)
            for sentence in ctx.sentences(chunk.content)
        ]
        if not question.strip() or not placed:
            what = "The retrieved context holds no sentence." if question.strip() else "The question is blank."
            return RowScore.unscored(self.row_metrics, Reason.UNSCORABLE, what)
        if len(placed) > MOST_SENTENCES:
            message = f"The retrieved context has {len(placed)} sentences; {MOST_SENTENCES} can be judged."
            return RowScore.unscored(self.row_metrics, Reason.UNSCORABLE, message)
        texts = [sentence.text for _, sentence in placed]
        parts = [texts[start : start + AT_ONCE] for start in range(0, len(texts), AT_ONCE)]
        replies = await asyncio.gather(*(_select(judge, question, part) for part in parts))
        relevant = [
            placed[part * AT_ONCE + number - 1] for part, reply in enumerate(replies) for number in reply.relevant
        ]
        return RowScore(
            {"context_relevancy": len(relevant) / len(placed)},
            Evidence(
                f"{len(relevant)} of the retrieved context's {len(placed)} sentences are relevant to the question.",
                tuple(
                    Span(Source.RETRIEVED_CONTEXT, sentence.start, sentence.end, chunk, 1.0, "relevant")
                    for chunk, sentence in relevant[:SPANS]
                ),
                {"reasons": [quote(reply.reason) for reply in replies][:SPANS]},
            ),
        )


async def _select(judge: Judge, question: str, sentences: Sequence[str]) -> Selection:
    def check(reply: Selection) -> None:
        wrong = [number for number in reply.relevant if not 1 <= number <= len(sentences)]
        if wrong or len(set(reply.relevant)) != len(reply.relevant):
            raise JudgeUnparseable(f"The numbers must be from 1 to {len(sentences)}, each at most once.")

    # One line each: white space that could start a line, and so look like another number, is but a space.
    lines = (f"[{number}] {' '.join(text.split())}" for number, text in enumerate(sentences, start=1))
    return await judge.ask(
        "context_relevancy", Selection, check=check, question=question, count=len(sentences), sentences="\n".join(lines)
    )
