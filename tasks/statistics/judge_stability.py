"""Statistics of a judge: changes net of its own noise, and tests whether it is still the one that was enrolled.

A judge that disagrees with itself flips although nothing changed. With p and q the chances that it passes a row and its
copy, an observed flip has the chance p(1 - q) + q(1 - p), of which p(1 - p) + q(1 - q) is the judge's own noise. What
is left is (p - q)², the *net* change (the energy distance of Székely and Rizzo 2013 for two coins). Trials of both rows
estimate it without bias; single pairs may be negative and are never clipped.

If nothing changed, the fresh reply to a probe is as likely as any other of its replies to be the odd one out, however
noisy the judge is. That makes the test exact, without any assumption on the judge.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

import numpy as np
import scipy

from leadline.tasks.statistics.statistics import difference, wilson

if TYPE_CHECKING:
    from leadline.tasks.statistics.bounded_mean import Floats, Ints


NetMethod: TypeAlias = Literal["trials", "two-phase", "sub-sample"]
_PERMUTATIONS: Final = 9_999
SEED: Final = 12_011
SUSPICIOUS: Final = 0.01
"""The p-value of a check up to which every probe is asked again, as often as at enrolment."""

CERTAIN: Final = 0.001
"""The p-value of those further replies, on their own, up to which the judge counts as changed."""

POOLED_CHECKS: Final = 4
"""Checks that are also tested together, since a slow drift shows in no single one."""


class PairNoise(NamedTuple):
    """Change and noise of pairs.

    Attributes:
        net: Unbiased estimate of (p - q)² for each pair.
        noise: Share of a row's own trials that disagree, the mean of both rows.
    """

    net: Floats
    noise: Floats


@dataclass(frozen=True, slots=True)
class NetRate:
    """The rate of changes net of the judge's noise.

    Attributes:
        net: Estimate; may be negative.
        low: Lower end of its 95 % interval.
        high: Upper end of its 95 % interval.
        noise: Rate of changes that the judge's noise alone makes.
        repeated: Pairs of which both rows have a second trial.
    """

    net: float
    low: float
    high: float
    noise: float
    method: NetMethod
    repeated: int

    @property
    def changed(self) -> bool:
        """Say whether more changed than the judge's noise explains."""
        return self.low > 0


def pair_noise(originals: Floats, copies: Floats) -> PairNoise:
    """Return change and noise of each pair of rows.

    Args:
        originals: Trials of the originals, pairs by trials: 1 passes, 0 fails, not a number is missing. At least two.
        copies: The same of their copies; the number of trials may be another.
    """

    def of(trials: Floats) -> tuple[Floats, Floats]:
        count, ones = (~np.isnan(trials)).sum(axis=1), np.nansum(trials, axis=1)
        return ones / count, 2 * ones * (count - ones) / (count * (count - 1))

    (p, p_noise), (q, q_noise) = of(originals), of(copies)
    noise = (p_noise + q_noise) / 2
    return PairNoise(p * (1 - q) + q * (1 - p) - noise, noise)


def net_rate(pairs: PairNoise, clusters: Ints, weights: Floats | None = None) -> NetRate | None:
    """Return the mean net change over pairs, with Student's interval over clusters.

    In two phases every pair that flipped at first and a share of the others are judged again; each then counts by the
    reciprocal of its chance (Horvitz and Thompson 1952), so that changes which the first trial missed are not lost.
    Where no pair's change differs from another's, the interval is the rule of three's over what was judged again.

    Args:
        clusters: Number of each pair's original, so that its copies count together.
        weights: In two phases, for how many pairs each stands: 1 for those that flipped, 0 for those that were not
            judged again, whose numbers are not looked at.

    Returns:
        The rate, or ``None`` with fewer than two clusters.
    """
    weight = np.ones(len(pairs.net)) if weights is None else weights
    total, repeated = len(pairs.net), weight > 0
    if not repeated.any():
        return None
    changes, noise = (np.where(repeated, weight * part, 0.0) for part in (pairs.net, pairs.noise))
    _, group = np.unique(clusters, return_inverse=True)
    groups = int(group.max(initial=-1)) + 1
    if groups < 2:
        return None
    net = float(changes.sum()) / total
    sums, sizes = np.bincount(group, changes), np.bincount(group)
    squares = float(((sums - net * sizes) ** 2).sum())
    reach = float(scipy.special.stdtrit(groups - 1, 0.975)) * math.sqrt(squares * groups / (groups - 1)) / total
    if np.ptp(pairs.net[repeated]) == 0:
        reach = 3.0 / len(np.unique(group[repeated]))
    return NetRate(
        net,
        net - reach,
        min(1.0, net + reach),
        float(noise.sum()) / total,
        "trials" if weights is None else "two-phase",
        int(repeated.sum()),
    )


def net_of_sample(flips: float, pairs: float, disagreeing: float, repeated: float) -> NetRate:
    """Return the net rate from single trials and some rows that were judged once more: simple, but wide.

    Args:
        disagreeing: Rows whose two trials differ.
        repeated: Rows that were judged twice, drawn at random from those of the pairs.
    """
    rate, noise = flips / pairs, disagreeing / repeated if repeated else 0.5
    low, high = difference(rate, wilson(rate, pairs), noise, wilson(noise, repeated))
    return NetRate(rate - noise, low, high, noise, "sub-sample", int(repeated))


@dataclass(frozen=True, slots=True)
class Components:
    """The variance of a metric in two parts.

    Attributes:
        between: Variance between rows, beyond what trials explain.
        within: Variance between the trials of a row.
    """

    between: float
    within: float

    def standard_error(self, rows: int, trials: int) -> float:
        """Return the standard error of a mean.

        Args:
            trials: How often each is judged.
        """
        return math.sqrt((self.between + self.within / trials) / rows)

    def best_trials(self, row_cost: float, trial_cost: float) -> float:
        """Return the number of trials that measures a mean best for its money (Cochran 1977, section 10.6).

        Args:
            row_cost: What one more row costs, without judging it.
        """
        return math.sqrt(self.within / self.between * row_cost / trial_cost) if self.between > 0 else math.inf


class Drift(NamedTuple):
    """The outcome of a test.

    Attributes:
        p: Chance of so much difference if nothing changed.
        statistic: The difference between fresh and enrolled replies: pairs that differ, or a sum of distances.
        expected: What it would be on average if nothing changed.
    """

    p: float
    statistic: float
    expected: float


def verdict_drift(enrolled: Ints, fresh: Ints) -> Drift:
    """Test whether verdicts changed.

    The statistic counts pairs of a fresh and an enrolled reply of one probe that differ. Of the b ones among a probe's
    K + f replies, the number among the fresh ones is hypergeometric; the probes' distributions are convolved.

    Args:
        enrolled: Verdicts of 0 and 1, probes by K replies.
        fresh: One new verdict for each probe, or probes by f replies.
    """
    fresh = fresh.reshape(len(enrolled), -1)
    old, new = enrolled.shape[1], fresh.shape[1]
    old_ones, new_ones = enrolled.sum(axis=1), fresh.sum(axis=1)
    differing = int((new_ones * (old - old_ones) + (new - new_ones) * old_ones).sum())
    chances, expected = np.ones(1), 0.0
    for ones in (old_ones + new_ones).tolist():
        if ones in (0, old + new):
            continue
        probe, mean = _differing_of_probe(ones, old, new)
        chances = np.convolve(chances, probe)
        expected += mean
    p = float(min(1.0, chances[differing:].sum())) if differing else 1.0
    return Drift(p, float(differing), expected)


@cache
def _differing_of_probe(ones: int, old: int, new: int) -> tuple[Floats, float]:
    """Return the chances of 0, 1, 2, … differing pairs of a probe if nothing changed, and their mean."""
    hits = range(max(0, ones - old), min(ones, new) + 1)
    counts = np.array([hit * (old - ones + hit) + (new - hit) * (ones - hit) for hit in hits])
    ways = [math.comb(ones, hit) * math.comb(old + new - ones, new - hit) for hit in hits]
    chances = np.array([way / math.comb(old + new, new) for way in ways])
    return np.bincount(counts, chances, minlength=1).astype(float), float(counts @ chances)


def value_drift(enrolled: Floats, fresh: Floats, *, permutations: int = _PERMUTATIONS) -> Drift:
    """Test whether numbers changed, by permuting the replies of each probe.

    The statistic is the sum over the probes of the distance between the mean of the fresh values and that of the
    enrolled ones.

    Args:
        enrolled: Values, probes by K replies.
        fresh: One new value for each probe, or probes by f replies.
    """
    together = np.column_stack([fresh, enrolled])
    probes, replies = together.shape
    new = replies - enrolled.shape[1]
    sums = together.sum(axis=1)

    def distance(ones: Floats) -> Floats:
        return np.asarray(np.abs(ones / new - (sums - ones) / (replies - new)))

    seen = float(distance(together[:, :new].sum(axis=1)).sum())
    draw = np.random.default_rng(SEED)
    drawn = np.empty(permutations)
    for number in range(permutations):
        if new == 1:
            ones = together[np.arange(probes), draw.integers(0, replies, probes)]
        else:
            ones = draw.permuted(together, axis=1)[:, :new].sum(axis=1)
        drawn[number] = distance(ones).sum()
    as_far = int((drawn >= seen - 1e-12 * max(1.0, seen)).sum())
    return Drift((1 + as_far) / (1 + permutations), seen, float(drawn.mean()))
