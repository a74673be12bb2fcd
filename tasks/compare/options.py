"""The settings of a comparison: margins (how much worse a candidate may be), level, metrics and models."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.tasks.compare.results import MetricInfo
from leadline.tasks.policy.policy import Policy

DEFAULT: Final = 0.05
"""Margin as a share of a metric's range: five points of a hundred."""

ALPHA: Final = 0.05


@dataclass(frozen=True, slots=True)
class Margins:
    """The largest tolerated worsening of every metric.

    Attributes:
        general: Share of a metric's range, in [0, 1]; where the range has no end, share of the baseline's value.
        own: By ``evaluator.metric``, or ``evaluator`` for all its metrics, in the metric's own unit.
    """

    general: float = DEFAULT
    own: Mapping[str, float] = field(default_factory=dict)

    def of(self, metric: MetricInfo, baseline: float) -> float:
        """Return the margin of a metric, in its own unit, >= 0.

        Args:
            baseline: The baseline's value, for metrics whose range has no end.
        """
        own = self.own.get(metric.key, self.own.get(metric.evaluator))
        if own is not None:
            return own
        width = metric.high - metric.low
        if math.isfinite(width):
            return self.general * width
        return self.general * abs(baseline) if math.isfinite(baseline) else 0.0

    def check(self, metrics: Collection[MetricInfo]) -> None:
        """Refuse margins that are not shares or lengths, and margins of metrics that are not compared.

        Raises:
            UsageError: There is such a margin.
        """
        if not 0 <= self.general <= 1:
            raise UsageError(
                f"The margin {self.general} is not a share.",
                hint="Give a number from 0 to 1.",
                code=ErrorCode.COMPARE_MARGIN,
            )
        known = {metric.key for metric in metrics} | {metric.evaluator for metric in metrics}
        for name, value in self.own.items():
            if not (math.isfinite(value) and value >= 0):
                raise UsageError(
                    f"The margin {value} of {name} is not valid.",
                    hint="Give a number that is 0 or more.",
                    code=ErrorCode.COMPARE_MARGIN,
                )
            if name not in known:
                raise UsageError(
                    f"A margin was given for {name}, which is not compared.",
                    hint=f"Compared: {', '.join(sorted(metric.key for metric in metrics)) or 'nothing'}.",
                    code=ErrorCode.COMPARE_MARGIN,
                )


@dataclass(frozen=True, slots=True)
class Decided:
    """The verdict of a metric on which judging stopped early.

    Attributes:
        low: Lower end of an interval of the effect that holds whenever one stops.
        high: Its upper end.
    """

    verdict: Literal["pass", "fail", "inconclusive"]
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Options:
    """The settings of a comparison.

    Attributes:
        margins: The largest tolerated worsening.
        alpha: The declared chance that any metric fails although nothing became worse, in (0, 0.5].
        metrics: The metrics: ``evaluator.metric``, or ``evaluator`` for all of it; all of them are tested. Empty: each
            evaluator's primary, and others that the policy names; what is information by the policy, or looks like
            another metric, is shown and not tested.
        all_metrics: Every metric instead, all of them tested.
        policy: The policy that says which metrics are tested, and by which thresholds; ``None``: the candidate run's.
        information: Measure also the metrics that are shown and not tested.
        slices: Columns by whose values the tested metrics are compared too, for information.
        mapping: Keys of the baseline's models, each with the candidate's model that it is compared with.
        allow_different_configurations: Compare also metrics that were measured differently, such as by another judge.
        shown: Flips of each metric and direction that the report shows with their texts.
        output: A folder to which the files are copied.
        confidence: Confidence of the intervals of an evaluator's metrics, by its id, where it is not 0.95.
        decided: Verdicts by metric and key of the candidate's model where judging stopped early.
    """

    margins: Margins = field(default_factory=Margins)
    alpha: float = ALPHA
    metrics: tuple[str, ...] = ()
    all_metrics: bool = False
    policy: Policy | None = None
    information: bool = True
    slices: tuple[str, ...] = ()
    mapping: Mapping[str, str] = field(default_factory=dict)
    allow_different_configurations: bool = False
    shown: int = 10
    output: Path | None = None
    confidence: Mapping[str, float] = field(default_factory=dict)
    decided: Mapping[tuple[str, str], Decided] = field(default_factory=dict)
