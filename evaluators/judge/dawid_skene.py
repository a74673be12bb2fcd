"""The model of Dawid and Skene: how often each of several judges is right, and what their votes say together.

Each judge passes a good answer with one chance and fails a bad one with another; given the truth, judges err
independently. The chances are learned from rows with labels, which count as certain, and from rows without by EM.

Source: Dawid and Skene, "Maximum Likelihood Estimation of Observer Error-Rates Using the EM Algorithm", Applied
Statistics 28 (1979).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats: TypeAlias = npt.NDArray[np.float64]

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
