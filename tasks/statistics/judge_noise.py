"""Changes net of the judge's own noise.

A judge that disagrees with itself flips although nothing changed. With p and q the chances that it passes a row and its
copy, an observed flip has the chance p(1 - q) + q(1 - p), of which p(1 - p) + q(1 - q) is the judge's own noise. What
is left is (p - q)², the *net* change (the energy distance of Székely and Rizzo 2013 for two coins). Trials of both rows
estimate it without bias; single pairs may be negative and are never clipped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np

from leadline.tasks.statistics.intervals import difference, wilson

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats: TypeAlias = npt.NDArray[np.float64]
    Ints: TypeAlias = npt.NDArray[np.int64]

NetMethod: TypeAlias = Literal["trials", "two-phase", "sub-sample"]


class PairNoise(NamedTuple):
    """Change and noise of pairs.

    Attributes:
        net: Unbiased estimate of (p - q)² for each pair.
        crosswise: Share of the trials of both rows that disagree.
        noise: Share of a row's own trials that disagree, the mean of both rows.
    """

    net: Floats
    crosswise: Floats
    noise: Floats


@dataclass(frozen=True, slots=True)
class NetRate:
    """The rate of changes net of the judge's noise.

    Attributes:
        net: Estimate; may be negative.
        low: Lower end of its 95 % interval.
        high: Upper end of its 95 % interval.
        noise: Rate of changes that the judge's noise alone makes.
        method: How it was estimated.
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
    crosswise, noise = p * (1 - q) + q * (1 - p), (p_noise + q_noise) / 2
    return PairNoise(crosswise - noise, crosswise, noise)


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
    from scipy.special import stdtrit

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
    reach = float(stdtrit(groups - 1, 0.975)) * math.sqrt(squares * groups / (groups - 1)) / total
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
        flips: Pairs that flipped.
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
            rows: Number of rows.
            trials: How often each is judged.
        """
        return math.sqrt((self.between + self.within / trials) / rows)

    def best_trials(self, row_cost: float, trial_cost: float) -> float:
        """Return the number of trials that measures a mean best for its money (Cochran 1977, section 10.6).

        Args:
            row_cost: What one more row costs, without judging it.
            trial_cost: What judging a row once costs.
        """
        return math.sqrt(self.within / self.between * row_cost / trial_cost) if self.between > 0 else math.inf


def components(trials: Floats) -> Components:
    """Return the components of variance of rows that were judged equally often.

    Args:
        trials: Values, rows by trials, at least two of each.
    """
    within = float(trials.var(axis=1, ddof=1).mean())
    between = float(trials.mean(axis=1).var(ddof=1)) - within / trials.shape[1]
    return Components(max(0.0, between), within)
