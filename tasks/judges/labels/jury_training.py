"""Learning the weights of a jury's judges from labels, and how good the jury is on the labels left aside."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from leadline.evaluators.ground import ErrorCode, UsageError, count
from leadline.evaluators.judge.jury import choose_side, fit
from leadline.evaluators.settings import JuryConfig, MemberWeight, MetricWeights
from leadline.evaluators.text.sentences import without_surrogates
from leadline.tasks.judges.labels.judged_rows import JudgedMetric
from leadline.tasks.judges.labels.judging import JudgedLabels
from leadline.tasks.judges.labels.labelled_rows import LabelledRows
from leadline.tasks.load.label import TIE
from leadline.tasks.statistics.agreement import agreement

if TYPE_CHECKING:
    from leadline.tasks.statistics.bounded_mean import Booleans, Floats, Ints


LEAST_ROWS: Final = 20
"""Labelled rows below which nothing is learned."""
LEAST_OF_CLASS: Final = 5
"""Good rows, and bad ones, below which nothing is learned of passes and fails."""
LEAST_ERROR: Final = 1e-4
"""Mean squared error below which a judge is not held to be better, as a share of the metric's squared range."""
DIGITS: Final = 4

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Agreement with people on rows that nothing was learned from.

    Attributes:
        name: A judge, or a way to combine all of them.
        value: Share of rows on which it agrees with people; of numbers the mean distance from theirs.
        low: Lower end of the share's 95 % interval; ``None`` for numbers.
    """

    name: str
    value: float
    low: float | None
    high: float | None
    rows: int


class _Said(NamedTuple):
    """Labels of rows, how many rows each of these stands for, and its original, which its copies share."""

    labels: Floats
    stands_for: Floats
    clusters: Ints


@dataclass(frozen=True, slots=True)
class TrainedJury:
    """A jury with the weights that labels teach.

    Attributes:
        question: ``EVALUATOR.METRIC``, which people answered.
        held_out: How good judges and jury are on the other rows; empty where all were learned from.
        toml: The jury's tables for ``leadline.toml``.
    """

    question: str
    rows: int
    weights: MetricWeights
    held_out: tuple[HeldOut, ...]
    binary: bool
    toml: str
    jury: str

    @property
    def advice(self) -> str:
        """The advice on the weights: they replace a plain majority where they are surely better on held-out rows."""
        measured = {each.name: each for each in self.held_out}
        learned, plain = measured.get("dawid-skene"), measured.get("majority")
        if learned is None or plain is None:
            return "Nothing was held out to tell whether these weights are better than a majority:"
        if learned.low is not None and plain.high is not None and learned.low > plain.high:
            return f"Write this in place of [judges.{self.jury}]:"
        return "Keep what you have: these weights are not told apart from a majority. They would be:"


def train_jury(jury: JuryConfig, judged: Mapping[str, JudgedLabels], *, everything: bool = False) -> TrainedJury:
    """Learn the weights of a jury's judges: error rates where rows pass or fail, shares of a mean for numbers.

    Args:
        judged: The same labelled rows, judged by each of its judges, by their names.
        everything: Learn from all rows; else the half on which choices are certified is left aside, and measured on.

    Raises:
        UsageError: There are too few labels, or a judge that passes good answers no more often than bad ones.
    """
    first = next(iter(judged.values()))
    metric, labelled = first.judging.metric, first.labelled
    names = [member.key for member in jury.members]
    binary = first.judging.metric.is_binary
    if not metric.is_share and not math.isfinite(metric.high - metric.low):
        raise UsageError(
            f"The values of {labelled.question} have no bounds, so that errors have no scale and teach no weights.",
            hint='Use combine = "majority", which takes the median.',
            code=ErrorCode.LABEL_SET,
        )
    values = np.array([judged[name].values() for name in names])
    labels = labelled.values(binary=binary)
    if binary:
        labels = np.where(labels == TIE, math.nan, labels)
    aside = np.array([not everything and row.held_out for row in labelled.rows], dtype=bool)
    used = ~aside & (~np.isnan(values)).any(axis=0)
    told, tested = used & ~np.isnan(labels), aside & ~np.isnan(labels)
    _require(labels[told], binary=binary, everything=everything)
    stands_for = _stands_for(labelled, aside)
    clusters = np.array([row.cluster for row in labelled.rows], dtype=np.int64)
    said = _Said(labels[tested], stands_for[tested], clusters[tested])
    if metric.is_share:
        votes = metric.votes(values)
        weights = _rates(labelled.question, names, votes[:, used], labels[used], stands_for[used])
        held_out = _measure_sides(names, votes[:, tested], said, weights)
    else:
        errors = _errors(metric, values[:, told], labels[told], binary=binary)
        weights = _shares(labelled.question, names, errors, stands_for[told])
        passing = metric if binary else None
        held_out = _measure_numbers(names, values[:, tested], said, weights, passing)
    return TrainedJury(
        question=labelled.question,
        rows=int(told.sum()),
        weights=weights,
        held_out=tuple(held_out) if tested.any() else (),
        binary=binary,
        toml=toml_of(jury, weights),
        jury=jury.key,
    )


def _stands_for(labelled: LabelledRows, aside: Booleans) -> Floats:
    """Return how many rows each labelled one stands for by the chance with which it was drawn, each part by itself."""
    found = np.ones(len(aside))
    for part in (aside, ~aside):
        rows = tuple(row for row, chosen in zip(labelled.rows, part.tolist(), strict=True) if chosen)
        found[part] = replace(labelled, rows=rows).weights()
    return found


def _errors(metric: JudgedMetric, values: Floats, labels: Floats, *, binary: bool) -> Floats:
    """Return squared errors as shares of the range; against passes and fails they are those of Brier (1950)."""
    scaled = (values - metric.low) / (metric.high - metric.low)
    if not binary:
        wrong: Floats = scaled - (labels - metric.low) / (metric.high - metric.low)
    else:
        wrong = (scaled if metric.higher_is_better else 1 - scaled) - labels
    return wrong**2


def _require(labels: Floats, *, binary: bool, everything: bool) -> None:
    """Refuse to learn from too few labels."""
    good = int((labels == 1).sum())
    rarest = min(good, len(labels) - good)
    if len(labels) < LEAST_ROWS or (binary and rarest < LEAST_OF_CLASS):
        found = f"{count(len(labels), 'label')}" + (f", {rarest} of the rarer kind" if binary else "")
        raise UsageError(
            f"A jury learns from {LEAST_ROWS} labels and at least {LEAST_OF_CLASS} of a kind; there are {found}.",
            hint="Label more rows" + (": leadline labels sample" if everything else ", or learn from all: --all"),
            code=ErrorCode.LABEL_SET,
        )


def _rates(question: str, names: Sequence[str], votes: Floats, labels: Floats, stands_for: Floats) -> MetricWeights:
    """Return the error rates of judges."""
    found = fit(votes, labels, stands_for)
    for name, rates in zip(names, found.rates, strict=True):
        if rates.passes + rates.catches <= 1:
            raise UsageError(
                f"The judge {name!r} passes good answers no more often than bad ones.",
                hint="Leave it out of the jury.",
                code=ErrorCode.JUDGE_CONFIG,
            )
    members = tuple(
        MemberWeight(member=name, passes=round(rates.passes, DIGITS), catches=round(rates.catches, DIGITS))
        for name, rates in zip(names, found.rates, strict=True)
    )
    return MetricWeights(metric=question, good=round(found.good, DIGITS), members=members)


def _shares(question: str, names: Sequence[str], errors: Floats, stands_for: Floats) -> MetricWeights:
    """Return weights in inverse proportion to the mean squared errors of judges (Bates and Granger 1969)."""
    known = ~np.isnan(errors)
    rows = (known * stands_for).sum(axis=1)
    means = (np.where(known, errors, 0.0) * stands_for).sum(axis=1) / np.where(rows > 0, rows, 1.0)
    inverse = 1 / np.maximum(np.where(rows > 0, means, 1.0), LEAST_ERROR)
    shares = np.maximum(inverse / inverse.sum(), 10.0**-DIGITS)
    members = tuple(
        MemberWeight(member=name, weight=round(float(share), DIGITS)) for name, share in zip(names, shares, strict=True)
    )
    return MetricWeights(metric=question, good=None, members=members)


def _measure_sides(names: Sequence[str], votes: Floats, said: _Said, weights: MetricWeights) -> list[HeldOut]:
    """Return how often judges and jury agree with people."""
    rows = [[None if math.isnan(vote) else bool(vote) for vote in column] for column in votes.T.tolist()]
    quorum = len(names) // 2 + 1
    sides: dict[str, list[bool | None]] = {name: [row[place] for row in rows] for place, name in enumerate(names)}
    for how, known in (("majority", None), ("dawid-skene", weights)):
        sides[how] = [
            choose_side(row, names, known).passes if sum(vote is not None for vote in row) >= quorum else None
            for row in rows
        ]
    return [_agreement(name, taken, said) for name, taken in sides.items()]


def _agreement(name: str, taken: Sequence[bool | None], said: _Said) -> HeldOut:
    """Return the share of rows on which a side was taken that people took as well."""
    sides = np.array([math.nan if side is None else float(side) for side in taken])
    decided = ~np.isnan(sides)
    if not decided.any():
        return HeldOut(name, math.nan, 0.0, 1.0, 0)
    labels, weights, clusters = (part[decided] for part in said)
    found = agreement(labels, sides[decided], weights, clusters).accuracy
    return HeldOut(name, found.value, found.low, found.high, int(decided.sum()))


def _measure_numbers(
    names: Sequence[str], values: Floats, said: _Said, weights: MetricWeights, passing: JudgedMetric | None
) -> list[HeldOut]:
    """Return how far judges and jury are from people's numbers, or how often they pass what people pass."""
    own = [weights.of(name).weight or 0.0 for name in names]
    numbers: dict[str, list[float]] = {name: values[place].tolist() for place, name in enumerate(names)}
    for how in ("majority", "mean", "dawid-skene"):
        numbers[how] = [_number(column, own, how) for column in values.T.tolist()]
    found = []
    for name, given in numbers.items():
        if passing is not None:
            votes = passing.votes(np.array(given, dtype=float)).tolist()
            found.append(_agreement(name, [None if math.isnan(vote) else bool(vote) for vote in votes], said))
            continue
        decided = ~np.isnan(given)
        apart = np.abs(np.array(given) - said.labels)[decided].tolist()
        error = fmean(apart, said.stands_for[decided].tolist()) if apart else math.nan
        found.append(HeldOut(name, error, None, None, len(apart)))
    return found


def _number(values: Sequence[float], weights: Sequence[float], how: str) -> float:
    """Return what a jury makes of numbers."""
    given = [(value, weight) for value, weight in zip(values, weights, strict=True) if not math.isnan(value)]
    if 2 * len(given) <= len(values):
        return math.nan
    if how == "majority":
        return median(value for value, _ in given)
    return fmean((value for value, _ in given), [weight for _, weight in given] if how == "dawid-skene" else None)


def toml_of(jury: JuryConfig, learned: MetricWeights) -> str:
    """Return the tables of a jury with its weights, those of other metrics included."""
    name = toml_key(jury.key)
    lines = [
        f"[judges.{name}]",
        f"jury = {json.dumps([member.key for member in jury.members], ensure_ascii=False)}",
        'combine = "dawid-skene"',
    ]
    others = [each for each in jury.weights if each.metric.rpartition(".")[0] != learned.metric.rpartition(".")[0]]
    for each in sorted((*others, learned), key=lambda weights: weights.metric):
        lines += ["", f"[judges.{name}.weights.{toml_key(each.metric)}]"]
        lines += [f"good = {each.good}"] if each.good is not None else []
        lines += [f"judges.{toml_key(own.member)} = {_value(own)}" for own in each.members]
    return "\n".join(lines) + "\n"


_SHORT: Final = {"\n": "\\n", '"': '\\"', "\\": "\\\\"}


def toml_key(name: str) -> str:
    """Return a name as a key of TOML."""
    return name if _BARE.fullmatch(name) else toml_text(name)


def toml_text(text: str) -> str:
    """Return any text as a string of TOML, in a line and without characters that a terminal would obey."""
    plain = (
        _SHORT.get(each) or (each if each.isprintable() else f"\\U{ord(each):08x}") for each in without_surrogates(text)
    )
    return f'"{"".join(plain)}"'


def _value(own: MemberWeight) -> str:
    return str(own.weight) if own.weight is not None else f"{{ passes = {own.passes}, catches = {own.catches} }}"
