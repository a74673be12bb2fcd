"""The view models of a report: frozen copies of the run's tables, small enough for memory, ready to be shown."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from leadline.tasks.analyse.changes import Changes
from leadline.tasks.analyse.findings.flip_problems import noise_in_a_word
from leadline.tasks.db import Aggregate, FlipCause, FlipRate, Insight, Problem, TrialSpread
from leadline.tasks.judges.labels.run_corrections import CertificateLine, CorrectionLine
from leadline.tasks.runs.run_facts import RunFacts
from leadline.tasks.runs.tally import Tally, tally, tally_in_words


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
        certificates: How far people and judges agree, by metric.
        decided_by_people: Metrics that the gate decides by corrected values.
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
        """Return whose the flips of a line of ``flip_rates`` are, as far as it was asked.

        Args:
            rate: The line.
        """
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
