"""Summary coherence as Valor's judge rates it."""

from __future__ import annotations

from leadline.evaluators.core.base import Spec
from leadline.evaluators.core.context import EvalContext
from leadline.evaluators.core.metric import Metric
from leadline.evaluators.core.registry import register
from leadline.evaluators.data.data_kinds import DataKind
from leadline.evaluators.data.row import Row, RowField, RowScore
from leadline.evaluators.judge.judge_evaluator import Judge, JudgeEvaluator, prompt_beside
from leadline.evaluators.judge.statements import SOURCE
from leadline.evaluators.judge_client.failures import JudgeUnparseable
from leadline.evaluators.judge_client.replies import read_number


def rating(text: str) -> float:
    """Return the integer from 1 to 5 that a reply consists of.

    Raises:
        JudgeUnparseable: The reply is anything else.
    """
    value = read_number(text, 1, 5)
    if not value.is_integer():
        raise JudgeUnparseable(f"The rating {value:g} is not an integer.")
    return value


@register
class ValorSummaryCoherence(JudgeEvaluator):
    """Rates from 1 to 5 how well a summary hits the key points of a text and hangs together.

    **Method.** The judge reads the question, which is the text that was summarized, and the answer, which is the
    summary, and replies with an integer; there is no formula. The instruction follows G-Eval's for coherence.

    **Edge cases.**

    * The reply must be the number alone: "The score is 5." is unreadable, and asked for again, as is 0 or 4.5.

    **Source.** Striveworks Valor, metrics reference, "Summary Coherence (LLM-Guided)"; Liu et al. 2023, G-Eval,
    https://arxiv.org/abs/2303.16634, appendix A.
    """

    spec = Spec(
        id="valor.summary_coherence",
        name="Summary Coherence (Valor)",
        family="summarization",
        origin="valor",
        inputs=(RowField.QUESTION, RowField.ACTUAL_ANSWER),
        metrics=(
            Metric(
                "summary_coherence",
                "Summary coherence",
                True,
                range=(1, 5),
                threshold=None,
                primary=True,
                description="How well the summary hits the text's key points and hangs together, from 1 to 5.",
            ),
        ),
        judge="llm",
        lane="judge",
        insight_type="summarization",
        problem_type="summarization",
        keywords=("judge", "summary", "coherence"),
        suits=(DataKind.DOCUMENTS,),
        source=SOURCE,
    )
    prompts = {"rating": prompt_beside(__file__, "valor_coherence.jinja")}  # noqa: RUF012

    async def judge_row(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Judge one row."""
        value = await judge.read("rating", rating, text=row.question, summary=row.actual_answer)
        return RowScore({"summary_coherence": value})
