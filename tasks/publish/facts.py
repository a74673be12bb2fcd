"""The content of a report apart from single rows: the run's tables, frozen and small."""

from __future__ import annotations

import json
import math
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from leadline.evaluators.data import Details
from leadline.tasks.analyse.changes import Changes, read_changes
from leadline.tasks.analyse.findings.flip_problems import noise_in_a_word
from leadline.tasks.db import Aggregate, FlipCause, FlipRate, Insight, Problem, TrialSpread, read_lines, records, sql
from leadline.tasks.judges.labels.run_corrections import (
    CertificateLine,
    CorrectionLine,
    read_certificates,
    read_corrections,
)
from leadline.tasks.runs.run_facts import RunFacts, Tally, tally, tally_in_words

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@dataclass(frozen=True, slots=True)
class ModelView:
    """A model of this run, with what its answers cost; ``label`` names it unmistakably."""

    id: int
    key: str
    name: str
    version: str | None
    is_rag: bool
    n_rows: int
    n_errors: int
    mean_duration_s: float | None
    total_cost_usd: float | None
    label: str


@dataclass(frozen=True, slots=True)
class MetricView:
    """A metric with the threshold and the role of this run's policy. ``low`` and ``high`` may be infinite."""

    id: int
    evaluator_id: int
    key: str
    name: str
    description: str
    higher_is_better: bool
    low: float
    high: float
    threshold: float | None
    primary: bool
    share: bool
    dataset_level: bool
    role: str

    @property
    def unreachable(self) -> bool:
        """True if the threshold lies outside of the metric's range."""
        return self.threshold is not None and not self.low <= self.threshold <= self.high

    @property
    def idle(self) -> bool:
        """True if every value of the range satisfies the threshold."""
        if self.threshold is None:
            return False
        return self.threshold <= self.low if self.higher_is_better else self.threshold >= self.high

    def passes(self, value: float) -> bool | None:
        """Return whether a value satisfies the threshold (inclusive), ``None`` without a threshold."""
        if self.threshold is None:
            return None
        return value >= self.threshold if self.higher_is_better else value <= self.threshold


@dataclass(frozen=True, slots=True)
class EvaluatorView:
    """An evaluator as it ran, with its metrics, the primary ones first, and the folder of its results."""

    id: int
    key: str
    name: str
    family: str
    lane: str
    board: str
    config: str
    identity: Mapping[str, Any]
    params: Mapping[str, Any]
    reused: int
    computed: int
    error: str | None
    folder: str
    metrics: tuple[MetricView, ...]

    @property
    def short(self) -> str:
        """Its name without the word that all of them share."""
        return self.name.removesuffix(" Evaluator") or self.name

    def label(self, metric: MetricView) -> str:
        """Return a name of evaluator and metric without repetition."""
        if metric.name.casefold() in self.short.casefold() or (metric.primary and metric.share):
            return self.short
        return metric.name if self.short.casefold() in metric.name.casefold() else f"{self.short}: {metric.name}"

    @property
    def primary(self) -> MetricView | None:
        """The metric that decides the leaderboard."""
        return next((metric for metric in self.metrics if metric.primary), self.metrics[0] if self.metrics else None)

    @property
    def keeps_rows(self) -> bool:
        """True if the rows may be written into its results."""
        return self.params.get("save_llm_result") is not False


@dataclass(frozen=True, slots=True)
class FlipRateLine(FlipRate):
    """A flip rate, with a word on the judge's noise in it."""

    @property
    def word(self) -> str:
        """The word for what is known of the judge's noise; ``""`` where there can be none."""
        return noise_in_a_word(self.net_method, self.net_low)


@dataclass(frozen=True, slots=True)
class Unmeasured:
    """Rows that one evaluator could not score, by reason, with the instrument's commonest message."""

    evaluator_id: int
    reason: str
    n_rows: int
    message: str


@dataclass(frozen=True, slots=True)
class Facts(RunFacts):
    """The content of a report, apart from single rows.

    Attributes:
        models: Models of this run, by key.
        evaluators: Evaluators in the order they were asked for.
        aggregates: By (metric, model).
        changes: What changed since the baseline; ``None`` where nothing was to be compared.
        corrections: What people would say, by (metric, model), where there are labels.
        flip_causes: Whose the flips are, where that was asked.
        rows: Key of case and model of every row that a finding names.
        n_flips: Number of flips; they may be too many for memory.
    """

    models: tuple[ModelView, ...]
    evaluators: tuple[EvaluatorView, ...]
    aggregates: Mapping[tuple[int, int], Aggregate]
    flip_rates: tuple[FlipRateLine, ...]
    trial_spread: tuple[TrialSpread, ...]
    problems: tuple[Problem, ...]
    insights: tuple[Insight, ...]
    unmeasured: tuple[Unmeasured, ...]
    rows: Mapping[int, tuple[str, str]]
    n_cases: int
    n_rows: int
    n_flips: int
    counts: Mapping[str, int]
    changes: Changes | None = None
    corrections: Mapping[tuple[int, int], CorrectionLine] = field(default_factory=dict)
    certificates: Mapping[int, CertificateLine] = field(default_factory=dict)
    decided_by_people: frozenset[int] = frozenset()
    flip_causes: tuple[FlipCause, ...] = ()

    def cause(self, rate: FlipRate) -> FlipCause | None:
        """Return whose the flips of a line of ``flip_rates`` are, as far as it was asked."""
        place = (rate.metric_id, rate.model_id, rate.perturbation)
        return next((c for c in self.flip_causes if (c.metric_id, c.model_id, c.perturbation) == place), None)

    @property
    def scored(self) -> int:
        """Scores with a value."""
        return self.counts["scored"]

    @property
    def unscored(self) -> int:
        """Scores that could not be measured."""
        return self.counts["unscored"]

    @property
    def not_applicable(self) -> int:
        """Scores whose row lacks an input."""
        return self.counts["not_applicable"]

    def model(self, model_id: int | None) -> ModelView | None:
        """Return a model by id."""
        return next((model for model in self.models if model.id == model_id), None)

    def evaluator(self, evaluator_id: int | None) -> EvaluatorView | None:
        """Return an evaluator by id."""
        return next((evaluator for evaluator in self.evaluators if evaluator.id == evaluator_id), None)

    def metric(self, metric_id: int | None) -> MetricView | None:
        """Return a metric by id."""
        return next((m for evaluator in self.evaluators for m in evaluator.metrics if m.id == metric_id), None)

    def tally(self) -> Tally:
        """Return the number of problems by severity, those of models apart from those of the instrument."""
        return tally((problem.severity, problem.instrument) for problem in self.problems)

    def tally_in_words(self) -> str:
        """Return the same as a line for people."""
        return tally_in_words(self.tally())

    def severities(self) -> dict[str, int]:
        """Return the number of all problems by severity, worst first."""
        found = self.tally()
        return {severity: n + found["instrument"][severity] for severity, n in found["model"].items()}


def number(value: float | None) -> float | str | None:
    """Return a number as JSON can represent it: an infinite or undefined one as "Infinity", "-Infinity" or "NaN"."""
    if value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


@dataclass(frozen=True, slots=True)
class RankedModel:
    """One model's line of a leaderboard, ordered by the primary metric."""

    rank: int
    model: ModelView
    aggregate: Aggregate | None
    values: dict[str, float | None]

    @property
    def failed(self) -> int | None:
        """Scored rows that miss the threshold."""
        if self.aggregate is None or self.aggregate.n_pass is None:
            return None
        return self.aggregate.n_scored - self.aggregate.n_pass


def standings(facts: Facts, evaluator: EvaluatorView) -> list[RankedModel]:
    """Return the models, best first by the primary metric; models without a value come last, ties share a rank."""
    primary = evaluator.primary
    if primary is None:
        return []

    def merit(model: ModelView) -> tuple[bool, float]:
        value = value_of(facts, primary, model)
        return (value is None, 0.0 if value is None else -value if primary.higher_is_better else value)

    ordered = sorted(facts.models, key=merit)
    merits = [merit(model) for model in ordered]
    return [
        RankedModel(
            rank=merits.index(merit(model)) + 1,
            model=model,
            aggregate=facts.aggregates.get((primary.id, model.id)),
            values={metric.key: value_of(facts, metric, model) for metric in evaluator.metrics},
        )
        for model in ordered
    ]


def value_of(facts: Facts, metric: MetricView, model: ModelView) -> float | None:
    """Return the value of a model on a metric, if there is one."""
    found = facts.aggregates.get((metric.id, model.id))
    return None if found is None else found.value


_NAMESPACE: Final = uuid.UUID("6b5a4c50-1f0e-5d0c-9a43-6c6561646c69")


def folder_name(run_id: str, evaluator: str) -> str:
    """Return the name of an evaluator's folder: the same whenever the same run is published again."""
    safe = re.sub(r"[^0-9A-Za-z_-]", "_", evaluator)[:80]
    return f"{safe}_{uuid.uuid5(_NAMESPACE, f'{run_id}/{evaluator}')}"


def collect(connection: DuckDBPyConnection, run_id: str, record: Mapping[str, Any]) -> Facts:
    """Read everything but single rows, and leave the views ``run_models`` and ``run_rows`` on the connection.

    Args:
        connection: The run's database, with the dataset's views.
    """
    connection.execute(sql("publish/run_models"))
    connection.execute(sql("publish/run_rows"))
    problems = tuple(read_lines(connection, Problem, order="problem_id"))
    insights = tuple(read_lines(connection, Insight, order="insight_id"))
    ((n_cases, n_rows, n_flips),) = connection.execute(sql("publish/sizes")).fetchall()
    counted = dict(connection.execute(sql("publish/counts")).fetchall())
    return Facts(
        run=run_id,
        record=record,
        models=_models(_fetch(connection, "models")),
        evaluators=_evaluators(connection, run_id),
        aggregates={
            (line.metric_id, line.model_id): line
            for line in read_lines(connection, Aggregate, order="metric_id, model_id")
        },
        flip_rates=tuple(read_lines(connection, FlipRateLine, order="perturbation, metric_id, model_id")),
        flip_causes=tuple(read_lines(connection, FlipCause, order="perturbation, metric_id, model_id")),
        trial_spread=tuple(read_lines(connection, TrialSpread, order="metric_id, model_id")),
        problems=problems,
        insights=insights,
        unmeasured=tuple(Unmeasured(**line) for line in _fetch(connection, "unmeasured")),
        rows=_row_names(connection, (*problems, *insights)),
        n_cases=n_cases,
        n_rows=n_rows,
        n_flips=n_flips,
        changes=read_changes(connection),
        corrections=read_corrections(connection),
        certificates=read_certificates(connection),
        decided_by_people=_decided_by_people(connection),
        counts={status: int(counted.get(status, 0)) for status in ("scored", "unscored", "not_applicable")},
    )


def read_details(connection: DuckDBPyConnection, evaluator_id: int) -> dict[int, Details]:
    """Return an evaluator's details (``evaluators/data/details.py``) by model id."""
    lines = connection.execute(
        "SELECT model_id, details FROM details WHERE evaluator_id = ? ORDER BY model_id", [evaluator_id]
    ).fetchall()
    return {model_id: cast("Details", json.loads(text)) for model_id, text in lines}


def _decided_by_people(connection: DuckDBPyConnection) -> frozenset[int]:
    """Return the metrics that corrected values decide."""
    decided = connection.execute("SELECT metric_id FROM rules WHERE use = 'corrected'").fetchall()
    return frozenset(metric_id for (metric_id,) in decided)


def _fetch(connection: DuckDBPyConnection, name: str) -> list[dict[str, Any]]:
    return records(connection, sql(f"publish/{name}"))


def _models(lines: list[dict[str, Any]]) -> tuple[ModelView, ...]:
    """Two models may share name and version: then the keys tell them apart."""
    names = [f"{line['name']} {line['version'] or ''}".strip() for line in lines]
    return tuple(
        ModelView(**line, label=name if names.count(name) == 1 else f"{name} ({line['key']})")
        for line, name in zip(lines, names, strict=True)
    )


def _evaluators(connection: DuckDBPyConnection, run_id: str) -> tuple[EvaluatorView, ...]:
    metrics: dict[int, list[MetricView]] = {}
    for line in _fetch(connection, "metrics"):
        metrics.setdefault(line["evaluator_id"], []).append(MetricView(**line))
    return tuple(
        EvaluatorView(
            **line | {"identity": _object(line["identity"]), "params": _object(line["params"])},
            folder=folder_name(run_id, line["key"]),
            metrics=tuple(metrics.get(line["id"], ())),
        )
        for line in _fetch(connection, "evaluators")
    )


def _row_names(connection: DuckDBPyConnection, findings: Sequence[Problem | Insight]) -> dict[int, tuple[str, str]]:
    if not any(finding.row_ids for finding in findings):
        return {}
    return {row_id: (case, model) for row_id, case, model in connection.execute(sql("publish/finding_rows")).fetchall()}


def _object(text: str | None) -> dict[str, Any]:
    value = json.loads(text) if text else {}
    return value if isinstance(value, dict) else {"value": value}
