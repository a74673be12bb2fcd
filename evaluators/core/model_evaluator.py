"""The bases of evaluators that run a local model or compare embeddings, and the weights that evaluators need."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Generic, TypeVar

from pydantic import Field

from leadline.evaluators.core.base import EvalContext, Evaluator
from leadline.evaluators.core.spec import Params
from leadline.evaluators.data import Reason, Row, RowScore
from leadline.evaluators.ground import OFFLINE, LeadlineError, ModelRef, ModelUnavailable, OutOfMemory
from leadline.evaluators.models import weights
from leadline.evaluators.models.catalogue import SHORT_NAMES
from leadline.evaluators.models.weights import is_directory, is_here, pull_name

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


log = logging.getLogger("leadline.evaluators")

Request = TypeVar("Request")
Result = TypeVar("Result")


class ModelEvaluator(Evaluator, Generic[Request, Result]):
    """An evaluator whose rows are scored from what a model says of some of their texts.

    Class attributes:
        default_model: The weights of the method's source.
        model_parameter: Name of the parameter that chooses others: a Hugging Face id, optionally ``ID@REVISION``, a
            directory, or a short name from the catalogue.
    """

    default_model: ClassVar[ModelRef]
    model_parameter: ClassVar[str]

    def model(self, ctx: EvalContext) -> ModelRef:
        """Return the weights: those that the parameter names, else the default."""
        named = getattr(self.params, self.model_parameter)
        if not named:
            return self.default_model
        return weights.chosen(SHORT_NAMES.get(named, named), self.default_model.kind, ctx.settings)

    def models(self, ctx: EvalContext) -> tuple[ModelRef, ...]:
        """Return the weights."""
        return (self.model(ctx),)

    @property
    def _weight_parameters(self) -> tuple[str, ...]:
        """The parameter that names the weights."""
        return (self.model_parameter,)

    @abstractmethod
    def requests(self, row: Row, ctx: EvalContext) -> Sequence[Request]:
        """Return what the model is asked about a row; nothing when the row cannot be measured.

        Args:
            ctx: The run's settings.
        """

    @abstractmethod
    def answers(self, requests: Sequence[Request], ctx: EvalContext) -> Sequence[Result]:
        """Return what the model says to each request, in order.

        Args:
            requests: The requests of many rows, one row after the other.
            ctx: The run's settings.
        """

    @abstractmethod
    def measure(self, row: Row, results: Sequence[Result], ctx: EvalContext) -> RowScore:
        """Score a row from the model's results for its requests.

        Args:
            results: One result per request of :meth:`requests`, in order.
            ctx: The run's settings.
        """

    def score(self, rows: Sequence[Row], ctx: EvalContext) -> list[RowScore]:
        """Score rows; one that fails or does not fit into memory leaves that row unscored and no other.

        Raises:
            ModelUnavailable: The weights are not here, which leaves all rows unscored.
        """
        asked = [list(self.requests(row, ctx)) for row in rows]
        results, lack = None, ""
        try:
            results = self.answers([request for requests in asked for request in requests], ctx)
        except OutOfMemory as error:
            lack = str(error)
        if results is None:  # outside the handler, which keeps the tensors of the attempt that failed
            if len(rows) == 1:
                return [RowScore.unscored(self.row_metrics, Reason.OUT_OF_MEMORY, lack)]
            return [self.score([row], ctx)[0] for row in rows]
        out = []
        first = 0
        for row, requests in zip(rows, asked, strict=True):
            out.append(self._measured(row, results[first : first + len(requests)], ctx))
            first += len(requests)
        return out

    def _measured(self, row: Row, results: Sequence[Result], ctx: EvalContext) -> RowScore:
        try:
            return self.measure(row, results, ctx)
        except ModelUnavailable:
            raise  # a model of the wrong kind fails every row
        except Exception as error:
            log.exception("%s failed on case %r of model %r", self.spec.id, row.case, row.model)
            return RowScore.unscored(self.row_metrics, Reason.EVALUATOR_ERROR, f"{type(error).__name__}: {error}")

    def unscorable(self, message: str) -> RowScore:
        """Return a row that cannot be measured, however often it is tried."""
        return RowScore.unscored(self.row_metrics, Reason.UNSCORABLE, message)


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


class UsesEmbedder(Evaluator):
    """An evaluator that compares texts by their embeddings.

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

    @property
    def _weight_parameters(self) -> tuple[str, ...]:
        """The parameters that name an embedder or a cross-encoder."""
        return ("embedding_model", "cross_encoder")


class EmbeddingEvaluator(UsesEmbedder):
    """An evaluator whose rows are scored from the vectors of some of their texts."""

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


def required_weights(evaluators: Iterable[Evaluator], ctx: EvalContext) -> dict[ModelRef, tuple[str, ...]]:
    """Return the weights that evaluators need under a run's settings, each with the ids of the evaluators.

    Args:
        ctx: The run's settings and shared resources.
    """
    users: dict[ModelRef, list[str]] = {}
    for evaluator in evaluators:
        for ref in evaluator.models(ctx):
            users.setdefault(ref, []).append(evaluator.spec.id)
    return {ref: tuple(ids) for ref, ids in users.items()}


def pull_command(evaluator: Evaluator, ctx: EvalContext, more: Sequence[ModelRef] = ()) -> str:
    """Return the one command that fetches all weights that an evaluator lacks under a run's settings.

    Args:
        evaluator: Who needs the weights. Its id is the command's argument where it needs several and lacks only
            defaults, as of a tokenizer's repository no more is fetched then than the tokenizer.
        ctx: The run's settings and shared resources.
        more: Weights that are to be fetched in any case, for example since they are damaged.
    """
    refs = evaluator.models(ctx)
    on_hub = [ref for ref in refs if ref.source != OFFLINE and not is_directory(ref)]
    absent = dict.fromkeys([*more, *(ref for ref in on_hub if not is_here(ref))])
    if len(refs) > 1 and absent.keys() <= set(type(evaluator)().models(EvalContext())):
        return f"leadline evaluators models pull {evaluator.spec.id.partition('#')[0]}"
    return f"leadline evaluators models pull {' '.join(dict.fromkeys(map(pull_name, absent)))}"


def with_pull_command(error: LeadlineError, evaluator: Evaluator, ctx: EvalContext) -> LeadlineError:
    """Return an error whose hint fetches all that an evaluator lacks, not only what it missed first.

    Args:
        error: What an evaluator failed with; one that no fetch can mend is returned as it is.
        ctx: The run's settings and shared resources.
    """
    if not isinstance(error, ModelUnavailable) or not error.refs:
        return error
    hint = f"Fetch them with: {pull_command(evaluator, ctx, error.refs)}"
    return ModelUnavailable(error.message, hint=hint, refs=error.refs, code=error.code)
