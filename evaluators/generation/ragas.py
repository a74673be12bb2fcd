"""RAGAS: the harmonic mean of faithfulness, answer relevancy, context precision and context recall."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from leadline.evaluators.core import EvalContext, JudgeKey, Metric, Spec, register
from leadline.evaluators.data import Evidence, Json, NotApplicable, Row, RowField, RowScore, Unscored
from leadline.evaluators.generation.answer_relevancy import AnswerRelevancy, AnswerRelevancyParams
from leadline.evaluators.generation.faithfulness import Faithfulness
from leadline.evaluators.ground import ModelRef
from leadline.evaluators.judge.judge_evaluator import Judge, JudgeEvaluator
from leadline.evaluators.judge.ragas_base import SOURCE
from leadline.evaluators.judge_client.calls import JudgeError
from leadline.evaluators.retrieval.context_precision import ContextPrecision
from leadline.evaluators.retrieval.context_recall import ContextRecall

PARTS: tuple[type[JudgeEvaluator], ...] = (Faithfulness, AnswerRelevancy, ContextPrecision, ContextRecall)


def harmonic_mean(values: Sequence[float]) -> float:
    """Return the harmonic mean of values from 0 to 1, at least one; 0 if one of them is 0."""
    return len(values) / sum(1 / value for value in values) if all(values) else 0.0


@register
class Ragas(JudgeEvaluator):
    """Overall quality of a RAG system's answer: the harmonic mean of four metrics.

    **Method.** ``RAGAS = 4 / (1/F + 1/AR + 1/CP + 1/CR)`` of faithfulness (F), answer relevancy (AR), context precision
    (CP) and context recall (CR), each measured by its own evaluator. These evaluators make the same calls, and equal
    calls are made once: beside them RAGAS costs nothing more.

    **Edge cases.**

    * One of the four is 0: RAGAS is 0, the limit of the formula.
    * One of the four has no value, since the judge gave no verdict or it makes no sense for the row (an answer that
      claims nothing): neither has RAGAS, for the same reason, and the other metrics keep theirs.

    **Source.** H2O Sonar evaluator reference, "RAGAS Evaluator"; https://arxiv.org/abs/2309.15217.
    """

    spec = Spec(
        id="ragas",
        name="RAGAS Evaluator",
        origin="h2o",
        inputs=(RowField.QUESTION, RowField.EXPECTED_ANSWER, RowField.RETRIEVED_CONTEXT, RowField.ACTUAL_ANSWER),
        metrics=(
            Metric.higher(
                "ragas",
                "Harmonic mean of faithfulness, answer relevancy, context precision and context recall.",
                name="RAGAS",
                primary=True,
            ),
            *(Metric(m.key, m.name, True, description=m.description) for part in PARTS for m in part.spec.metrics),
        ),
        judge="llm",
        llm=False,
        sentences=True,
        keywords=("judge", "embeddings", "retrieval", "generation", "RAGAS"),
        source=SOURCE,
    )
    parameters = AnswerRelevancyParams
    params: AnswerRelevancyParams
    prompts = {name: path for part in PARTS for name, path in part.prompts.items()}  # noqa: RUF012

    def parts(self) -> tuple[JudgeEvaluator, ...]:
        """Return the four evaluators under these parameters."""
        judge = JudgeKey(custom_eval_judge_config_key=self.params.custom_eval_judge_config_key)
        return tuple(part(self.params if part is AnswerRelevancy else judge) for part in PARTS)

    def models(self, ctx: EvalContext) -> tuple[ModelRef, ...]:
        """Return the embedder of answer relevancy."""
        return tuple(ref for part in self.parts() for ref in part.models(ctx))

    def texts_to_embed(self, rows: Sequence[Row], ctx: EvalContext) -> Mapping[ModelRef, Iterable[str]]:
        """Return what answer relevancy compares."""
        return {ref: texts for part in self.parts() for ref, texts in part.texts_to_embed(rows, ctx).items()}

    def identity(self, ctx: EvalContext) -> dict[str, Json]:
        """Return what keys cover: this formula, and all that the four depend on."""
        parts = {part.spec.id: part.identity(ctx) for part in self.parts()}
        return super().identity(ctx) | {"params": parts[AnswerRelevancy.spec.id]["params"], "parts": parts}

    def calls_per_row(self) -> float:
        """Those of the four."""
        return sum(part.calls_per_row() for part in self.parts())

    async def judge_row(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Judge one row by the four at once."""
        parts = self.parts()
        judges = [Judge(judge.client, judge.evaluator, judge.prompts, judge.trial, judge.cache_salt) for _ in parts]
        scores = await asyncio.gather(*(_guarded(part, row, its, ctx) for part, its in zip(parts, judges, strict=True)))
        values = {key: value for score in scores for key, value in score.values.items()}
        data: dict[str, Json] = {
            part.spec.id: score.evidence.to_json() for part, score in zip(parts, scores, strict=True)
        }
        data["calls"] = [digest for its in judges for digest in its.calls]
        return RowScore(
            {"ragas": _mean(list(values.values())), **values},
            Evidence(spans=tuple(span for score in scores for span in score.evidence.spans), data=data),
        )


async def _guarded(part: JudgeEvaluator, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
    try:
        return await part.judge_row(row, judge, ctx)
    except JudgeError as error:
        return part.without_verdict(row, error)


def _mean(values: Sequence[float | Unscored | NotApplicable]) -> float | Unscored | NotApplicable:
    for kind in (Unscored, NotApplicable):
        for value in values:
            if isinstance(value, kind):
                return value
    return harmonic_mean([value for value in values if isinstance(value, float | int)])
