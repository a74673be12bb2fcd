"""RAGAS's metrics of the retrieved context: precision, recall and relevancy."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pydantic import Field

from leadline.evaluators.core import EvalContext, JudgeKey, Spec, one_metric, register
from leadline.evaluators.core.model_evaluator import SPANS, quote
from leadline.evaluators.data import Evidence, Json, Reason, Row, RowField, RowScore, Source, Span
from leadline.evaluators.judge.judge_evaluator import Judge, JudgeEvaluator, prompt_beside
from leadline.evaluators.judge.prompting import Prompt, prompt
from leadline.evaluators.judge.verdicts import (
    RAGAS_SOURCE,
    JudgeReply,
    Measured,
    as_evidence,
    best_of,
    chunk_spans,
    context_of,
    count_of,
    expected_answers,
    one_each,
)
from leadline.evaluators.judge.verdicts import Reason as Rationale
from leadline.evaluators.judge_client.calls import JudgeUnparseable

STANDALONE: Final = "standalone_question"


class RewriteParams(JudgeKey):
    """Parameters of judges that can read a question with what was said before it."""

    rewrite: bool = Field(
        False,
        description="Have the judge rewrite a question that follows others so that it can be understood by itself; all "
        "evaluators share the call.",
    )

    def identity(self) -> dict[str, Json]:
        """Return what keys cover: without rewriting what they covered before it could be chosen."""
        return {name: value for name, value in super().identity().items() if value or name != "rewrite"}


class RewritesQuestion(JudgeEvaluator):
    """The base of judges that may have a question rewritten by what was said before it.

    Nothing is retrieved for "And on Sundays?" alone.
    """

    parameters = RewriteParams

    @property
    def rewrites(self) -> bool:
        """True where questions are rewritten."""
        return bool(getattr(self.params, "rewrite", False))

    @property
    def reads(self) -> tuple[RowField, ...]:
        """The fields of the spec, and the history where questions are rewritten by it."""
        shown = {*super().reads, *([RowField.HISTORY] if self.rewrites else [])}
        return tuple(field for field in RowField if field in shown)

    def all_prompts(self) -> dict[str, Prompt]:
        """Return the prompts in use."""
        more = {STANDALONE: prompt(prompt_beside(__file__, f"{STANDALONE}.jinja"))} if self.rewrites else {}
        return super().all_prompts() | more

    def calls_per_row(self) -> float:
        """One more for a row whose question is rewritten."""
        return super().calls_per_row() + self.rewrites

    async def seen(self, row: Row, judge: Judge, ctx: EvalContext) -> Row:
        """Return a row with its question rewritten; one that nothing precedes stays as it is."""
        if not (self.rewrites and row.history and (row.question or "").strip()):
            return row
        return replace(row, question=await judge.say(STANDALONE, question=row.question, history=row.history))


def average_precision(useful: Sequence[bool]) -> float:
    """Return the mean, over the useful places, of the share of useful ones up to there; 0 where none is useful."""
    found, total = 0, 0.0
    for depth, yes in enumerate(useful, start=1):
        if yes:
            found += 1
            total += found / depth
    return total / found if found else 0.0


@register
class ContextPrecision(RewritesQuestion):
    """Mean precision at the ranks of the chunks that are useful for the expected answer.

    **Method.** The judge says of each chunk whether it was useful in arriving at the expected answer to the question.
    With ``v(k)`` 1 or 0 for the chunk at depth ``k``::

        precision(k)      = useful chunks up to depth k / k
        context precision = sum of precision(k) v(k) / number of useful chunks

    All chunks are judged in one reply, up to 20 of them. With several expected answers it is the best of them.

    **Edge cases.**

    * No useful chunk: 0. A blank chunk is not useful; the judge is not asked about it.
    * RAGAS adds 1e-10 to the divisor, so that its best value is 0.9999999999; here it is 1.
    * A blank expected answer or question can be no reference: the row is unscored.
    * A reply with more or fewer verdicts than chunks is unreadable, and asked for again.

    **Source.** H2O Sonar evaluator reference, "Context Precision Evaluator"; RAGAS, https://docs.ragas.io.
    """

    spec = Spec(
        id="context_precision",
        name="Context Precision Evaluator",
        origin="h2o",
        inputs=(RowField.QUESTION, RowField.EXPECTED_ANSWER, RowField.RETRIEVED_CONTEXT),
        metrics=one_metric(
            "context_precision", "Whether the chunks that are useful for the expected answer rank above the others."
        ),
        judge="llm",
        llm=False,
        keywords=("judge", "retrieval", "ranking", "RAGAS"),
        source=RAGAS_SOURCE,
    )
    prompts = {"context_precision": prompt_beside(__file__, "context_precision.jinja")}  # noqa: RUF012

    async def judge_row(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Judge one row."""
        expected = expected_answers(row)
        if not expected or not (row.question or "").strip():
            what = "question" if expected else "expected answer"
            return RowScore.unscored(self.row_metrics, Reason.UNSCORABLE, f"The {what} is blank.")
        chunks = row.retrieved_context
        places = [place for place, chunk in enumerate(chunks) if chunk.content.strip()]
        texts = [chunks[place].content for place in places]

        async def measure(number: int, answer: str) -> Measured:
            verdicts = await one_each(judge, "context_precision", texts, question=row.question, answer=answer)
            useful = [False] * len(chunks)
            reasons = [""] * len(chunks)
            for place, verdict in zip(places, verdicts, strict=True):
                useful[place], reasons[place] = verdict.verdict == "yes", verdict.reason
            return Measured(
                average_precision(useful),
                f"{sum(useful)} of {len(chunks)} chunks are useful for the expected answer.",
                {"chunks": [{"useful": useful[at], "reason": quote(reasons[at])} for at in range(len(chunks))[:SPANS]]},
                chunk_spans(chunks[:SPANS], useful[:SPANS], "useful", "not useful"),
            )

        return (await best_of(expected, measure)).as_score("context_precision")


MOST_EXPECTED: Final = 500
"""Sentences of an expected answer that are judged: every 20 of them take a call that shows all of the context."""


@register
class ContextRecall(JudgeEvaluator):
    """Share of the sentences of the expected answer that can be attributed to the retrieved context.

    **Method.** ``context recall = attributable sentences / sentences``, where the sentences of the expected answer are
    found by the run's splitter, and the judge says of each whether it can be attributed to the chunks, joined by line
    feeds. All verdicts are one reply, 20 at most. With several expected answers it is the best of them.

    **Edge cases.**

    * An expected answer without a sentence cannot be attributed (RAGAS: NaN): the row is unscored. So is one with an
      expected answer of more than 500 sentences.
    * To a blank context nothing can be attributed: 0, and the judge is not asked.
    * A reply with more or fewer verdicts than sentences is unreadable, and asked for again.

    **Source.** H2O Sonar evaluator reference, "Context Recall Evaluator"; RAGAS, https://docs.ragas.io.
    """

    spec = Spec(
        id="context_recall",
        name="Context Recall Evaluator",
        origin="h2o",
        inputs=(RowField.EXPECTED_ANSWER, RowField.RETRIEVED_CONTEXT),
        metrics=one_metric(
            "context_recall",
            "Share of the expected answer's sentences that can be attributed to the retrieved context.",
        ),
        judge="llm",
        llm=False,
        sentences=True,
        keywords=("judge", "retrieval", "RAGAS"),
        source=RAGAS_SOURCE,
    )
    prompts = {"context_recall": prompt_beside(__file__, "context_recall.jinja")}  # noqa: RUF012

    async def judge_row(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Judge one row."""
        expected = expected_answers(row)
        if not expected:
            return RowScore.unscored(self.row_metrics, Reason.UNSCORABLE, "The expected answer is blank.")
        longest = max(len(ctx.sentences(text)) for text in expected.values())
        if longest > MOST_EXPECTED:
            message = f"The expected answer has {longest} sentences; {MOST_EXPECTED} can be judged."
            return RowScore.unscored(self.row_metrics, Reason.UNSCORABLE, message)
        context = context_of(row)
        if not context.strip():
            return Measured(0.0, "The retrieved context is blank.").as_score("context_recall")

        async def measure(number: int, answer: str) -> Measured:
            sentences = ctx.sentences(answer)
            texts = [sentence.text for sentence in sentences]
            verdicts = await one_each(judge, "context_recall", texts, context=context, answer=answer)
            attributable = count_of(verdicts)
            return Measured(
                attributable / len(sentences),
                f"{attributable} of the expected answer's {len(sentences)} sentences can be attributed to the context.",
                {"sentences": as_evidence(texts, verdicts)},
                tuple(
                    Span(Source.EXPECTED_ANSWER, sentence.start, sentence.end, number, float(verdict.verdict == "yes"))
                    for sentence, verdict in list(zip(sentences, verdicts, strict=True))[:SPANS]
                ),
            )

        return (await best_of(expected, measure)).as_score("context_recall")


AT_ONCE: Final = 100
"""Sentences that the judge is shown at once, at most."""

MOST_SENTENCES: Final = 5_000
"""Sentences of a context that are judged: every 100 of them take a call."""


class Selection(JudgeReply):
    """The sentences that are relevant, by number from 1."""

    reason: Rationale = ""
    relevant: tuple[int, ...]


@register
class ContextRelevancy(RewritesQuestion):
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
        metrics=one_metric(
            "context_relevancy", "Share of the retrieved context's sentences that are relevant to the question."
        ),
        judge="llm",
        llm=False,
        sentences=True,
        keywords=("judge", "retrieval", "RAGAS"),
        source=RAGAS_SOURCE,
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
