"""The base of judge evaluators that also compare embeddings."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from leadline.evaluators.core import JudgeKey, Params
from leadline.evaluators.core.embedding_evaluator import EmbeddingParams
from leadline.evaluators.data import Json, Reason, Row, RowScore
from leadline.evaluators.ground import ModelUnavailable, OutOfMemory
from leadline.evaluators.judge.judge_evaluator import Judge, JudgeEvaluator
from leadline.evaluators.models import weights

if TYPE_CHECKING:
    from leadline.evaluators.core import EvalContext
    from leadline.evaluators.ground import ModelRef

EMBEDDER: Final = weights.BGE_SMALL_EN_V15
"""What they compare by where neither their parameter nor the run names an embedder."""


class EmbeddingJudgeParams(EmbeddingParams, JudgeKey):
    """The choice of a judge and of an embedder."""


class EmbeddingJudgeEvaluator(JudgeEvaluator):
    """An evaluator that asks a judge about each row and compares embeddings; without its embedder a row is unscored."""

    parameters: ClassVar[type[Params]] = EmbeddingJudgeParams

    def embedder(self, ctx: EvalContext) -> ModelRef:
        """Return the embedder: the evaluator's parameter, else the run's setting, else the default."""
        return weights.embedder(getattr(self.params, "embedding_model", None), EMBEDDER, ctx.settings)

    def models(self, ctx: EvalContext) -> tuple[ModelRef, ...]:
        """Return the embedder."""
        return (self.embedder(ctx),)

    def identity(self, ctx: EvalContext) -> dict[str, Json]:
        """Return what keys cover: the embedder by what it is, not by how it was named."""
        out = super().identity(ctx)
        out["params"] = {name: value for name, value in self.params.identity().items() if name != "embedding_model"}
        return out

    async def cosines(self, text: str, others: Sequence[str], ctx: EvalContext) -> list[float]:
        """Return the cosine of a text with each of several others; that of a blank text is 0.

        Args:
            text: The text to compare.
            others: The texts to compare it with, in the order of the result.
            ctx: Gives the embedder's vectors.
        """
        vectors = await ctx.embed_soon(self.embedder(ctx), [text, *others])
        return [float(cosine) for cosine in vectors[1:].astype("float64") @ vectors[0].astype("float64")]

    async def judge_row(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Judge one row; one that cannot be embedded is unscored."""
        try:
            return await self.judge_and_compare(row, judge, ctx)
        except ModelUnavailable as error:
            return RowScore.unscored(self.row_metrics, Reason.MODEL_UNAVAILABLE, str(error))
        except OutOfMemory as error:
            return RowScore.unscored(self.row_metrics, Reason.OUT_OF_MEMORY, str(error))

    @abstractmethod
    async def judge_and_compare(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Judge one row that has all required inputs.

        Embed what is known before the judge is asked, so that nothing is paid for where there is no embedder.

        Args:
            judge: The judge, which records its calls for this row.
            ctx: Gives the embedder's vectors.
        """
