"""A policy: which metrics block, which warn, which only inform, and by what limits.

A rule is chosen by what it names, from the general to the particular: every metric (``*``), metrics that ask a judge
(``judge``), a family (``family:privacy``), an evaluator (``pii_leakage``), one metric of it (``rouge:rouge_l``). A more
particular rule replaces only the settings that it gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, Literal, TypeAlias

from leadline.evaluators.core.base import Spec
from leadline.evaluators.core.metric import Metric
from leadline.tasks.store.files import digest

EVERY: Final = "*"
"""Names every metric."""
JUDGE: Final = "judge"
"""Names the metrics of evaluators that ask a judge."""
FAMILY: Final = "family:"
"""Begins the name of a family."""

ProblemStyle: TypeAlias = Literal["grouped", "seed"]
"""``grouped``: one problem per cause. ``seed``: those of H2O Sonar, one per missed threshold and flipped case."""


Basis: TypeAlias = Literal["judge", "corrected"]
"""What decides a metric that asks a judge: its values, or these corrected by people's labels."""


class Role(StrEnum):
    """The weight of a metric in the gate's decision."""

    MUST = "must"
    SHOULD = "should"
    INFORMATION = "information"


@dataclass(frozen=True, slots=True)
class Rule:
    """The limits of one metric.

    Attributes:
        role: ``must``: one failing row beyond the tolerance fails the gate; ``should``: a mean or share that misses
            its threshold fails it; ``information``: never blocks.
        threshold: Value that separates good from bad; ``None`` for the metric's own.
        tolerance_rows: Rows of a model that may fail a *must* metric.
        tolerance_share: Share of a model's scored rows that may fail it; the larger of both tolerances counts.
        min_pass_share: Least share of a model's scored rows that must satisfy the threshold of a *should* metric,
            beside its value; 0 asks for none. A mean alone hides a part of the answers that is bad.
        min_coverage: Least share of applicable rows that must be scored for a decision, from 0 to 1.
        min_rows: Least number of scored rows from which a metric can fail the gate.
        weight: How harmful a failing answer is, against 1 for an ordinary wrong answer; orders the problems.
        slices: Columns within each value of which the metric must hold too.
        use: What decides a metric that asks a judge: the ``judge``, or its values as people's labels correct them.
    """

    role: Role = Role.SHOULD
    threshold: float | None = None
    tolerance_rows: int = 0
    tolerance_share: float = 0.0
    min_pass_share: float = 0.0
    min_coverage: float = 0.95
    min_rows: int = 1
    weight: float = 1.0
    slices: tuple[str, ...] = ()
    use: Basis = "judge"

    def tolerated(self, rows: int) -> int:
        """Return how many of a number of scored rows may fail."""
        return max(self.tolerance_rows, int(self.tolerance_share * rows + 1e-9))


@dataclass(frozen=True, slots=True)
class Policy:
    """A gate policy.

    Attributes:
        name: Its name.
        description: What it is for, in a sentence.
        problems: How problems are found.
        certain: Whether a *should* metric passes only if its whole interval is on the good side of the threshold.
        rules: Settings of :class:`Rule` by what they are for.
    """

    name: str
    description: str = ""
    problems: ProblemStyle = "grouped"
    certain: bool = False
    rules: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """A digest of all that decides; the name and the description are not part of it."""
        return digest(
            {"problems": self.problems, "certain": self.certain, "rules": {k: dict(v) for k, v in self.rules.items()}}
        )[:12]

    def rule(self, spec: Spec, metric: Metric) -> Rule:
        """Return the rule of a metric.

        Only an evaluator's primary metric blocks, unless a rule names another one. A *must* metric whose rows are 0 or
        1 must be good on all rows, so that its threshold is its best value unless a rule gives another.

        Args:
            spec: The evaluator.
            metric: Its metric.
        """
        names = rule_names(spec, metric)
        settings: dict[str, Any] = {}
        for name in names:
            settings |= self.rules.get(name, {})
        settings["role"] = Role(settings.get("role", Role.SHOULD))
        rule = Rule(**settings)
        if not metric.primary and "role" not in self.rules.get(names[-1], {}):
            return replace(rule, role=Role.INFORMATION)
        if rule.role is Role.MUST and rule.threshold is None and metric.share:
            return replace(rule, threshold=1.0 if metric.higher_is_better else 0.0)
        return rule

    def deciding(self, spec: Spec, metrics: Sequence[Metric]) -> str:
        """Return the key of the metric that stands for an evaluator: the one with the weightiest role.

        Among equals the primary one, then the first. Of a pass/fail check it is the metric that a rule makes a *must*,
        such as the leaks in answers, apart from those in retrieved contexts.

        Args:
            spec: The evaluator.
            metrics: Its metrics.
        """
        order = list(Role)
        return min(
            metrics, key=lambda metric: (order.index(Role(self.rule(spec, metric).role)), not metric.primary)
        ).key

    def extended(self, rules: Mapping[str, Mapping[str, Any]], **settings: Any) -> Policy:
        """Return a policy based on this one.

        Args:
            rules: Settings that replace those of the same rules here.
            **settings: Other fields of the policy.
        """
        joined = {name: {**self.rules.get(name, {}), **rules.get(name, {})} for name in [*self.rules, *rules]}
        return replace(self, rules=joined, **settings)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Policy:
        """Return the policy of :meth:`to_json`."""
        return cls(**{name: setting for name, setting in value.items() if name != "digest"})

    def to_json(self) -> dict[str, Any]:
        """Return the policy as JSON, with its digest."""
        return asdict(self) | {"digest": self.digest}


def rule_names(spec: Spec, metric: Metric) -> Sequence[str]:
    """Return the names of the rules that are for a metric, the most particular one last.

    Args:
        spec: The evaluator.
        metric: Its metric.
    """
    judge = [JUDGE] if spec.judge else []
    return [EVERY, *judge, f"{FAMILY}{spec.family}", spec.id, f"{spec.id}:{metric.key}"]
