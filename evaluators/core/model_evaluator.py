"""The base of evaluators that run one local model: the weights, one pass over all rows, guarded rows."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from leadline.evaluators.core.base import Evaluator
from leadline.evaluators.data import Json, Reason, Row, RowScore
from leadline.evaluators.ground import ModelRef, ModelUnavailable, OutOfMemory
from leadline.evaluators.models import weights
from leadline.evaluators.models.catalogue import SHORT_NAMES

if TYPE_CHECKING:
    from leadline.evaluators.core.context import EvalContext

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

    def identity(self, ctx: EvalContext) -> dict[str, Json]:
        """Return all that a score's key covers; weights count by what they are, not by how they were named."""
        out = super().identity(ctx)
        out["params"] = {name: value for name, value in self.params.identity().items() if name != self.model_parameter}
        return out

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
