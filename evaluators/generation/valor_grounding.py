"""Faithfulness and hallucination as Valor's judges measure them."""

from __future__ import annotations

from leadline.evaluators.core.base import Spec
from leadline.evaluators.core.context import EvalContext
from leadline.evaluators.core.metric import Metric
from leadline.evaluators.core.registry import register
from leadline.evaluators.data.row import Evidence, Row, RowField, RowScore
from leadline.evaluators.judge.judge_evaluator import Judge, JudgeEvaluator, prompt_beside
from leadline.evaluators.judge.statements import SOURCE, filled, share
from leadline.evaluators.judge.verdicts import JudgeReply, Verdicts, as_json, chunk_spans, count_of, one_each


class Claims(JudgeReply):
    """The claims of a text."""

    claims: tuple[str, ...]


@register
class ValorFaithfulness(JudgeEvaluator):
    """Share of the answer's claims that the retrieved contexts imply.

    **Method.** The judge lists the claims of the answer, and says of each whether it is implied by the contexts. A
    claim that contradicts them is not, nor is one that they say nothing about (as in RAGAS, unlike in DeepEval).

    **Edge cases.**

    * An answer without claims says nothing unfaithful: 1.
    * A reply with more or fewer verdicts than claims is unreadable, and asked for again.

    **Source.** Striveworks Valor, metrics reference, "Faithfulness (LLM-Guided)".
    """

    spec = Spec(
        id="valor.faithfulness",
        name="Faithfulness (Valor)",
        family="generation",
        origin="valor",
        inputs=(RowField.RETRIEVED_CONTEXT, RowField.ACTUAL_ANSWER),
        metrics=(
            Metric(
                "faithfulness",
                "Faithfulness",
                True,
                threshold=None,
                primary=True,
                description="Share of the answer's claims that the retrieved contexts imply.",
            ),
        ),
        judge="llm",
        lane="judge",
        llm=False,
        keywords=("judge", "claims", "grounding"),
        source=SOURCE,
    )
    prompts = {  # noqa: RUF012
        "claims": prompt_beside(__file__, "valor_claims.jinja"),
        "verdicts": prompt_beside(__file__, "valor_faithfulness.jinja"),
    }

    def calls_per_row(self) -> float:
        """The claims and their verdicts."""
        return 2.0

    async def judge_row(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Judge one row."""
        answer = row.actual_answer or ""
        claims: tuple[str, ...] = ()
        if answer.strip():
            claims = filled((await judge.ask("claims", Claims, text=answer)).claims)
        contexts = [chunk.content for chunk in row.retrieved_context]
        reply = await one_each(judge, "verdicts", Verdicts, claims, contexts=contexts)
        implied = count_of(reply.verdicts)
        return RowScore(
            {"faithfulness": share(implied, len(claims), of_nothing=1.0)},
            Evidence(
                f"{implied} of the answer's {len(claims)} claims are implied by the retrieved contexts.",
                data={"claims": as_json(claims, reply.verdicts)},
            ),
        )


@register
class ValorHallucination(JudgeEvaluator):
    """Share of the retrieved contexts that the answer contradicts; lower is better.

    **Method.** The judge says of each context whether the answer directly contradicts it. What the contexts do not
    mention contradicts none of them: this counts contexts, where faithfulness counts claims.

    **Edge cases.**

    * A blank answer contradicts nothing: 0, and nothing is asked.
    * A reply with more or fewer verdicts than contexts is unreadable, and asked for again.

    **Source.** Striveworks Valor, metrics reference, "Hallucination (LLM-Guided)".
    """

    spec = Spec(
        id="valor.hallucination",
        name="Hallucination (Valor)",
        family="generation",
        origin="valor",
        inputs=(RowField.RETRIEVED_CONTEXT, RowField.ACTUAL_ANSWER),
        metrics=(
            Metric(
                "hallucination",
                "Hallucination",
                False,
                threshold=None,
                primary=True,
                description="Share of the retrieved contexts that the answer contradicts.",
            ),
        ),
        judge="llm",
        lane="judge",
        llm=False,
        keywords=("judge", "contradiction", "hallucination"),
        source=SOURCE,
    )
    prompts = {"verdicts": prompt_beside(__file__, "valor_hallucination.jinja")}  # noqa: RUF012

    async def judge_row(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Judge one row."""
        if not (row.actual_answer or "").strip():
            return RowScore({"hallucination": 0.0}, Evidence("The answer is blank."))
        contexts = [chunk.content for chunk in row.retrieved_context]
        reply = await one_each(judge, "verdicts", Verdicts, contexts, text=row.actual_answer)
        contradicted = count_of(reply.verdicts)
        verdicts = [verdict.verdict == "yes" for verdict in reply.verdicts]
        return RowScore(
            {"hallucination": contradicted / len(contexts)},
            Evidence(
                f"The answer contradicts {contradicted} of {len(contexts)} retrieved contexts.",
                chunk_spans(row.retrieved_context, verdicts, "contradicted", "not contradicted"),
                {"contexts": reply.model_dump()["verdicts"]},
            ),
        )
