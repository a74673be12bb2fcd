"""The evaluator: frozen configuration in, row scores out, nothing kept on the instance; and the context it works in.

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
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import PurePath
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from leadline.evaluators.core.spec import Effect, Lane, Metric, Params, Spec, effect_of
from leadline.evaluators.data import Json, Reason, Row, RowField, RowScore
from leadline.evaluators.ground import ErrorCode, LeadlineError, ModelRef, UsageError, package_version, without_secrets
from leadline.evaluators.judge_client.calls import JudgeUnavailable
from leadline.evaluators.settings import Settings
from leadline.evaluators.text.sentences import Sentence, Splitter, splitter_for
from leadline.evaluators.text.time_budget import RegexTimeBudget

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from leadline.evaluators.data import Details
    from leadline.evaluators.judge_client.budget import Budget
    from leadline.evaluators.judge_client.calls import Ledger
    from leadline.evaluators.judge_client.client import JudgeClient
    from leadline.evaluators.models.vectors import Passes, VectorStore
    from leadline.evaluators.settings import JudgeConfig

log = logging.getLogger("leadline.evaluators")

RESAMPLES: Final = 1000
"""Resamples of a bootstrap, unless an evaluator chooses fewer."""


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

    @property
    def _weight_parameters(self) -> tuple[str, ...]:
        """Parameters that name weights; keys cover what these are, not how they are named: a path differs elsewhere."""
        return ()

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
            "params": {n: value for n, value in self.params.identity().items() if n not in self._weight_parameters},
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


def asked_judge(evaluator: Evaluator, ctx: EvalContext) -> JudgeConfig | None:
    """Return the judge that an evaluator asks under these settings; ``None`` if it asks none or none is configured."""
    judge_key = getattr(evaluator, "judge_key", None)  # only evaluators that ask one have it
    return ctx.judge_config(judge_key()) if judge_key else None


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


@dataclass
class EvalContext:
    """The tools of one worker process and one run's settings.

    It keeps caches and loaded models, so that evaluators can stay without state.

    Attributes:
        settings: The run's choices.
        vectors: Where embeddings outlive the process, or ``None`` to keep them in memory only.
        regex_budget: How long users' regular expressions may still take.
        ledger: Where judge calls are put on record; in memory only without one.
        budget: What may be spent on judges; no limit without one.
        trial: Which repetition is being scored; 0 but for evaluators that ask a judge.
        cache_salt: Makes a judge answer again although it answered the question before; ``""`` but for canaries
            and probes.
        judge: The judge that is asked whichever an evaluator names: the member of a jury whose turn it is.
    """

    settings: Settings = field(default_factory=Settings)
    vectors: VectorStore | None = None
    regex_budget: RegexTimeBudget = field(default_factory=RegexTimeBudget)
    ledger: Ledger | None = None
    budget: Budget | None = None
    trial: int = 0
    cache_salt: str = ""
    judge: JudgeConfig | None = None

    _sentences: dict[str, tuple[Sentence, ...]] = field(default_factory=dict, repr=False)
    _clients: dict[str, JudgeClient] = field(default_factory=dict, repr=False)
    _passes: dict[ModelRef, Passes] = field(default_factory=dict, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)

    @cached_property
    def splitter(self) -> Splitter:
        """The sentence splitter of this run."""
        return splitter_for(self.settings.language, self.settings.splitter)

    def sentences(self, text: str) -> tuple[Sentence, ...]:
        """Split a text into sentences, each with its place in the text; remembered until ``forget``."""
        found = self._sentences.get(text)
        if found is None:
            found = self._sentences[text] = self.splitter.split(text)
        return found

    def forget(self) -> None:
        """Drop what was remembered of the rows scored so far; loaded models stay."""
        self._sentences.clear()

    def in_trial(self, trial: int) -> EvalContext:
        """Return this context for another repetition; everything else is shared."""
        return self if trial == self.trial else replace(self, trial=trial)

    def with_cache_salt(self, cache_salt: str) -> EvalContext:
        """Return this context for questions that a judge is asked anew; everything else is shared."""
        return replace(self, cache_salt=cache_salt)

    def asking(self, judge: JudgeConfig) -> EvalContext:
        """Return this context with one judge for whatever is asked; everything else is shared."""
        return replace(self, judge=judge)

    def embed(self, ref: ModelRef, texts: Sequence[str], *, steady: bool = False) -> npt.NDArray[np.float32]:
        """Return unit-length embeddings, one row per text in order; each distinct text is encoded once.

        Args:
            ref: The embedder.
            steady: Whether a vector must not depend, in its last digits, on the texts that it is computed with.

        Raises:
            ModelUnavailable: The weights are not here and may not be fetched.
        """
        from leadline.evaluators.models.embedders import embed

        return embed(ref, texts, settings=self.settings, vectors=self.vectors, steady=steady)

    async def embed_soon(self, ref: ModelRef, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Do what :meth:`embed` does, for coroutines; those that ask while the model is busy share its next pass.

        Chance decides which those are, so the vectors are steady.

        Args:
            ref: The embedder.
        """
        from leadline.evaluators.models.vectors import Passes

        if ref not in self._passes:
            self._passes[ref] = Passes(lambda distinct: self.embed(ref, distinct, steady=True))
        return await self._passes[ref].of(texts)

    def judge_config(self, key: str = "") -> JudgeConfig | None:
        """Return a judge by key, the default one for ``""``; ``None`` when there is no default.

        Raises:
            UsageError: There is no judge of that key.
        """
        if self.judge is not None:
            return self.judge
        if not key:
            return self.settings.judges[0] if self.settings.judges else None
        for config in self.settings.judges:
            if config.key == key:
                return config
        known = ", ".join(config.key for config in self.settings.judges) or "none"
        raise UsageError(f"There is no judge called {key!r}.", hint=f"Judges: {known}.", code=ErrorCode.JUDGE_CONFIG)

    def judge_client(self, key: str = "") -> JudgeClient:
        """Return the client of a judge; one per judge and process, to be used in the judges' event loop.

        Raises:
            JudgeUnavailable: No judge is configured.
            JudgeRefused: What is needed to ask it is not installed.
        """
        from leadline.evaluators.judge_client.client import client_for

        config = self.judge_config(key)
        if config is None:
            raise JudgeUnavailable("No judge is configured.", hint="Name one: --judge MODEL, or set LEADLINE_JUDGE.")
        with self._lock:  # evaluators ask from threads of their own, and must share one client
            if config.key not in self._clients:
                self._clients[config.key] = client_for(
                    config, settings=self.settings, ledger=self.ledger, budget=self.budget
                )
            return self._clients[config.key]

    def model_identity(self, ref: ModelRef) -> Json:
        """Return what of a model's weights and number format belongs into a score's key."""
        from leadline.evaluators.models.weights import identity

        return identity(ref, self.settings)
