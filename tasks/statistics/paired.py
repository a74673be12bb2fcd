"""Paired statistics of one metric: effect, interval, test, and the number of cases a comparison needs.

Differences are the candidate's value less the baseline's, turned so that positive is better. Cases that are perturbed
copies of one original form a cluster; clusters, not rows, are independent.

References:
    * Fisher, "The Design of Experiments" (1935), section 21: the sign-flip permutation test.
    * Phipson and Smyth, "Permutation p-values should never be zero", Stat. Appl. Genet. Mol. Biol. 9 (2010).
    * McNemar, "Note on the sampling error of the difference between correlated proportions", Psychometrika 12 (1947).
    * Bloom, "Minimum detectable effects", Evaluation Review 19 (1995).
    * Tango, "Equivalence test and confidence interval for the difference in proportions for the paired-sample design",
      Statistics in Medicine 17 (1998), 891-908.
    * Connor, "Sample size for testing differences in proportions for the paired-sample design", Biometrics 43 (1987).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Final

import numpy as np
import scipy

from leadline.tasks.statistics.bounded_mean import CONFIDENCE, TAIL, UNSEEN, Mean, mean_of_clusters
from leadline.tasks.statistics.statistics import Interval

if TYPE_CHECKING:
    import numpy.typing as npt

    from leadline.tasks.statistics.bounded_mean import Floats, Ints


EXACT: Final = 16
"""Up to so many clusters that differ, all 2^n sign flips are counted."""
FLIPS: Final = 9_999
"""Sign flips drawn where not all are counted."""
MOST_CLUSTERS: Final = 5_000
"""With more clusters that differ the test is Student's: drawn sign flips give the same answer, more slowly."""
SEED: Final = 20240601
_BLOCK: Final = 4_000_000  # signs in memory at a time: 16 MB as float32
_POWER: Final = 0.8
_MOST: Final = 100_000_000
_DRAWS: Final = 500
_DOUBT: Final = 0.5
"""By how many standard errors the effect seen is taken to be off."""


@dataclass(frozen=True, slots=True)
class PairedSeries:
    """The differences of one metric between two models.

    Attributes:
        differences: One per pair, positive is better; infinite where one value is.
        clusters: The cluster of each pair, counted from 0 without gaps; ``None`` when every pair stands alone.
        width: Width of the metric's range, may be infinite.
        binary: Whether both values of every pair are 0 or 1.
    """

    differences: Floats
    clusters: Ints | None = None
    width: float = math.inf
    binary: bool = False


@dataclass(frozen=True, slots=True)
class PairedResult:
    """The measurement of a series.

    Attributes:
        effect: Mean difference; ``None`` where infinite differences of both signs meet.
        error: Standard error of the effect; 0 without spread, ``None`` without an interval.
        interval: 95 % interval of the effect.
        test: Which test gave ``p``.
        p: Two-sided p-value of "no difference".
        mean: The effect with what its interval depends on, where it is that of a mean.
    """

    n: int
    groups: int
    effect: float | None
    error: float | None
    interval: Interval | None
    test: str
    p: float | None
    wins: int
    losses: int
    mean: Mean | None = None
    confidence: float = CONFIDENCE


def measure(series: PairedSeries, *, flips: int = FLIPS, confidence: float = CONFIDENCE) -> PairedResult:
    """Measure a series of at least one pair.

    * Pairs of 0 or 1 without copies: Tango's score interval and McNemar's exact test.
    * Other finite pairs: the interval of a mean (:mod:`leadline.tasks.statistics.bounded_mean`) whose range is that of
      a difference, and the sign-flip test of clusters.
    * Infinite differences: no interval, the exact sign test.

    Args:
        flips: Sign flips to draw where there are too many to count.
    """
    values = series.differences
    wins, losses = int((values > 0).sum()), int((values < 0).sum())
    if not np.isfinite(values).all():
        return _compare_infinite(series, wins, losses)
    if series.binary and series.clusters is None:
        return _compare_shares(len(values), wins, losses, confidence)
    return _compare_means(series, wins, losses, flips, confidence)


def _compare_shares(n: int, wins: int, losses: int, confidence: float) -> PairedResult:
    effect = (wins - losses) / n
    return PairedResult(
        n=n,
        groups=n,
        effect=effect,
        error=math.sqrt(max(wins + losses - (wins - losses) ** 2 / n, 0.0)) / n,
        interval=Interval(*score_interval(wins, losses, n, confidence=confidence), "score"),
        test="mcnemar",
        p=sign_test(wins, losses),
        wins=wins,
        losses=losses,
        confidence=confidence,
    )


def _compare_infinite(series: PairedSeries, wins: int, losses: int) -> PairedResult:
    values = series.differences
    both = bool((values == np.inf).any() and (values == -np.inf).any())
    alone = series.clusters is None
    return PairedResult(
        n=len(values),
        groups=len(values) if alone else _count(series.clusters),
        effect=None if both else float(values.sum()),
        error=None,
        interval=None,
        test="sign" if alone else "",
        p=sign_test(wins, losses) if alone else None,
        wins=wins,
        losses=losses,
    )


def _compare_means(series: PairedSeries, wins: int, losses: int, flips: int, confidence: float) -> PairedResult:
    values, width = series.differences, series.width
    sizes, sums = np.ones(len(values)), values
    if series.clusters is not None:
        sizes = np.bincount(series.clusters).astype(np.float64)
        sums = np.bincount(series.clusters, values).astype(np.float64)
    effect, error, interval, mean = float(values.mean()), None, None, None
    same = values.min() == values.max()
    if same:
        effect, error = float(values[0]), 0.0
    if same or len(sums) > 1:
        mean = mean_of_clusters(sums, sizes, low=-width, high=width)
    if mean is not None:
        error = mean.error
        interval = Interval(*mean.interval(confidence=confidence), "bounded" if math.isfinite(width) else "t")
    p, test = sign_flip_test(sums, flips=flips)
    return PairedResult(
        n=len(values),
        groups=len(sums),
        effect=effect,
        error=error,
        interval=interval,
        test=test,
        p=p,
        wins=wins,
        losses=losses,
        mean=mean,
        confidence=confidence,
    )


def _count(clusters: Ints | None) -> int:
    return 0 if clusters is None or not len(clusters) else int(clusters.max()) + 1


def sign_test(wins: int, losses: int) -> float:
    """Return the exact two-sided p-value of wins against losses, ties aside: McNemar's exact test."""
    total = wins + losses
    return min(1.0, 2 * float(scipy.special.bdtr(min(wins, losses), total, 0.5))) if total else 1.0


def sign_flip_test(sums: Floats, *, flips: int = FLIPS) -> tuple[float, str]:
    """Test that differences are as likely to have the one sign as the other (Fisher 1935).

    If both models are equally good, which of a pair's values is whose is a matter of chance: every flip of signs is as
    likely as the one seen. The p-value is the share of flips whose sum is as far from 0. Up to :data:`EXACT` clusters
    that differ all flips are counted; else ``flips`` are drawn with a fixed seed and p = (c + 1) / (flips + 1)
    (Phipson and Smyth 2010), which never is too small; beyond :data:`MOST_CLUSTERS` Student's t takes its place.

    Args:
        sums: Sum of the differences of each cluster; a cluster's signs flip together.
        flips: Flips to draw where there are too many to count.

    Returns:
        The two-sided p-value, and the name of the method.
    """
    moved = np.abs(sums[sums != 0])
    if not len(moved):
        return 1.0, "sign-flip exact"
    seen = abs(float(sums.sum())) - 1e-9 * float(moved.sum())
    if len(moved) <= EXACT:
        totals = np.zeros(1)
        for size in moved:
            totals = np.concatenate([totals + size, totals - size])
        return float((np.abs(totals) >= seen).mean()), "sign-flip exact"
    if len(moved) > MOST_CLUSTERS:
        return _student(sums), "t"
    return (_as_far(moved.astype(np.float32), np.float32(seen), flips) + 1) / (flips + 1), "sign-flip"


def _as_far(moved: npt.NDArray[np.float32], seen: np.float32, flips: int) -> int:
    """Draw flips in blocks and count the sums that are at least as far from 0 as the one seen."""
    random = np.random.default_rng(SEED)
    total, count = moved.sum(), 0
    block = max(1, _BLOCK // len(moved))
    for start in range(0, flips, block):
        number = min(block, flips - start)
        bits = np.frombuffer(random.bytes(number * ((len(moved) + 7) // 8)), dtype=np.uint8).reshape(number, -1)
        chosen = np.unpackbits(bits, axis=1, count=len(moved)).astype(np.float32)
        count += int((np.abs(2 * (chosen @ moved) - total) >= seen).sum())
    return count


def _student(sums: Floats) -> float:
    """Return the two-sided p-value of Student's test of "no difference"."""
    n, error = len(sums), float(sums.std(ddof=1)) / math.sqrt(len(sums))
    return 2 * float(scipy.special.stdtr(n - 1, -abs(float(sums.mean())) / error)) if error else 0.0


def detectable(measured: PairedResult, level: float) -> float | None:
    """Return the smallest true difference that a test at ``level`` finds with a chance of 80 % (Bloom 1995).

    ``(t(1 - level/2) + t(0.8)) · standard error``, with as many degrees of freedom as clusters less one. ``None`` where
    no spread was seen to tell it from, or where so few clusters cannot give a p-value that small at all.

    Args:
        measured: Effect and standard error of the pairs.
        level: Significance level of the two-sided test, for example 0.05.
    """
    if not measured.error or measured.groups < 2 or 2.0 ** (1 - measured.groups) > level:
        return None
    df = measured.groups - 1
    return float(scipy.special.stdtrit(df, 1 - level / 2) + scipy.special.stdtrit(df, _POWER)) * measured.error


def least_cases(margin: float, width: float, *, binary: bool) -> int | None:
    """Return with how few cases a candidate can pass that changed nothing.

    With fewer, only the same answers pass. ``None`` where no number is known to be enough: without a margin, or where
    the range has no end.

    Args:
        binary: Whether a row's value is 0 or 1.
    """
    if not 0 < margin < width < math.inf:
        return None
    share = margin / width
    if binary:
        return math.ceil(Z * Z * (1 - share) / share)  # where Tango's interval of no change ends at the margin
    return math.ceil(math.log(UNSEEN) / math.log1p(-share))


def cases_to_decide(measured: PairedResult, margin: float, level: float) -> int | None:
    """Return about how many cases, those seen included, decide the comparison with a chance of 80 %.

    The cases to come are taken to differ as those seen do. Their effect is not known so well: taken for exact it would
    give a number that decides too seldom, since it is overestimated as often as not. It varies with half the standard
    error, which by simulation decides about four times in five. ``None`` where there is no such number, or none that
    anybody could collect.

    Args:
        level: Significance level of the two-sided test, for example 0.05.
    """
    if measured.effect is None or measured.interval is None or measured.error is None:
        return None
    if measured.interval.method == "score":
        chance = _chance_of_shares(measured, margin, level)
    elif measured.mean is not None:
        chance = _chance_of_means(measured.n, measured.mean, margin, level)
    else:  # a metric over the whole dataset: its interval, of resamples, shrinks as that of a mean without skew does
        mean = Mean(measured.effect, measured.error, 0.0, math.inf, math.inf)
        chance = _chance_of_means(measured.n, mean, margin, level)
    return _least(chance, measured.n + 1)


def _least(chance: Callable[[int], float], start: int) -> int | None:
    """Return the least number of cases, to about one in a hundred, at which a chance that grows reaches the power."""
    below, above = start - 1, start
    while chance(above) < _POWER:
        below, above = above, math.ceil(above * 1.5)
        if above > _MOST:
            return None
    while above - below > max(1, below // 100):
        middle = (above + below) // 2
        below, above = (below, middle) if chance(middle) >= _POWER else (middle, above)
    return above


def _chance_of_means(n: int, mean: Mean, margin: float, level: float) -> Callable[[int], float]:
    def chance(cases: int) -> float:
        then = mean.of_more(cases / n)
        below, above = then.reach()
        passes = mean.value - (below - margin)
        fails = min(-margin - above, float(scipy.special.ndtri(level / 2)) * then.error) - mean.value
        new = 1 - n / cases
        spread = math.sqrt(new * then.error**2 + (new * _DOUBT * mean.error) ** 2)
        return (
            float(scipy.special.ndtr(passes / spread) + scipy.special.ndtr(fails / spread))
            if spread
            else float(max(passes, fails) >= 0)
        )

    return chance


def _chance_of_shares(measured: PairedResult, margin: float, level: float) -> Callable[[int], float]:
    n, wins, losses = measured.n, measured.wins, measured.losses
    changed = (wins + losses + 1) / (n + 1)  # half a case on either side, since what was not seen can still happen
    doubt = np.random.default_rng(SEED).normal(0, _DOUBT * math.sqrt(changed / n), _DRAWS)
    effect = np.clip((wins - losses) / n + doubt, -changed, changed)
    shares = np.stack([(changed + effect) / 2, (changed - effect) / 2, np.full(_DRAWS, 1 - changed)], axis=1)

    def chance(cases: int) -> float:
        drawn = np.random.default_rng(SEED).multinomial(cases - n, shares)
        won, lost = wins + drawn[:, 0], losses + drawn[:, 1]
        distance = score_statistic(won, lost, cases, -margin)
        p = 2 * scipy.special.bdtr(np.minimum(won, lost).astype(np.float64), won + lost, 0.5)
        return float(((distance >= Z) | ((distance <= -Z) & (p <= level) & (won < lost))).mean())

    return chance


Z: Final = NormalDist().inv_cdf(1 - TAIL)

_PARTS: Final = 128
_ROUNDS: Final = 8  # as exact as a float


def score_interval(wins: int, losses: int, n: int, *, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return Tango's interval of (wins - losses) / n."""
    effect, z = (wins - losses) / n, NormalDist().inv_cdf((1 + confidence) / 2)
    low = -1.0 if effect <= -1 else _difference_at(wins, losses, n, (-1.0, effect), z)
    high = 1.0 if effect >= 1 else _difference_at(wins, losses, n, (effect, 1.0), -z)
    return low, high


def score_statistic(wins: npt.ArrayLike, losses: npt.ArrayLike, n: int, difference: float | Floats) -> Floats:
    """Return the distance of the observed difference from a true one, in standard errors (Tango 1998).

    ``(wins - losses - n d) / sqrt(n (2 q + d (1 - d)))``, with q the most likely share of losses given d. It keeps its
    level for few rows and has a width where nothing changed, which Wald's does not; at d = 0 it is McNemar's statistic.

    Args:
        wins: Pairs that are 0 then 1, one number or many.
        difference: The true difference, in (-1, 1), one number or many.
    """
    won, lost = np.asarray(wins, dtype=np.float64), np.asarray(losses, dtype=np.float64)
    distance = won - lost - n * difference
    linear = (2 * n - won + lost) * difference - won - lost
    constant = -lost * difference * (1 - difference)
    likely = np.maximum(0.0, (np.sqrt(np.maximum(linear * linear - 8 * n * constant, 0.0)) - linear) / (4 * n))
    variance = np.maximum(0.0, n * (2 * likely + difference * (1 - difference)))
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = np.where(distance == 0, 0.0, distance / np.sqrt(variance))
    return np.asarray(statistic)


def _difference_at(wins: int, losses: int, n: int, within: tuple[float, float], wanted: float) -> float:
    """Return the difference at which the statistic, which falls as the difference grows, has the wanted value."""
    low, high = within
    for _ in range(_ROUNDS):
        places = np.linspace(low, high, _PARTS + 1)
        above = int((score_statistic(wins, losses, n, places[1:-1]) >= wanted).sum())
        low, high = float(places[above]), float(places[above + 1])
    return (low + high) / 2
