"""Faithfulness: does the answer claim only what the retrieved context says?"""

from __future__ import annotations

from leadline.evaluators.core import EvalContext, Metric, Spec, register
from leadline.evaluators.data import Row, RowField, RowScore, Source
from leadline.evaluators.judge.judge_evaluator import Judge, JudgeEvaluator, prompt_beside
from leadline.evaluators.judge.ragas_base import (
    SOURCE,
    Measured,
    as_evidence,
    context_of,
    is_yes,
    verbatim_spans,
    verdicts_on,
)
from leadline.evaluators.judge.statements import STATEMENTS, statements_of


@register
class Faithfulness(JudgeEvaluator):
    """Share of the claims in the answer that can be inferred from the retrieved context.

    **Method.** The judge takes the answer apart into statements, and says of each whether it can be directly inferred
    from the chunks, joined by line feeds: ``faithfulness = inferable statements / statements``. What contradicts the
    context and what it does not mention count alike. All verdicts are one reply, 20 at most.

    **Edge cases.**

    * An answer that claims nothing (blank, a greeting, a refusal) is neither faithful nor not: not applicable. RAGAS
      has NaN there, Valor 1.
    * From a blank context nothing can be inferred: 0, and the judge is only asked for the statements.
    * A reply with more or fewer verdicts than statements is unreadable, and asked for again.

    **Source.** H2O Sonar evaluator reference, "Faithfulness Evaluator"; RAGAS, https://arxiv.org/abs/2309.15217.
    """

    spec = Spec(
        id="faithfulness",
        name="Faithfulness Evaluator",
        origin="h2o",
        inputs=(RowField.RETRIEVED_CONTEXT, RowField.ACTUAL_ANSWER),
        metrics=(Metric.higher("faithfulness"),),
        judge="llm",
        llm=False,
        keywords=("judge", "hallucination", "statements", "RAGAS"),
        source=SOURCE,
    )
    prompts = {"statements": STATEMENTS, "faithfulness": prompt_beside(__file__, "faithfulness.jinja")}  # noqa: RUF012

    def calls_per_row(self) -> float:
        """The statements and their verdicts."""
        return 2.0

    async def judge_row(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Judge one row."""
        answer = row.actual_answer or ""
        statements = await statements_of(judge, answer)
        if not statements:
            return RowScore.not_applicable(self.row_metrics, "The answer claims nothing.")
        context = context_of(row)
        if not context.strip():
            return Measured(0.0, "The retrieved context is blank.").as_score("faithfulness")
        verdicts = await verdicts_on(judge, "faithfulness", statements, context=context)
        inferable = sum(map(is_yes, verdicts))
        return Measured(
            inferable / len(statements),
            f"{inferable} of the answer's {len(statements)} statements can be inferred from the retrieved context.",
            {"statements": as_evidence(statements, verdicts)},
            verbatim_spans(Source.ACTUAL_ANSWER, answer, statements, verdicts),
        ).as_score("faithfulness")
