"""Context recall: does the retrieved context contain what the expected answer says?"""

from __future__ import annotations

from typing import Final

from leadline.evaluators.core import EvalContext, Metric, Spec, register
from leadline.evaluators.core.embedding_evaluator import SPANS
from leadline.evaluators.data import Reason, Row, RowField, RowScore, Source, Span
from leadline.evaluators.judge.judge_evaluator import Judge, JudgeEvaluator, prompt_beside
from leadline.evaluators.judge.ragas_base import (
    SOURCE,
    Measured,
    as_evidence,
    best_of,
    context_of,
    expected_answers,
    is_yes,
    verdicts_on,
)

MOST_SENTENCES: Final = 500
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
        metrics=(
            Metric.higher(
                "context_recall",
                "Share of the expected answer's sentences that can be attributed to the retrieved context.",
            ),
        ),
        judge="llm",
        llm=False,
        sentences=True,
        keywords=("judge", "retrieval", "RAGAS"),
        source=SOURCE,
    )
    prompts = {"context_recall": prompt_beside(__file__, "context_recall.jinja")}  # noqa: RUF012

    async def judge_row(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Judge one row."""
        expected = expected_answers(row)
        if not expected:
            return RowScore.unscored(self.row_metrics, Reason.UNSCORABLE, "The expected answer is blank.")
        longest = max(len(ctx.sentences(text)) for text in expected.values())
        if longest > MOST_SENTENCES:
            message = f"The expected answer has {longest} sentences; {MOST_SENTENCES} can be judged."
            return RowScore.unscored(self.row_metrics, Reason.UNSCORABLE, message)
        context = context_of(row)
        if not context.strip():
            return Measured(0.0, "The retrieved context is blank.").as_score("context_recall")

        async def measure(number: int, answer: str) -> Measured:
            sentences = ctx.sentences(answer)
            texts = [sentence.text for sentence in sentences]
            verdicts = await verdicts_on(judge, "context_recall", texts, context=context, answer=answer)
            attributable = sum(map(is_yes, verdicts))
            return Measured(
                attributable / len(sentences),
                f"{attributable} of the expected answer's {len(sentences)} sentences can be attributed to the context.",
                {"sentences": as_evidence(texts, verdicts)},
                tuple(
                    Span(Source.EXPECTED_ANSWER, sentence.start, sentence.end, number, float(is_yes(verdict)))
                    for sentence, verdict in list(zip(sentences, verdicts, strict=True))[:SPANS]
                ),
            )

        return (await best_of(expected, measure)).as_score("context_recall")
