"""Comparisons of judges by people's labels: which agrees with people more often, on the very same rows.

With a label y and the judges' values f and g, each row gives ``|y - f| - |y - g|``: how much nearer the second judge
is. For passes and fails this is McNemar's test with Tango's interval; over several pairs of judges, p-values are
Holm's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from leadline.evaluators.ground import ErrorCode, LeadlineError, UsageError, count
from leadline.tasks.judges.labels.judging import JudgedLabels
from leadline.tasks.load.label import TIE
from leadline.tasks.statistics.agreement import Agreement, agreement, bootstrap, spearman
from leadline.tasks.statistics.paired import PairedResult, PairedSeries, measure
from leadline.tasks.statistics.statistics import Interval, holm

if TYPE_CHECKING:
    from leadline.tasks.statistics.bounded_mean import Floats, Ints


ALPHA: Final = 0.05
LEAST_ROWS: Final = 10
"""Labelled rows below which judges are not compared."""


@dataclass(frozen=True, slots=True)
class JudgeCosts:
    """The price and the time of a judge's replies.

    Attributes:
        usd_per_1000: US dollars for 1,000 rows; ``None`` where a price is unknown.
        seconds_median: Median time of a reply; ``None`` without replies on record.
        seconds_p95: The time that 95 % of the replies stayed below.
    """

    calls: float
    usd_per_1000: float | None
    seconds_median: float | None
    seconds_p95: float | None


@dataclass(frozen=True, slots=True)
class ComparedJudge:
    """One judge beside people.

    Attributes:
        config: Digest of the evaluator's configuration with it.
        agreed: Agreement of passes and fails; ``None`` for numbers.
        error: Mean distance from people's numbers; ``None`` for passes and fails.
        error_low: Lower end of its 95 % interval.
        rank_correlation: Spearman's with people's numbers; not a number for passes and fails.
        unjudged: Labelled rows of which it gave no verdict, by the reason.
    """

    name: str
    model: str
    config: str
    agreed: Agreement | None
    error: float | None
    error_low: float | None
    error_high: float | None
    rank_correlation: float
    unjudged: Mapping[str, int]
    costs: JudgeCosts


@dataclass(frozen=True, slots=True)
class JudgePair:
    """Two judges on the same rows.

    Attributes:
        effect: How much nearer to people the second is: the difference of the accuracies, or of the mean distances.
        low: Lower end of its interval; ``None`` without one.
        test: Which test gave ``p``.
        p: Its two-sided p-value.
        p_adjusted: The same after Holm's correction over all pairs.
        better: The judge that agrees with people more; ``""`` where they are not told apart.
    """

    first: str
    second: str
    effect: float
    low: float | None
    high: float | None
    test: str
    p: float | None
    p_adjusted: float | None
    better: str
    sentence: str


@dataclass(frozen=True, slots=True)
class JudgeComparison:
    """Judges compared by labels.

    Attributes:
        question: ``EVALUATOR.METRIC``, which people answered.
        binary: Whether rows pass or fail; otherwise they have numbers.
        untold: Labelled rows on which people are tied or can't tell.
        missing: Labels whose texts are in no dataset of the store.
        weighted: Whether rows count by the chance with which they were drawn.
        held_out: Whether these are the half on which choices are certified.
        judges: The judges, in the order in which they were named.
    """

    question: str
    binary: bool
    rows: int
    people: int
    untold: int
    missing: int
    weighted: bool
    held_out: bool
    judges: tuple[ComparedJudge, ...]
    pairs: tuple[JudgePair, ...]


def compare_judges(
    judged: Mapping[str, JudgedLabels],
    replies: Mapping[str, Mapping[str, Any]],
    *,
    held_out: bool = False,
    alpha: float = ALPHA,
) -> JudgeComparison:
    """Compare judges on the rows that people and all of them told of.

    Args:
        judged: The same labelled rows, judged by each, by the judges' names.
        replies: What replies cost and how long they took, by the digest of the call.
        held_out: Whether the rows are the half on which choices are certified.
        alpha: The chance with which equal judges may be told apart; intervals of pairs have 1 less it.

    Raises:
        UsageError: People told of too few rows.
        LeadlineError: The judges did.
    """
    first = next(iter(judged.values()))
    binary, labelled = first.judging.metric.is_binary, first.labelled
    labels = labelled.values(binary=binary)
    told = ~np.isnan(labels) & ((labels != TIE) | (not binary))
    values = {name: _values(each) for name, each in judged.items()}
    common = told & np.logical_and.reduce([~np.isnan(each) for each in values.values()])
    if common.sum() < LEAST_ROWS:
        raise _too_few(judged, int(told.sum()), int(common.sum()))
    weights = labelled.weights()[common]
    weights = weights / weights.mean()
    clusters = np.unique(np.array([row.cluster for row in labelled.rows])[common], return_inverse=True)[1]
    metric = first.judging.metric
    rows = _Rows(
        labels[common], weights, clusters.astype(np.int64), binary, 1.0 if binary else metric.high - metric.low
    )
    kept = {name: each[common] for name, each in values.items()}
    pairs = list(combinations(judged, 2))
    measured = [rows.compare(kept[one], kept[other], 1 - alpha) for one, other in pairs]
    adjusted = iter(holm([each.p for each in measured if each.p is not None]))
    people = {label.person for row, used in zip(labelled.rows, common, strict=True) if used for label in row.labels}
    return JudgeComparison(
        question=labelled.question,
        binary=binary,
        rows=int(common.sum()),
        people=len(people),
        untold=int((~told).sum()),
        missing=labelled.missing,
        weighted=not rows.alike,
        held_out=held_out,
        judges=tuple(_judge(name, each, rows, kept[name], replies) for name, each in judged.items()),
        pairs=tuple(
            _pair(one, other, each, None if each.p is None else next(adjusted), alpha, binary=binary)
            for (one, other), each in zip(pairs, measured, strict=True)
        ),
    )


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows on which judges are compared.

    Attributes:
        weights: How many rows each stands for, with a mean of 1.
        clusters: The original of each, counted from 0.
    """

    labels: Floats
    weights: Floats
    clusters: Ints
    binary: bool
    width: float

    @property
    def alike(self) -> bool:
        """True if all rows count the same."""
        return bool(self.weights.max() - self.weights.min() < 1e-9)

    def compare(self, one: Floats, other: Floats, confidence: float) -> PairedResult:
        """Return how much nearer to people the other judge is."""
        nearer = np.abs(self.labels - one) - np.abs(self.labels - other)
        copies = self.clusters if self.clusters.max() + 1 < len(self.clusters) else None
        if self.alike:
            return measure(PairedSeries(nearer, copies, self.width, self.binary), confidence=confidence)
        series = PairedSeries(nearer * self.weights, copies, self.width * float(self.weights.max()))
        return measure(series, confidence=confidence)


def _values(judged: JudgedLabels) -> Floats:
    """Return a judge's values: passes and fails as 1 and 0, not a number where it gave none."""
    metric = judged.judging.metric
    return metric.votes(judged.values()) if metric.is_binary else judged.values()


def _too_few(judged: Mapping[str, JudgedLabels], told: int, common: int) -> LeadlineError:
    """Return the refusal to compare judges on so few rows, which names the first reason."""
    why = next((f" {name}: {reason}" for name, each in judged.items() for reason in each.problems), "")
    what = f"People and all judges told of {count(common, 'row')}; {LEAST_ROWS} are needed."
    if told < LEAST_ROWS:
        return UsageError(what, hint="Label more rows: leadline labels sample", code=ErrorCode.LABEL_SET)
    return LeadlineError(
        f"{what}{why}", hint="The same command asks only for what is missing.", code=ErrorCode.JUDGE_UNAVAILABLE
    )


def _judge(
    name: str, judged: JudgedLabels, rows: _Rows, values: Floats, replies: Mapping[str, Mapping[str, Any]]
) -> ComparedJudge:
    """Return one judge beside people."""
    error = low = high = None
    if not rows.binary:
        apart = np.abs(rows.labels - values)
        error = float(np.average(apart, weights=rows.weights))
        low, high = bootstrap(lambda drawn: float(np.average(apart[drawn], weights=rows.weights[drawn])), rows.clusters)
    return ComparedJudge(
        name=name,
        model=judged.judging.settings.judges[0].model,
        config=judged.judging.job.config,
        agreed=agreement(rows.labels, values, None if rows.alike else rows.weights, rows.clusters)
        if rows.binary
        else None,
        error=error,
        error_low=low,
        error_high=high,
        rank_correlation=math.nan if rows.binary else spearman(rows.labels, values),
        unjudged=judged.problems,
        costs=costs_of((verdict.calls for verdict in judged.verdicts if verdict.value is not None), replies),
    )


def costs_of(calls: Iterable[Sequence[str]], replies: Mapping[str, Mapping[str, Any]]) -> JudgeCosts:
    """Return what replies cost in money and time.

    Args:
        replies: What is on record of them: ``cost_usd`` and ``seconds``, by digest.
    """
    rows = list(calls)
    found = [replies[digest] for row in rows for digest in row if digest in replies]
    seconds = [float(line["seconds"]) for line in found if line["seconds"] is not None]
    prices = [line["cost_usd"] for line in found]
    known = bool(prices) and None not in prices
    median, late = np.quantile(seconds, [0.5, 0.95]).tolist() if seconds else (None, None)
    return JudgeCosts(
        calls=sum(map(len, rows)) / max(1, len(rows)),
        usd_per_1000=1000 * sum(prices) / len(rows) if known else None,
        seconds_median=median,
        seconds_p95=late,
    )


def _pair(
    one: str, other: str, measured: PairedResult, adjusted: float | None, alpha: float, *, binary: bool
) -> JudgePair:
    """Return two judges with the verdict on them."""
    effect = measured.effect or 0.0
    interval = measured.interval
    better = ""
    if adjusted is not None and adjusted < alpha and interval is not None and interval.low * interval.high > 0:
        better = other if effect > 0 else one
    return JudgePair(
        first=one,
        second=other,
        effect=effect,
        low=None if interval is None else interval.low,
        high=None if interval is None else interval.high,
        test=measured.test,
        p=measured.p,
        p_adjusted=adjusted,
        better=better,
        sentence=_sentence(one, other, effect, interval, better, binary=binary),
    )


def _sentence(one: str, other: str, effect: float, interval: Interval | None, better: str, *, binary: bool) -> str:
    """Return the verdict: "strict agrees with people more often than small: +8.0 points (2.1 to 14.0)."."""
    factor = 100 if binary else 1
    sign = -1 if better == one else 1
    ends = sorted(sign * factor * end for end in (interval.low, interval.high)) if interval else []
    digits, unit = (1, " points") if binary else (3, "")
    amount = f"{sign * factor * effect:+.{digits}f}{unit}"
    amount += f" ({ends[0]:.{digits}f} to {ends[1]:.{digits}f})" if ends else ""
    if not better:
        return f"{one} and {other} are not told apart: {other} {amount}."
    worse = other if better == one else one
    if binary:
        return f"{better} agrees with people more often than {worse}: {amount}."
    return f"{better} is nearer to people's numbers than {worse}: by {amount.removeprefix('+')}."
