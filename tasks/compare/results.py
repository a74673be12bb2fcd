"""The results of a comparison, as plain values for programs and pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from leadline.evaluators.ground import percent, signed_percent

Outcome: TypeAlias = Literal["pass", "fail", "inconclusive"]
MetricOutcome: TypeAlias = Literal[
    "pass", "fail", "inconclusive", "incomparable", "information", "one_sided", "not_applicable"
]
Change: TypeAlias = Literal["better", "worse", "none shown"]


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison: a run, and of what dataset.

    Attributes:
        run: Id of the run.
        name: The run's name.
        dataset: Digest of its dataset.
        started: When the run began, as an ISO time, or ``""``.
    """

    run: str
    name: str = ""
    dataset: str = ""
    dataset_name: str = ""
    started: str = ""


@dataclass(frozen=True, slots=True)
class ModelPair:
    """A model of the baseline and the model of the candidate that it is compared with, by their keys."""

    baseline: str
    candidate: str

    @property
    def label(self) -> str:
        """The pair in words: one key where both are equal."""
        return self.baseline if self.baseline == self.candidate else f"{self.baseline} → {self.candidate}"


@dataclass(frozen=True, slots=True)
class Answers:
    """Counts of the answers of two models that are the same.

    Attributes:
        rows: Cases that both have a row of.
        same: Of those, with the very same answer and context.
        changed: Cases that both have a row of, but with another question or expectation: they are not compared.
    """

    models: ModelPair
    rows: int
    same: int
    changed: int


@dataclass(frozen=True, slots=True)
class Coverage:
    """The outcomes of the cases of two models on one metric.

    Attributes:
        pairs: Cases with a value on both sides; only these are compared.
        unscored: Cases that the instrument or the host failed to give a value on at least one side.
        not_applicable: Cases that lack an input of the evaluator on at least one side.
        changed: Cases whose question or expectation differs between the two datasets.
        only_baseline: Cases that only the baseline has a row for.
        only_candidate: Cases that only the candidate has a row for.
        same_answers: Pairs of which both sides gave the very same answer with the same context.
        reasons: Unscored cases by side and reason, as ``candidate: timeout``.
    """

    pairs: int = 0
    unscored: int = 0
    not_applicable: int = 0
    changed: int = 0
    only_baseline: int = 0
    only_candidate: int = 0
    same_answers: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """Pairs / (pairs + unscored); 0 when there are none."""
        wanted = self.pairs + self.unscored
        return self.pairs / wanted if wanted else 0.0


@dataclass(frozen=True, slots=True)
class ChangedRow:
    """A case that changed sides of the threshold, or without a threshold one whose value changed most.

    Attributes:
        case: Key of the case.
        direction: ``passed_to_failed``, ``failed_to_passed``, or without a threshold ``worse`` or ``better``.
        baseline: Value of the baseline's row, trials averaged.
        candidate: Value of the candidate's row.
        question: The case's question, cut; ``None`` where it has none.
        expected: The first expected answer, cut.
        baseline_answer: The baseline's answer, cut; ``None`` where its host failed.
        candidate_answer: The candidate's answer, cut.
        baseline_turn: Of a conversation of several turns, the first that fails in the baseline, if one does.
        candidate_turn: The same in the candidate.
    """

    case: str
    direction: str
    baseline: float
    candidate: float
    question: str | None = None
    expected: str | None = None
    baseline_answer: str | None = None
    candidate_answer: str | None = None
    baseline_turn: int | None = None
    candidate_turn: int | None = None

    @property
    def where(self) -> str:
        """The case, and from which turn on it fails or failed: "berth-15m from turn 3"."""
        turn = self.candidate_turn if self.direction == "passed_to_failed" else self.baseline_turn
        return f"{self.case} from turn {turn}" if turn else self.case


@dataclass(frozen=True, slots=True)
class MetricInfo:
    """A metric of an evaluator, as the candidate's run describes it.

    Attributes:
        evaluator: Id of the evaluator.
        metric: Key of the metric within it.
        evaluator_name: Name for people.
        name: Name for people.
        higher_is_better: Direction.
        low: Least value of its range.
        high: Greatest value of its range.
        threshold: The candidate run's threshold, or ``None``.
        share: Whether a row's value is 0 or 1.
        dataset_level: Whether it has no value per row.
        primary: Whether it decides its evaluator's leaderboard.
    """

    evaluator: str
    metric: str
    evaluator_name: str
    name: str
    higher_is_better: bool
    low: float
    high: float
    threshold: float | None
    share: bool
    dataset_level: bool
    primary: bool

    @property
    def key(self) -> str:
        """``evaluator.metric``, as margins name it."""
        return f"{self.evaluator}.{self.metric}"


@dataclass(frozen=True, slots=True)
class Churn:
    """The verdicts of a judge that changed from run to run, and how many more than its own noise changes.

    Attributes:
        rate: Share of the cases on two sides of the threshold, by the first trial of each row.
        noise: The share that the judge's noise changes by itself; ``None`` where no row was judged more than once.
        net: The share without it, may be negative.
        net_low: Lower end of its 95 % interval.
        net_high: Upper end.
        method: ``trials``, or ``sub-sample`` where only some rows were judged more than once; ``""`` without any.
    """

    rate: float
    noise: float | None = None
    net: float | None = None
    net_low: float | None = None
    net_high: float | None = None
    method: str = ""

    @property
    def in_words(self) -> str:
        """The churn in a line: how many changed, by the judge's noise, and net."""
        if self.noise is None or self.net is None or self.net_low is None or self.net_high is None:
            return f"{percent(self.rate)} of the cases changed sides; the judge's own noise was not measured"
        ends = f"{signed_percent(self.net_low)} to {signed_percent(self.net_high)}"
        told = "changed" if self.net_low > 0 else "not told from the judge's noise"
        return (
            f"{percent(self.rate)} of the cases changed sides · judge's own noise {percent(self.noise)} · "
            f"net {signed_percent(self.net)} ({ends}): {told}"
        )


@dataclass(frozen=True, slots=True)
class CorrectedDifference:
    """By how much a candidate is better as people would have judged it.

    Attributes:
        value: The difference, turned so that positive is better.
        low: Lower end of its 95 % interval.
        high: Upper end.
        is_share: Whether it is one of shares of good answers; else of means.
        paired: Whether it is of cases of which both answers are labelled; else of two corrected values.
        n_labels: Pairs of labels, or labels of both sides.
    """

    value: float
    low: float
    high: float
    is_share: bool
    paired: bool
    n_labels: int


@dataclass(frozen=True, slots=True)
class MetricComparison:
    """One metric of one pair of models.

    All effects are the candidate's value less the baseline's, turned so that positive is better.

    Attributes:
        metric: What is compared.
        models: Whose answers.
        coverage: Which cases could be compared.
        margin: The largest worsening that is tolerated, in the metric's own unit, >= 0; ``None`` where nothing was
            compared.
        baseline: The baseline's value over the pairs: a mean, or the dataset-level value.
        candidate: The candidate's value over the same cases.
        effect: By how much the candidate is better; infinite where a value is.
        ci_low: Lower end of the effect's 95 % interval (its bad end).
        ci_high: Upper end.
        ci_method: ``bounded``, ``t``, ``score`` (Tango), ``bootstrap``, or ``""`` without an interval.
        test: ``mcnemar``, ``sign-flip exact``, ``sign-flip``, ``t``, ``sign``, ``label swap``, or ``""`` without one.
        p: Two-sided p-value of "no difference".
        p_adjusted: The same after Holm's correction; ``None`` where too few cases differ for a low one.
        change: Whether a difference from the baseline is more than chance, after Holm's correction.
        wins: Cases on which the candidate is better.
        ties: Cases on which both are equal.
        losses: Cases on which the candidate is worse.
        passed_to_failed: Cases on which only the baseline satisfies the threshold; ``None`` without a threshold.
        failed_to_passed: Cases on which only the candidate does.
        p_flips: McNemar's exact p-value of these two numbers, for the reader: it takes no part in the verdict.
        detectable: The smallest difference that would be found with a chance of 80 %; ``None`` where none would.
        if_worst: The effect if every unscored case had gone against the candidate; ``None`` if unbounded.
        if_best: The effect if every unscored case had gone for it.
        rows_needed: About how many cases would decide with a chance of 80 % if the effect is what it seems.
        verdict: ``pass``, ``fail``, ``inconclusive``, ``incomparable``, ``information`` (shown, not tested),
            ``one_sided`` (only one run measured it: it counts neither for nor against) or ``not_applicable``.
        reason: Why, in one sentence.
        role: ``must``, ``should`` or ``information`` by the policy.
        untested: Why it is shown and not tested, or ``""``; what is not tested counts neither for nor against.
        least_cases: With fewer cases not even an unchanged candidate could pass; ``None`` where that is not known.
        differences: Differences of the evaluator's two configurations, one line each.
        corrected: The effect as people's labels correct it; ``None`` where a side has none drawn at random. No verdict
            depends on it.
        changed_rows: The flips, or without a threshold the largest changes; as many as are shown.
        churn: The flips of a metric that asks a judge, and its own noise in them; ``None`` for others.
    """

    metric: MetricInfo
    models: ModelPair
    coverage: Coverage
    margin: float | None
    verdict: MetricOutcome
    reason: str
    baseline: float | None = None
    candidate: float | None = None
    effect: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    ci_method: str = ""
    test: str = ""
    p: float | None = None
    p_adjusted: float | None = None
    change: Change = "none shown"
    wins: int = 0
    ties: int = 0
    losses: int = 0
    passed_to_failed: int | None = None
    failed_to_passed: int | None = None
    p_flips: float | None = None
    detectable: float | None = None
    if_worst: float | None = None
    if_best: float | None = None
    rows_needed: int | None = None
    role: str = "should"
    untested: str = ""
    least_cases: int | None = None
    differences: tuple[str, ...] = ()
    corrected: CorrectedDifference | None = None
    changed_rows: tuple[ChangedRow, ...] = ()
    churn: Churn | None = None


@dataclass(frozen=True, slots=True)
class SliceComparison:
    """One metric of one pair of models on the cases that share a value of a column. No verdict depends on it.

    Attributes:
        column: Name of the column.
        value: The value that the cases share.
        words: The same in words.
        metric: The metric, as ``evaluator.metric``.
        label: Its name for people.
        share: Whether its rows have the values 0 and 1.
        models: Whose answers.
        n: Cases of the slice with a value on both sides.
        baseline: Their mean in the baseline.
        candidate: Their mean in the candidate.
        effect: By how much the candidate is better.
        ci_low: Lower end of the effect's 95 % interval (its bad end).
        ci_high: Upper end.
        p: Two-sided p-value of "no difference".
        q: The same after the correction of Benjamini and Hochberg over all slices of the comparison.
        change: Whether the difference is more than chance, by ``q``.
    """

    column: str
    value: str
    words: str
    metric: str
    label: str
    share: bool
    models: ModelPair
    n: int
    baseline: float
    candidate: float
    effect: float | None
    ci_low: float | None
    ci_high: float | None
    p: float | None
    q: float | None = None
    change: Change = "none shown"


@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """A candidate compared with a baseline.

    Attributes:
        id: Names its folder in the store; the same question has the same id.
        baseline: Where the baseline's scores come from.
        candidate: Where the candidate's come from.
        verdict: ``pass``, ``fail`` or ``inconclusive``, over all metrics.
        reason: Why, in one sentence.
        alpha: The declared chance that an unchanged candidate is called a failure by any metric.
        tested: How many metrics Holm's correction counts: those of which enough cases differ for a low p-value.
        metrics: The comparisons of the metrics, worst first.
        answers: How many answers are the same, by pair of models.
        slices: The metrics by slice, worst first, where columns were named; they only inform.
        notes: Sentences for the reader, beside the numbers.
        created: When, as an ISO time.
        report: The page.
    """

    id: str
    baseline: Side
    candidate: Side
    verdict: Outcome
    reason: str
    alpha: float
    tested: int
    metrics: tuple[MetricComparison, ...]
    answers: tuple[Answers, ...] = ()
    slices: tuple[SliceComparison, ...] = ()
    notes: tuple[str, ...] = ()
    created: str = ""
    folder: Path = Path()
    report: Path = Path()

    def __repr__(self) -> str:
        sides = f"{self.candidate.run} with {self.baseline.run}"
        return f"<leadline comparison of {sides}: {self.verdict}. {self.reason}>"

    def of(self, key: str, model: str | None = None) -> MetricComparison:
        """Return the comparison of a metric (``evaluator.metric``), of the first pair of models or the one named.

        Raises:
            KeyError: It was not compared.
        """
        for found in self.metrics:
            if found.metric.key == key and model in (None, found.models.baseline, found.models.candidate):
                return found
        raise KeyError(key)
