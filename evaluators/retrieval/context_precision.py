"""Context precision: are the chunks that lead to the expected answer at the top?"""

from __future__ import annotations

from collections.abc import Sequence

from leadline.evaluators.core import EvalContext, Metric, Spec, register
from leadline.evaluators.core.embedding_evaluator import SPANS, quote
from leadline.evaluators.data import Reason, Row, RowField, RowScore
from leadline.evaluators.judge.judge_evaluator import Judge, JudgeEvaluator, prompt_beside
from leadline.evaluators.judge.ragas_base import SOURCE, Measured, best_of, expected_answers, is_yes, verdicts_on
from leadline.evaluators.judge.verdicts import chunk_spans


def average_precision(useful: Sequence[bool]) -> float:
    """Return the mean, over the useful places, of the share of useful ones up to there; 0 where none is useful."""
    found, total = 0, 0.0
    for depth, yes in enumerate(useful, start=1):
        if yes:
            found += 1
            total += found / depth
    return total / found if found else 0.0


@register
class ContextPrecision(JudgeEvaluator):
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
        metrics=(
            Metric.higher(
                "context_precision", "Whether the chunks that are useful for the expected answer rank above the others."
            ),
        ),
        judge="llm",
        llm=False,
        keywords=("judge", "retrieval", "ranking", "RAGAS"),
        source=SOURCE,
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
            verdicts = await verdicts_on(judge, "context_precision", texts, question=row.question, answer=answer)
            useful = [False] * len(chunks)
            reasons = [""] * len(chunks)
            for place, verdict in zip(places, verdicts, strict=True):
                useful[place], reasons[place] = is_yes(verdict), verdict.reason
            return Measured(
                average_precision(useful),
                f"{sum(useful)} of {len(chunks)} chunks are useful for the expected answer.",
                {"chunks": [{"useful": useful[at], "reason": quote(reasons[at])} for at in range(len(chunks))[:SPANS]]},
                chunk_spans(chunks[:SPANS], useful[:SPANS], "useful", "not useful"),
            )

        return (await best_of(expected, measure)).as_score("context_precision")
