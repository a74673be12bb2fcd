"""A jury: several judges score a row each, and what they say becomes one score.

Where rows pass or fail, the jury chooses a side, and the row's other metrics are those of the judges on that side, so
that they fit together. Of numbers it takes the median, or a mean. If fewer than more than half of the judges gave a
verdict, or they are tied, the row is unscored: the instrument did not decide.

Votes may be weighed by the model of Dawid and Skene: each judge passes a good answer with one chance and fails a bad
one with another; given the truth, judges err independently. The chances are learned by EM from rows with labels, which
count as certain, and from rows without ("Maximum Likelihood Estimation of Observer Error-Rates Using the EM
Algorithm", Applied Statistics 28, 1979).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from leadline.evaluators.core import Metric
from leadline.evaluators.data import Evidence, Json, NotApplicable, Reason, Row, RowScore, Unscored
from leadline.evaluators.settings import JuryConfig, MetricWeights

if TYPE_CHECKING:
    import numpy.typing as npt

    from leadline.evaluators.core import EvalContext, Evaluator

    Floats: TypeAlias = npt.NDArray[np.float64]

Settle: TypeAlias = Callable[[RowScore, Sequence[RowScore]], RowScore]
"""Completes a jury's score of a row from those of the judges that gave a verdict."""


def score_by_jury(
    evaluator: Evaluator, rows: Sequence[Row], ctx: EvalContext, jury: JuryConfig, settle: Settle
) -> list[RowScore]:
    """Let every judge of a jury score rows, all at the same time, and return the jury's scores.

    Args:
        evaluator: The evaluator, which asks each judge by itself.
        ctx: What the process has loaded, and the run's settings.
        settle: Completes each row's score with what only the evaluator can combine.
    """
    with ThreadPoolExecutor(len(jury.members), thread_name_prefix="leadline-jury") as threads:
        asked = [
            threads.submit(copy_context().run, evaluator.score, rows, ctx.asking(member)) for member in jury.members
        ]
        scored = [future.result() for future in asked]
    panel = Panel.of(evaluator, jury)
    plain = [[_plain(score) for score in scores] for scores in zip(*scored, strict=True)]
    return [settle(panel.combine(scores), [each for each in scores if panel.voted(each)]) for scores in plain]


def _plain(score: RowScore) -> RowScore:
    """Return a score with all numbers as floats: evaluators may give truth values and NumPy's numbers."""
    kept = {
        key: value if isinstance(value, Unscored | NotApplicable) else float(value)
        for key, value in score.values.items()
    }
    return replace(score, values=kept)


class JuryChoice(NamedTuple):
    """The side that a jury takes.

    Attributes:
        passes: Whether the row passes; ``None`` for a tie.
        good: The chance that it is good, where the judges' error rates are known.
    """

    passes: bool | None
    good: float | None = None


def choose_side(votes: Sequence[bool | None], names: Sequence[str], weights: MetricWeights | None) -> JuryChoice:
    """Return the side that a jury takes: the majority's, or the likelier one by what is known of its judges.

    A side that no judge took is not taken.

    Args:
        votes: Whether each judge passes the row, ``None`` for no verdict.
        names: The judges' names.
        weights: What labels taught of them; ``None`` where all count the same.
    """
    given = [vote for vote in votes if vote is not None]
    good = None
    if weights is not None and weights.good is not None:
        rates = [_rates(weights, name) for name in names]
        odds = log_odds([None if vote is None else float(vote) for vote in votes], rates, weights.good)
        good, lead = probability(odds), odds
    else:
        lead = float(2 * sum(given) - len(given))
    if len(set(given)) == 1:
        return JuryChoice(given[0], good)
    return JuryChoice(None if lead == 0 or not given else lead > 0, good)


def _rates(weights: MetricWeights, name: str) -> Rates:
    own = weights.of(name)
    return Rates(own.passes or 0.5, own.catches or 0.5)


@dataclass(frozen=True, slots=True)
class Panel:
    """A jury on the metrics of one evaluator.

    Attributes:
        metrics: The evaluator's metrics that rows have values of.
        decisive: The metric in which the jury takes sides: the one with labels, or the primary one.
        weights: What labels taught of the judges in it.
    """

    jury: JuryConfig
    metrics: tuple[Metric, ...]
    decisive: Metric
    weights: MetricWeights | None

    @classmethod
    def of(cls, evaluator: Evaluator, jury: JuryConfig) -> Panel:
        """Return a jury on the metrics of an evaluator."""
        metrics = tuple(metric for metric in evaluator.metrics if not metric.dataset_level)
        weights = jury.weights_for(evaluator.spec.id)
        primary = next((metric for metric in metrics if metric.primary), metrics[0])
        labelled = weights.metric.rpartition(".")[2] if weights else primary.key
        decisive = next((metric for metric in metrics if metric.key == labelled), primary)
        return cls(jury, metrics, decisive, weights if decisive.key == labelled else None)

    def combine(self, scores: Sequence[RowScore]) -> RowScore:
        """Return the jury's score of a row.

        Args:
            scores: The score of each judge, in the jury's order.
        """
        values = [score.values[self.decisive.key] for score in scores]
        voters = [place for place, value in enumerate(values) if isinstance(value, float)]
        beside = [place for place, value in enumerate(values) if isinstance(value, NotApplicable)]
        if len(beside) >= self.jury.quorum:
            return self._traced(scores[beside[0]], scores, {})
        if len(voters) < self.jury.quorum:
            return self._without_quorum(scores, len(voters))
        return self._by_sides(scores, values) if self.decisive.share else self._by_numbers(scores, voters)

    def voted(self, score: RowScore) -> bool:
        """Return whether a judge gave a verdict."""
        return isinstance(score.values[self.decisive.key], float)

    def _by_sides(self, scores: Sequence[RowScore], values: Sequence[object]) -> RowScore:
        """Return the score of the side that the jury takes."""
        best = 1.0 if self.decisive.higher_is_better else 0.0
        votes = [value == best if isinstance(value, float) else None for value in values]
        side = choose_side(votes, [member.key for member in self.jury.members], self.weights)
        given = [vote for vote in votes if vote is not None]
        if side.passes is None:
            return self._tied(scores, sum(given), len(given))
        winners = [place for place, vote in enumerate(votes) if vote == side.passes]
        own = [scores[place] for place in winners]
        combined = {metric.key: self._of_winners(metric, own) for metric in self.metrics}
        data: dict[str, Json] = {"disagreement": 1 - len(winners) / len(given)}
        if side.good is not None:
            data["chance_good"] = side.good
        return self._traced(replace(own[0], values=combined), scores, data)

    def _of_winners(self, metric: Metric, winners: Sequence[RowScore]) -> float | Unscored | NotApplicable:
        """Return one metric of the judges that took the jury's side."""
        numbers = [value for score in winners if isinstance(value := score.values[metric.key], float)]
        if not numbers:
            return winners[0].values[metric.key]
        if not metric.share:
            return self._number(numbers)
        ones = sum(value == 1 for value in numbers)
        return float(2 * ones > len(numbers))

    def _number(self, values: Sequence[float]) -> float:
        """Return the median of numbers for a majority, else their mean."""
        return float(statistics.median(values) if self.jury.combine == "majority" else statistics.fmean(values))

    def _by_numbers(self, scores: Sequence[RowScore], voters: Sequence[int]) -> RowScore:
        """Return the score with the median or the mean of each metric, explained by the judge that is nearest to it."""
        combined: dict[str, float | Unscored | NotApplicable] = {}
        for metric in self.metrics:
            found = {place: value for place in voters if isinstance(value := scores[place].values[metric.key], float)}
            if not found:
                combined[metric.key] = scores[voters[0]].values[metric.key]
            elif metric.share:
                combined[metric.key] = self._of_winners(metric, [scores[place] for place in found])
            else:
                combined[metric.key] = self._mean(metric, found)
        middle = combined[self.decisive.key]
        own = {place: value for place in voters if isinstance(value := scores[place].values[self.decisive.key], float)}
        nearest = min(voters, key=lambda place: abs(own[place] - middle) if isinstance(middle, float) else 0.0)
        data: dict[str, Json] = {"disagreement": max(own.values()) - min(own.values())}
        return self._traced(replace(scores[nearest], values=combined), scores, data)

    def _mean(self, metric: Metric, found: Mapping[int, float]) -> float:
        """Return one number of those that judges gave."""
        if self.weights is None or self.weights.good is not None or metric.key != self.decisive.key:
            return self._number(list(found.values()))
        names = {place: self.jury.members[place].key for place in found}
        weights = {place: self.weights.of(names[place]).weight or 0.0 for place in found}
        middle = statistics.fmean(found.values(), weights.values())
        return min(max(middle, min(found.values())), max(found.values()))  # rounding leaves no range

    def _tied(self, scores: Sequence[RowScore], passing: int, voters: int) -> RowScore:
        """Return a row on which the jury is tied: for good if all voted, else until the others can be asked."""
        why = f"The judges are tied, {passing} of {voters} pass the row."
        missing = [score.values[self.decisive.key] for score in scores]
        reasons = [value.reason for value in missing if isinstance(value, Unscored)]
        keys = tuple(metric.key for metric in self.metrics)
        score = RowScore.unscored(keys, reasons[0] if reasons else Reason.UNSCORABLE, why)
        return self._traced(score, scores, {"disagreement": min(passing, voters - passing) / voters})

    def _without_quorum(self, scores: Sequence[RowScore], voters: int) -> RowScore:
        """Return a row of which too few judges gave a verdict, with the reason of one that can be asked again."""
        failed = [
            (value.reason is Reason.UNSCORABLE, place, value)
            for place, score in enumerate(scores)
            if isinstance(value := score.values[self.decisive.key], Unscored)
        ]
        if not failed:  # judges differ on whether the metric applies to the row
            return self._tied(scores, 0, max(1, voters))
        _, place, first = min(failed, key=lambda each: each[:2])
        told = f"{voters} of {len(scores)} judges gave a verdict. {self.jury.members[place].key}: {first.message}"
        values = {
            key: Unscored(value.reason, told) if isinstance(value, Unscored) else value
            for key, value in scores[place].values.items()
        }
        return self._traced(replace(scores[place], values=values), scores, {})

    def _traced(self, score: RowScore, scores: Sequence[RowScore], more: Mapping[str, Json]) -> RowScore:
        """Return a score whose evidence names each judge's verdict with its calls."""
        jury: dict[str, Json] = {}
        calls: list[Json] = []
        for member, each in zip(self.jury.members, scores, strict=True):
            value = each.values[self.decisive.key]
            own = each.evidence.data.get("calls", ())
            told: dict[str, Json] = {"calls": own}
            if isinstance(value, float):
                told["value"] = value
            elif isinstance(value, Unscored):
                told["problem"] = f"{value.reason.value}: {value.message}"
            jury[member.key] = told
            calls += own if isinstance(own, list | tuple) else ()
        data = {**score.evidence.data, "jury": jury, **more, "calls": calls}
        return replace(score, evidence=Evidence(score.evidence.message, score.evidence.spans, data))


SMOOTHING: Final = 1.0
"""Rows of each kind that are added to every count, right and wrong alike: few labels prove nobody infallible."""
MOST_STEPS: Final = 1_000
CLOSE: Final = 1e-10


class Rates(NamedTuple):
    """The chances of one judge.

    Attributes:
        passes: The chance that it passes a good answer, in (0, 1).
        catches: The chance that it fails a bad answer, in (0, 1).
    """

    passes: float
    catches: float


@dataclass(frozen=True, slots=True)
class Fit:
    """The chances of several judges, as votes and labels show them.

    Attributes:
        good: Share of good answers, in (0, 1).
        rates: The chances of each judge.
        posterior: The chance that each row is good; 0 or 1 where it has a label.
    """

    good: float
    rates: tuple[Rates, ...]
    posterior: Floats


def log_odds(votes: Sequence[float | None], rates: Sequence[Rates], good: float) -> float:
    """Return the logarithm of the odds that a row is good, given the votes of its judges.

    Args:
        votes: 1 for passing and 0 for failing the row, ``None`` for no vote.
        rates: The chances of each judge.
        good: Share of good answers.
    """
    parts = [math.log(good) - math.log1p(-good)]
    for vote, rate in zip(votes, rates, strict=True):
        if vote is not None:
            parts.append(
                math.log(rate.passes) - math.log1p(-rate.catches)
                if vote
                else math.log1p(-rate.passes) - math.log(rate.catches)
            )
    return math.fsum(parts)  # in any order the same


def probability(odds: float) -> float:
    """Return the probability that a logarithm of odds stands for."""
    return 1 / (1 + math.exp(-odds)) if odds >= 0 else math.exp(odds) / (1 + math.exp(odds))


def fit(votes: Floats, labels: Floats, stands_for: Floats | None = None) -> Fit:
    """Learn how often judges are right.

    With a label for every row this is counting; rows without one count by what the judges' votes make of them.

    Args:
        votes: A row for each judge, a column for each answer: 1 for passing, 0 for failing, not a number for no vote.
        labels: 1 for good and 0 for bad, not a number where there is no label.
        stands_for: How many rows each answer stands for, with a mean of about 1; all alike when left out.
    """
    weights = np.ones(len(labels)) if stands_for is None else stands_for

    known = ~np.isnan(labels)
    voted = ~np.isnan(votes)
    passed = np.where(voted, votes, 0.0)
    share = passed.sum(axis=0) / np.maximum(1, voted.sum(axis=0))
    good = np.where(known, labels, np.where(voted.any(axis=0), share, 0.5))
    prior: float = 0.5
    rates: tuple[Rates, ...] = ()
    for _ in range(MOST_STEPS):
        rows_good, rows_bad = good * weights, (1 - good) * weights
        prior = float((rows_good.sum() + SMOOTHING) / (weights.sum() + 2 * SMOOTHING))
        rates = tuple(
            Rates(
                float(((rows_good * one)[has].sum() + SMOOTHING) / (rows_good[has].sum() + 2 * SMOOTHING)),
                float(((rows_bad * (1 - one))[has].sum() + SMOOTHING) / (rows_bad[has].sum() + 2 * SMOOTHING)),
            )
            for one, has in zip(passed, voted, strict=True)
        )
        found = good.copy()
        for place in np.flatnonzero(~known):
            row = [float(vote) if has else None for vote, has in zip(votes[:, place], voted[:, place], strict=True)]
            found[place] = probability(log_odds(row, rates, prior))
        moved = float(np.abs(found - good).max(initial=0.0))
        good = found
        if moved < CLOSE:
            break
    return Fit(prior, rates, good)
