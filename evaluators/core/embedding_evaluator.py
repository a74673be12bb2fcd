"""The base of evaluators that compare embeddings: the embedder, one encoding pass, rows guarded singly."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

from pydantic import Field

from leadline.evaluators.core.base import Evaluator
from leadline.evaluators.core.params import Params
from leadline.evaluators.data import Json, Reason, Row, RowScore
from leadline.evaluators.ground import ModelRef, OutOfMemory
from leadline.evaluators.models import weights

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from leadline.evaluators.core.context import EvalContext

log = logging.getLogger("leadline.evaluators")

BLOCK_TEXTS: Final = 20_000
"""Texts whose vectors are in memory at a time."""

SPANS: Final = 200
"""Sentences of a row that its evidence points at, at most: those with the lowest values."""

QUOTED: Final = 500
"""Characters of a sentence that evidence quotes, at most."""


class EmbeddingParams(Params):
    """Adds the choice of an embedder."""

    embedding_model: Annotated[
        str | None,
        Field(
            description="Embedding model of this evaluator: a Hugging Face id, optionally ID@REVISION, a directory, or "
            "'offline'. Without it the run's embedder is used, and without that this evaluator's own default."
        ),
    ] = None


class Vectors:
    """The vectors of a block of rows, by text."""

    def __init__(self, texts: Sequence[str], matrix: npt.NDArray[np.float32]) -> None:
        self._place = {text: row for row, text in enumerate(texts)}
        self._matrix = matrix

    def of(self, texts: Iterable[str]) -> npt.NDArray[np.float32]:
        """Return the vectors of texts, of shape ``(len(texts), d)``."""
        return self._matrix[[self._place[text] for text in texts]]


class EmbeddingEvaluator(Evaluator):
    """An evaluator whose rows are scored from the vectors of some of their texts.

    Class attributes:
        default_embedder: The embedder of the method's source.
    """

    default_embedder: ClassVar[ModelRef]
    parameters: ClassVar[type[Params]] = EmbeddingParams

    def embedder(self, ctx: EvalContext) -> ModelRef:
        """Return the embedder: the evaluator's parameter, else the run's setting, else the default."""
        return weights.embedder(getattr(self.params, "embedding_model", None), self.default_embedder, ctx.settings)

    def models(self, ctx: EvalContext) -> tuple[ModelRef, ...]:
        """Return the embedder."""
        return (self.embedder(ctx),)

    def identity(self, ctx: EvalContext) -> dict[str, Json]:
        """Return what keys cover: the model by what it is, not by how it was named (a path differs elsewhere)."""
        out = super().identity(ctx)
        names = ("embedding_model", "cross_encoder")
        out["params"] = {name: value for name, value in self.params.identity().items() if name not in names}
        return out

    def texts_to_embed(self, rows: Sequence[Row], ctx: EvalContext) -> Mapping[ModelRef, Iterable[str]]:
        """Return all texts of the rows that are compared."""
        return {self.embedder(ctx): dict.fromkeys(text for row in rows for text in self.texts(row, ctx))}

    @abstractmethod
    def texts(self, row: Row, ctx: EvalContext) -> Iterable[str]:
        """Return the texts of a row whose vectors :meth:`measure` asks for.

        Args:
            ctx: The run's settings.
        """

    @abstractmethod
    def measure(self, row: Row, vectors: Vectors, ctx: EvalContext) -> RowScore:
        """Score a row from the vectors of its texts.

        Args:
            vectors: Vectors of the texts of :meth:`texts`, and of other rows.
            ctx: The run's settings.
        """

    def score(self, rows: Sequence[Row], ctx: EvalContext) -> list[RowScore]:
        """Score rows; one that fails or does not fit into memory leaves that row unscored and no other.

        Raises:
            ModelUnavailable: The weights are not here, which leaves all rows unscored.
        """
        ref = self.embedder(ctx)
        out: list[RowScore] = []
        for block, texts in self._blocks(rows, ctx):
            out += self._score_block(block, texts, ref, ctx)
        return out

    def _blocks(self, rows: Sequence[Row], ctx: EvalContext) -> Iterator[tuple[list[Row], dict[str, None]]]:
        block: list[Row] = []
        texts: dict[str, None] = {}
        for row in rows:
            block.append(row)
            texts.update(dict.fromkeys(self.texts(row, ctx)))
            if len(texts) >= BLOCK_TEXTS:
                yield block, texts
                block, texts = [], {}
        if block:
            yield block, texts

    def _score_block(
        self, rows: Sequence[Row], texts: Mapping[str, None], ref: ModelRef, ctx: EvalContext
    ) -> list[RowScore]:
        distinct = list(texts)
        vectors, lack = None, ""
        try:
            vectors = Vectors(distinct, ctx.embed(ref, distinct))
        except OutOfMemory as error:
            lack = str(error)
        if vectors is None:  # outside the handler, which keeps the tensors of the attempt that failed
            if len(rows) == 1:
                return [RowScore.unscored(self.row_metrics, Reason.OUT_OF_MEMORY, lack)]
            return [self._score_block([row], dict.fromkeys(self.texts(row, ctx)), ref, ctx)[0] for row in rows]
        return [self._guarded(row, vectors, ctx) for row in rows]

    def _guarded(self, row: Row, vectors: Vectors, ctx: EvalContext) -> RowScore:
        try:
            return self.measure(row, vectors, ctx)
        except Exception as error:
            log.exception("%s failed on case %r of model %r", self.spec.id, row.case, row.model)
            return RowScore.unscored(self.row_metrics, Reason.EVALUATOR_ERROR, f"{type(error).__name__}: {error}")


def lowest(values: Sequence[float], limit: int = SPANS) -> list[int]:
    """Return the places of the lowest values, at most ``limit`` of them, in their own order.

    Args:
        values: Any numbers.
        limit: Most places to return.
    """
    if len(values) <= limit:
        return list(range(len(values)))
    return sorted(sorted(range(len(values)), key=lambda at: (values[at], at))[:limit])


def quote(text: str) -> str:
    """Return a text as evidence quotes it, shortened when it is very long."""
    return text if len(text) <= QUOTED else text[: QUOTED - 1] + "…"
