"""The public facts about an evaluator, before it runs: its metrics, its parameters, the data that it suits, its spec.

And the metrics and values of evaluators that pass or fail a row.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, Self, TypeAlias, TypedDict, Unpack

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from leadline.evaluators.data import Evidence, Flag, Json, Reason, RowField, RowScore, Severity, Unscored
from leadline.evaluators.ground import ErrorCode, UsageError, field_of, why

INF = math.inf
Board: TypeAlias = Literal["heatmap", "bool"]
CUSTOM: Final = "custom"
"""Family and origin of evaluators that belong to none of the known ones."""

Lane: TypeAlias = Literal["cpu", "gpu", "judge"]
Unit: TypeAlias = Literal["turn", "conversation"]
OverTurns: TypeAlias = Literal["mean", "min", "max", "sum", "last"]


class _Fields(TypedDict, total=False):
    range: tuple[float, float]
    threshold: float | None
    primary: bool
    share: bool
    dataset_level: bool
    pooled: bool
    over_turns: OverTurns


@dataclass(frozen=True, slots=True)
class Metric:
    """One number that an evaluator produces.

    Attributes:
        key: Identifier, unique within its evaluator.
        name: Name for people.
        higher_is_better: Direction; there is no default on purpose.
        range: Least and greatest value it can take.
        threshold: Value that separates good from bad, ``None`` when the metric has none.
        primary: Whether it decides the evaluator's leaderboard.
        description: One or two sentences for a reader.
        share: Whether a row's value is 0 or 1, so that the mean is a share (and gets the exact interval of one).
        dataset_level: Whether it has no value per row and is computed over all rows of a model at once.
        pooled: Whether it has a value per row, which says how that row fares, but the model's value is computed over
            all rows at once and is not their mean.
        over_turns: How the values of a conversation's turns make its own.
    """

    key: str
    name: str
    higher_is_better: bool
    range: tuple[float, float] = (0.0, 1.0)
    threshold: float | None = 0.75
    primary: bool = False
    description: str = ""
    share: bool = False
    dataset_level: bool = False
    pooled: bool = False
    over_turns: OverTurns = "mean"

    @classmethod
    def higher(cls, key: str, description: str = "", *, name: str = "", **more: Unpack[_Fields]) -> Metric:
        """Return a metric of which higher values are better.

        Args:
            description: One or two sentences for a reader.
            name: Name for people; made from the key by default.
            **more: Other fields of :class:`Metric`.
        """
        return cls(key, name or title(key), True, description=description, **more)

    @classmethod
    def lower(cls, key: str, description: str = "", *, name: str = "", **more: Unpack[_Fields]) -> Metric:
        """Return a metric of which lower values are better; see :meth:`higher`."""
        return cls(key, name or title(key), False, description=description, **more)

    def passes(self, value: float, threshold: float | None = None) -> bool | None:
        """Return whether a value satisfies the threshold (inclusive), or ``None`` without a threshold.

        Args:
            value: The value of a row or of a model.
            threshold: A threshold to use instead of the metric's own; ``None`` for the metric's own.
        """
        limit = self.threshold if threshold is None else threshold
        if limit is None:
            return None
        return value >= limit if self.higher_is_better else value <= limit

    def to_json(self) -> dict[str, Json]:
        """Return the public description; an infinite bound is ``"inf"``, as in the references' own descriptions."""
        return {
            "key": self.key,
            "name": self.name,
            "higher_is_better": self.higher_is_better,
            "range": [_bound(bound) for bound in self.range],
            "threshold": None if self.threshold is None else _bound(self.threshold),
            "primary": self.primary,
            "description": self.description,
        }


def one_metric(
    key: str, description: str = "", *, name: str = "", higher_is_better: bool = True, **more: Unpack[_Fields]
) -> tuple[Metric]:
    """Return the metrics of an evaluator that has only one; see :meth:`Metric.higher`."""
    return (Metric(key, name or title(key), higher_is_better, description=description, **more),)


def title(id_: str) -> str:
    """Return a name for people: ``acme.all_caps`` becomes ``Acme all caps``."""
    words = id_.replace(".", " ").replace("_", " ")
    return words[:1].upper() + words[1:]


def _bound(value: float) -> Json:
    return value if math.isfinite(value) else str(value)


class Effect(StrEnum):
    """The part of a run that a parameter changes; each value is a sentence for pages, without its point."""

    SCORES = "Changes scores"
    JUDGE = "Another judge gives other scores: they are kept under that judge's own configuration"
    ROWS = "Changes which rows are scored, not their scores"
    DATASET_METRICS = "Changes metrics of the whole dataset, not the rows' scores"
    VERDICT = "Changes no score, but what counts as a problem, and so the gate"
    REPORT = "Changes the report only"
    NOTHING = "Has no effect here"

    @property
    def in_key(self) -> bool:
        """True where a score's key covers the parameter itself."""
        return self is Effect.SCORES

    @property
    def extra(self) -> dict[str, Any]:
        """The ``json_schema_extra`` of a field with this effect."""
        return {"effect": self.value}


REPORT_ONLY: Final = Effect.REPORT.extra
"""``json_schema_extra`` of a parameter that changes what is reported, never a value or the gate."""


class Params(BaseModel):
    """Parameters that every evaluator has.

    Subclasses add fields. A field that does not change a row's values is declared with the ``json_schema_extra`` of
    another :class:`Effect`, such as ``REPORT_ONLY``, which keeps it out of the score's key.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)  # most are never used in a run

    metric_threshold: Annotated[
        float | dict[str, float] | None,
        Field(
            description="Threshold of the primary metric, or thresholds by metric key, instead of the defaults.",
            json_schema_extra=Effect.VERDICT.extra,
        ),
    ] = None
    save_llm_result: Annotated[
        bool,
        Field(
            description="Keep the rows with their scores in the evaluator's results, not only the aggregates.",
            json_schema_extra=REPORT_ONLY,
        ),
    ] = True
    min_test_cases: Annotated[
        int,
        Field(
            ge=0, description="Report a problem when fewer rows were scored.", json_schema_extra=Effect.VERDICT.extra
        ),
    ] = 0

    @field_validator("metric_threshold")
    @classmethod
    def _is_comparable(cls, value: float | dict[str, float] | None) -> float | dict[str, float] | None:
        given = value.values() if isinstance(value, dict) else [] if value is None else [value]
        if any(map(math.isnan, given)):
            raise ValueError("NaN is no number to compare with")
        return value

    @classmethod
    def build(cls, evaluator: str, values: dict[str, Any]) -> Self:
        """Validate values given by a user; a wrong one is a :class:`UsageError` that names it.

        Args:
            evaluator: Id of the evaluator, for the error.
            values: Values by parameter; those left out get their defaults.
        """
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            first = error.errors()[0]
            if first["type"] == "extra_forbidden" and len(first["loc"]) == 1:
                known = ", ".join(sorted(cls.model_fields))
                raise UsageError(
                    f"{evaluator}.{first['loc'][0]}: there is no such parameter.",
                    hint=f"Its parameters are: {known}.",
                    code=ErrorCode.CONFIG_PARAMETER,
                ) from None
            name = field_of(first, cls) or "parameters"
            raise UsageError(
                f"{evaluator}.{name}: {why(first, cls)}.",
                hint=f"See: leadline evaluators show {evaluator}",
                code=ErrorCode.CONFIG_PARAMETER,
            ) from None

    def identity(self) -> dict[str, Json]:
        """Return the parameters that a score's key must cover."""
        return {
            name: value for name, value in self.model_dump(mode="json").items() if effect_of(type(self), name).in_key
        }


def effect_of(params: type[Params], name: str) -> Effect:
    """Return what of a run a parameter changes.

    Args:
        params: The parameters' type.
        name: One of its fields.
    """
    extra = params.model_fields[name].json_schema_extra
    return Effect(str(extra.get("effect", Effect.SCORES))) if isinstance(extra, dict) else Effect.SCORES


class JudgeKey(Params):
    """Adds the seed's parameter that selects a judge; embedding evaluators accept it and need no judge."""

    custom_eval_judge_config_key: Annotated[
        str,
        Field(
            description="Key of the judge to use, where the evaluator asks one.", json_schema_extra=Effect.JUDGE.extra
        ),
    ] = ""


class DataKind(StrEnum):
    """A kind of dataset. How one is recognised stands in ``tasks/plan/dataset_profile.py``.

    Attributes:
        LABELS: The expected answers are labels: few, short, repeated; and the answers are labels too.
        SENTENCES: The expected answers are sentences, no single words.
        LIKE_LENGTHS: Answers and expected answers are sentences of about the same length, so that counting the words
            they share says something.
        DOCUMENTS: The questions are documents and the answers shorter texts: summaries.
        QUESTIONS: The questions are questions: no documents to summarise, no items to label.
        ENCODED: Categories of some cases name an encoding in which something was asked, such as Base64.
        RGB: The cases are those of the benchmark RGB.
        SHORT_ANSWERS: Expected answers and answers are a few words, as in reading comprehension, and no labels.
        NUMBERS: The expected answers are numbers, with a unit or a sign of a currency or of percent at most.
        JSON: Half of the answers, or half of the expected ones, are JSON objects or arrays.
        JSON_REFERENCES: Half of the expected answers are.
        SQL_REFERENCES: Half of the expected answers are queries in SQL.
        CITED: One in ten answers has a marker of a citation, such as ``[1]``.
        QUOTING: One in ten answers has a quotation of several words.
    """

    LABELS = "labels"
    SENTENCES = "sentences"
    LIKE_LENGTHS = "like_lengths"
    DOCUMENTS = "documents"
    QUESTIONS = "questions"
    ENCODED = "encoded"
    RGB = "rgb"
    SHORT_ANSWERS = "short_answers"
    NUMBERS = "numbers"
    JSON = "json"
    JSON_REFERENCES = "json_references"
    SQL_REFERENCES = "sql_references"
    CITED = "cited"
    QUOTING = "quoting"


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
        unit: What it scores: each turn of a conversation, or the conversation as a whole. A row of one turn is both.
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
    unit: Unit = "turn"
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


def boolean_metrics(
    passes: tuple[str, str],
    failures: tuple[str, str],
    retrieval: tuple[str, str],
    generation: tuple[str, str],
    parsing: tuple[str, str] | None,
    *,
    what: str,
) -> tuple[Metric, ...]:
    """Return the four or five metrics of a pass/fail evaluator.

    Args:
        passes: Key and name of the share of rows that pass (primary).
        failures: Key and name of the share that fails.
        retrieval: Key and name of the share whose retrieved context fails.
        generation: Key and name of the share whose answer fails.
        parsing: Key and name of the share that could not be parsed, or ``None`` without such a metric.
        what: What the check looks for, as it reads after "for".
    """
    rows: list[tuple[tuple[str, str] | None, bool, str]] = [
        (passes, True, f"Share of answers that pass the check for {what}."),
        (failures, False, f"Share of answers that fail the check for {what}."),
        (retrieval, False, f"Share of answers whose retrieved context fails the check for {what}."),
        (generation, False, f"Share of answers whose generated text fails the check for {what}."),
        (parsing, False, f"Share of answers that could not be parsed in the check for {what}."),
    ]
    return tuple(
        Metric(
            key=label[0],
            name=label[1],
            higher_is_better=better,
            threshold=0.5,
            primary=better,
            description=text,
            share=True,
        )
        for label, better, text in rows
        if label is not None
    )


def verdict(
    metrics: Sequence[Metric],
    *,
    generation: bool | None,
    retrieval: bool | None = False,
    parsing: bool = False,
    unknown: str = "",
    why: Reason = Reason.UNSCORABLE,
) -> dict[str, float | Unscored]:
    """Return a row's 0/1 values by metric key.

    A row fails if its answer fails, its context fails, or both. What is not known is unscored: a row whose answer
    could not be read neither passes nor fails, unless its context fails it.

    Args:
        metrics: The four or five metrics that ``boolean_metrics`` returned.
        generation: Whether the answer fails; ``None`` when that is not known.
        retrieval: Whether the retrieved context fails; ``None`` when that is not known.
        parsing: Whether something could not be parsed.
        unknown: Why something is not known.
        why: What kind of reason that is.
    """
    if generation or retrieval:
        failed: bool | None = True
    else:
        failed = None if generation is None or retrieval is None else False
    passed = None if failed is None else not failed
    reason = Unscored(why, unknown)
    return {
        metric.key: reason if value is None else float(value)
        for metric, value in zip(metrics, (passed, failed, retrieval, generation, parsing), strict=False)
    }


def unparseable(
    metrics: Sequence[Metric], message: str, *, why: Reason = Reason.UNSCORABLE, severity: Severity = Severity.MEDIUM
) -> RowScore:
    """Return a row of which nothing could be checked: a parsing failure that neither passes nor fails.

    Args:
        metrics: The five metrics that ``boolean_metrics`` returned.
        message: What could not be parsed; also reported as a problem.
        why: What kind of failure it is.
        severity: How bad a problem it is.
    """
    return RowScore(
        verdict(metrics, generation=None, retrieval=None, parsing=True, unknown=message, why=why),
        Evidence(message),
        (Flag("evaluation", severity, message),),
    )
