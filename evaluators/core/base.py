"""The evaluator: frozen configuration in, row scores out, nothing kept on the instance.

A rule-based evaluator is a :class:`RowEvaluator` with a spec and ``score_row``::

    @leadline.register
    class Shouting(leadline.RowEvaluator):
        '''Share of capitals among the letters of the answer.'''

        spec = leadline.Spec.simple("shouting", inputs=["actual_answer"], higher_is_better=False)

        def score_row(self, row, ctx):
            letters = [c for c in row.actual_answer if c.isalpha()]
            return leadline.RowScore({"shouting": sum(map(str.isupper, letters)) / max(1, len(letters))})
"""

from __future__ import annotations

import inspect
import logging
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias

from leadline.evaluators.core.metric import Board, Metric, title
from leadline.evaluators.core.params import Effect, Params, effect_of
from leadline.evaluators.data import DataKind, Json, Reason, Row, RowField, RowScore
from leadline.evaluators.ground import ErrorCode, LeadlineError, UsageError, package_version, without_secrets

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from leadline.evaluators.core.context import EvalContext
    from leadline.evaluators.data import Details
    from leadline.evaluators.ground import ModelRef

log = logging.getLogger("leadline.evaluators")

RESAMPLES: Final = 1000
"""Resamples of a bootstrap, unless an evaluator chooses fewer."""

CUSTOM: Final = "custom"
"""Family and origin of evaluators that belong to none of the known ones."""

Lane: TypeAlias = Literal["cpu", "gpu", "judge"]


@dataclass(frozen=True, slots=True)
class Spec:
    """The public facts about an evaluator, known before it runs.

    Attributes:
        id: Identifier, as users type it.
        name: Name for people; made from the id by default.
        family: Topic that it is listed under: generation, retrieval, privacy, fairness, summarization, ...; that of
            its folder if it is built-in.
        inputs: Fields that it is about, in the reference's order; all but ``optional`` must be present.
        metrics: What it measures by default; a single metric is the primary one.
        origin: The system whose method it is (``h2o``, ``valor``, ``rgb``, ``databricks``, ``llamaindex``,
            ``leadline``), or ``custom``; a built-in evaluator that says none is Leadline's.
        version: Raised whenever the same input could get another value; part of every score's key.
        optional: Inputs that it uses when present and can do without.
        also_reads: Fields beside the inputs that can change a value.
        judge: ``"llm"`` or ``"agent"`` when it asks a judge.
        gpu: Whether the reference marks it as able to use a GPU.
        lane: Where it runs: ``cpu`` (rules, n-grams), ``gpu`` (models), ``judge``; if it is built-in,
            ``judge`` and ``gpu`` decide.
        llm: Whether it evaluates plain language models.
        rag: Whether it evaluates RAG systems.
        leaderboard: ``heatmap`` for numbers, ``bool`` for pass/fail.
        sentences: Whether values depend on how text is split into sentences.
        insight_type: The topic of its best/worst insights.
        problem_type: The type of its threshold problems.
        keywords: Labels to find it by.
        source: Where its method is published.
        suits: Kinds of dataset that it is for, of those that have its inputs; all when empty. Matters only where a run
            chooses its evaluators by the data.
        metadata: Keys of a row's metadata that it works by. A run that chooses its evaluators by the data takes it only
            where one of them occurs; everywhere when empty.
        packages: Optional packages that it needs, as they are imported; those of Leadline's own come with the extra
            ``checks``. Their versions are part of every score's key.
        annotations: Which annotations of data items it is about: ``whole`` (labels of the item itself), ``box``,
            ``polygon``, ``raster``, ``region`` (no single objects at all); all when empty. Matters only to evaluators
            that read annotations.
        input_names: What its inputs are called in its public description, where that is not their fields' names.
    """

    id: str
    name: str = ""
    family: str = CUSTOM
    inputs: tuple[RowField, ...] = ()
    metrics: tuple[Metric, ...] = ()
    origin: str = CUSTOM
    version: str = "1"
    optional: frozenset[RowField] = frozenset()
    also_reads: tuple[RowField, ...] = ()
    judge: Literal["llm", "agent"] | None = None
    gpu: bool = False
    lane: Lane = "cpu"
    llm: bool = True
    rag: bool = True
    leaderboard: Board = "heatmap"
    sentences: bool = False
    insight_type: str = "accuracy"
    problem_type: str = "accuracy"
    keywords: tuple[str, ...] = ()
    source: str = ""
    suits: tuple[DataKind, ...] = ()
    metadata: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()
    input_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", title(self.id))
        object.__setattr__(self, "suits", tuple(map(DataKind, self.suits)))
        if len(self.metrics) == 1 and not self.metrics[0].primary:
            object.__setattr__(self, "metrics", (replace(self.metrics[0], primary=True),))

    @classmethod
    def simple(
        cls,
        id: str,  # noqa: A002 - as the field is called
        *,
        inputs: Iterable[str],
        higher_is_better: bool,
        low: float = 0.0,
        high: float = 1.0,
        threshold: float | None = None,
        share: bool = False,
        judge: Literal["llm"] | None = None,
        **more: Any,
    ) -> Spec:
        """Return the spec of an evaluator with one metric, whose key is the id's last part.

        Args:
            id: Identifier, as users type it.
            inputs: Names of the fields that it is about; see :class:`~leadline.evaluators.data.row.RowField`.
            higher_is_better: Direction of the metric.
            low: Least value.
            high: Greatest value.
            threshold: Value that separates good from bad.
            share: Whether a row's value is 0 or 1, so that the mean is a share.
            judge: ``"llm"`` when it asks a judge.
            **more: Other fields of :class:`Spec`.

        Raises:
            UsageError: There is no such input.
        """
        known = [field.value for field in RowField]
        named = tuple(inputs)
        unknown = [name for name in named if name not in known]
        if unknown:
            raise UsageError(
                f"{id}: inputs: there is no field {unknown[0]!r}.",
                hint=f"Fields: {', '.join(known)}.",
                code=ErrorCode.CONFIG_CONTENT,
            )
        key = id.rpartition(".")[2]
        metric = Metric(
            key, title(key), higher_is_better, range=(low, high), threshold=threshold, primary=True, share=share
        )
        return cls(
            id,
            inputs=tuple(map(RowField, named)),
            metrics=(metric,),
            **{"judge": judge, "lane": "judge" if judge else "cpu"} | more,
        )

    @property
    def required(self) -> tuple[RowField, ...]:
        """Inputs without which a row is not applicable."""
        return tuple(field for field in self.inputs if field not in self.optional)

    @property
    def reads(self) -> tuple[RowField, ...]:
        """Every field that can change a value, in a fixed order."""
        return tuple(field for field in RowField if field in self.inputs or field in self.also_reads)


class Evaluator(ABC):
    """Scores rows. Instances are immutable: configuration in, results out.

    Class attributes:
        spec: What it is. A single metric without a description is described by the class's docstring.
        parameters: The type of its parameters.
        unnamed: Parameters that hold in a run that nobody asked for it by name.
        source_digest: Digest of the user's file that it was loaded from, ``""`` when it belongs to a package.
        strength_metric: Key of a dataset-level metric that no model has by itself: its strength against all others.
            The payloads of such an evaluator are outcomes of pairs, see :mod:`leadline.evaluators.data.pair_outcomes`;
            it needs no ``aggregate``.
        interval_method: Where :meth:`intervals` has its formulas from: ``ranks`` of the rows, or a ``posterior``.
    """

    spec: ClassVar[Spec]
    parameters: ClassVar[type[Params]] = Params
    unnamed: ClassVar[Mapping[str, Any]] = {}
    source_digest: ClassVar[str] = ""
    strength_metric: ClassVar[str] = ""
    interval_method: ClassVar[Literal["ranks", "posterior"]] = "ranks"

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        spec = cls.__dict__.get("spec")
        if spec is not None and cls.__doc__ and len(spec.metrics) == 1 and not spec.metrics[0].description:
            description = inspect.cleandoc(cls.__doc__).partition("\n\n")[0]
            cls.spec = replace(spec, metrics=(replace(spec.metrics[0], description=description),))

    def __init__(self, params: Params | None = None) -> None:
        self.params: Params = self.parameters() if params is None else params

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics that this instance computes; an evaluator whose parameters choose metrics overrides it."""
        return self.spec.metrics

    @property
    def required(self) -> tuple[RowField, ...]:
        """Inputs without which a row is not applicable; an evaluator whose parameters choose them overrides it."""
        return self.spec.required

    @property
    def lane(self) -> Lane:
        """The lane that this instance runs in; an evaluator whose parameters give it a model overrides it."""
        return self.spec.lane

    @property
    def reads(self) -> tuple[RowField, ...]:
        """Fields that can change a value; an evaluator whose parameters choose them overrides it."""
        return self.spec.reads

    @property
    def row_metrics(self) -> tuple[str, ...]:
        """Keys of the metrics that have a value per row."""
        return tuple(metric.key for metric in self.metrics if not metric.dataset_level)

    @property
    def max_rows(self) -> int | None:
        """The most rows of a dataset to score, ``None`` for all; further ones are not applicable."""
        return None

    def models(self, ctx: EvalContext) -> tuple[ModelRef, ...]:
        """Return the weights that it needs under these settings."""
        return ()

    def texts_to_embed(self, rows: Sequence[Row], ctx: EvalContext) -> Mapping[ModelRef, Iterable[str]]:
        """Return the texts that ``score`` will ask to be embedded, so that all evaluators share one pass.

        Args:
            rows: The rows to be scored.
            ctx: The run's settings.
        """
        return {}

    def identity(self, ctx: EvalContext) -> dict[str, Json]:
        """Return all that a score's key covers, apart from the row and the trial."""
        out: dict[str, Json] = {
            "evaluator": self.spec.id,
            "version": self.spec.version,
            "params": self.params.identity(),
        }
        if self.source_digest:
            out["source"] = self.source_digest
        if self.spec.packages:
            out["packages"] = [package_version(name) for name in self.spec.packages]
        if self.spec.sentences:
            out["sentences"] = ctx.splitter.identity
        models = self.models(ctx)
        if models:
            out["models"] = [ctx.model_identity(ref) for ref in models]
        return out

    @abstractmethod
    def score(self, rows: Sequence[Row], ctx: EvalContext) -> list[RowScore]:
        """Score rows that have all required inputs; one result per row, in order.

        A row that cannot be measured is returned as unscored with a reason. An exception here leaves
        every row of the batch unscored, so implementations guard what a single row can break.

        Args:
            rows: Rows that have all required inputs.
            ctx: What the process has loaded, and the run's settings.
        """

    def prepare(self, payloads: Sequence[Json]) -> Any:
        """Return what :meth:`aggregate` and :meth:`details` work on, made once per model from its payloads.

        Args:
            payloads: The distinct payloads of the model's scored rows, ``n`` of them.

        Returns:
            By default the payloads themselves; arrays where that is faster.
        """
        return payloads

    def resamples(self, prepared: Any) -> int:
        """Return how many resamples the intervals of the dataset-level metrics are worth: 1,000, fewer if costly."""
        return RESAMPLES

    def intervals(
        self, prepared: Any, weights: npt.NDArray[np.float64], size: float
    ) -> Mapping[str, tuple[float, float] | None]:
        """Return the 95 % intervals that have a formula, by dataset-level metric; the others are found by resampling.

        Args:
            prepared: What :meth:`prepare` made of the model's ``n`` distinct payloads.
            weights: Array of shape ``(n,)``: how often each payload occurs.
            size: How many independent rows they are worth, at most their number.

        Returns:
            For each such metric the two ends, one of which may be infinite where the metric's range allows it; ``None``
            where there is no interval.
        """
        return {}

    def details(self, prepared: Any, weights: npt.NDArray[np.float64], cases: Sequence[str]) -> Details | None:
        """Return what there is to say of one model beyond its metrics: curves, confusion matrices, examples.

        It is asked once per model and run, of evaluators with a dataset-level or pooled metric.

        Args:
            prepared: What :meth:`prepare` made of the model's ``n`` distinct payloads.
            weights: Array of shape ``(n,)``: how often each payload occurs.
            cases: For each payload the key of a case that has it.

        Returns:
            By default nothing. See :mod:`leadline.evaluators.data.details` for what there can be.
        """
        return None

    def aggregate(self, payloads: Any, weights: npt.NDArray[np.float64]) -> dict[str, npt.NDArray[np.float64]]:
        """Compute the dataset-level metrics of one model, for many weightings at once.

        Args:
            payloads: What :meth:`prepare` made of the distinct payloads of the model's scored rows, ``n`` of them.
            weights: Array of shape ``(b, n)``: how often each payload counts. Row 0 has the true counts, the
                others are resamples for the confidence interval.

        Returns:
            For each dataset-level or pooled metric an array of shape ``(b,)``; NaN where it is not defined.
        """
        raise LeadlineError(
            f"{self.spec.id} declares a dataset-level metric but does not aggregate it.", code=ErrorCode.RUN_EVALUATOR
        )


class RowEvaluator(Evaluator):
    """An evaluator that looks at one row at a time."""

    def score(self, rows: Sequence[Row], ctx: EvalContext) -> list[RowScore]:
        """Score each row alone; one row's failure leaves that row unscored and no other."""
        return [self._guarded(row, ctx) for row in rows]

    @abstractmethod
    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Score one row that has all required inputs.

        Args:
            ctx: What the process has loaded, and the run's settings.
        """

    def _guarded(
        self, row: Row, ctx: EvalContext, score: Callable[[Row, EvalContext], RowScore] | None = None
    ) -> RowScore:
        try:
            return (score or self.score_row)(row, ctx)
        except TimeoutError as error:
            return RowScore.unscored(self.row_metrics, Reason.TIMEOUT, str(error))
        except Exception as error:
            _log_failure(f"{self.spec.id} failed on case {row.case!r} of model {row.model!r}", error)
            return RowScore.unscored(self.row_metrics, Reason.EVALUATOR_ERROR, f"{type(error).__name__}: {error}")


def _log_failure(what: str, error: Exception) -> None:
    """Log one line for a row, with the place; the traceback only for those who look for faults: there may be many."""
    innermost = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{PurePath(innermost.filename).name}, line {innermost.lineno}"
    told = without_secrets(f"{type(error).__name__}: {error}")
    log.error("%s (%s): %s", what, place, told, exc_info=log.isEnabledFor(logging.DEBUG))


def describe(evaluator: type[Evaluator]) -> dict[str, Json]:
    """Return the public description of an evaluator, as ``leadline evaluators list --json`` prints it."""
    spec = evaluator.spec
    schema = evaluator.parameters.model_json_schema()["properties"]
    return {
        "id": spec.id,
        "name": spec.name,
        "family": spec.family,
        "origin": spec.origin,
        "inputs": list(spec.input_names or (field.value for field in spec.inputs)),
        "llm": spec.llm,
        "rag": spec.rag,
        "judge": spec.judge,
        "gpu": spec.gpu,
        "metrics": [metric.to_json() for metric in spec.metrics],
        "leaderboard": spec.leaderboard,
        "parameters": sorted(evaluator.parameters.model_fields),
        "parameter_details": [
            {
                "name": name,
                "description": str(schema.get(name, {}).get("description", "")),
                "default": schema.get(name, {}).get("default"),
                "affects_value": _effect(evaluator, name).in_key,
                "effect": _effect(evaluator, name).value,
            }
            for name in sorted(evaluator.parameters.model_fields)
        ],
        "lane": spec.lane,
        "version": spec.version,
        "required": [field.value for field in spec.required],
        "reads": [field.value for field in spec.reads],
        "source": spec.source,
        "description": (evaluator.__doc__ or "").strip(),
    }


def _effect(evaluator: type[Evaluator], name: str) -> Effect:
    """Return what a parameter changes in an evaluator; some take the key of a judge and ask none."""
    effect = effect_of(evaluator.parameters, name)
    return Effect.NOTHING if effect is Effect.JUDGE and not hasattr(evaluator, "judge_key") else effect
