"""The number of cases a comparison needs: for what it could have seen, to decide, and to be able to pass at all.

References:
    * Bloom, "Minimum detectable effects", Evaluation Review 19 (1995).
    * Connor, "Sample size for testing differences in proportions for the paired-sample design", Biometrics 43 (1987).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from leadline.tasks.statistics.bounded_mean import UNSEEN, Mean
from leadline.tasks.statistics.paired import PairedResult
from leadline.tasks.statistics.tango import Z, score_statistic

POWER: Final = 0.8
_MOST: Final = 100_000_000
_DRAWS: Final = 500
_DOUBT: Final = 0.5
"""By how many standard errors the effect seen is taken to be off."""
_SEED: Final = 20240601


def detectable(measured: PairedResult, level: float) -> float | None:
    """Return the smallest true difference that a test at ``level`` finds with a chance of 80 % (Bloom 1995).

    ``(t(1 - level/2) + t(0.8)) · standard error``, with as many degrees of freedom as clusters less one. ``None`` where
    no spread was seen to tell it from, or where so few clusters cannot give a p-value that small at all.

    Args:
        measured: Effect and standard error of the pairs.
        level: Significance level of the two-sided test, for example 0.05.
    """
    from scipy.special import stdtrit

    if not measured.error or measured.groups < 2 or 2.0 ** (1 - measured.groups) > level:
        return None
    df = measured.groups - 1
    return float(stdtrit(df, 1 - level / 2) + stdtrit(df, POWER)) * measured.error


def least_cases(margin: float, width: float, *, binary: bool) -> int | None:
    """Return with how few cases a candidate can pass that changed nothing.

    With fewer, only the same answers pass. ``None`` where no number is known to be enough: without a margin, or where
    the range has no end.

    Args:
        margin: The largest tolerated worsening.
        width: Width of the metric's range.
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
        measured: The pairs seen so far.
        margin: The largest tolerated worsening.
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
    while chance(above) < POWER:
        below, above = above, math.ceil(above * 1.5)
        if above > _MOST:
            return None
    while above - below > max(1, below // 100):
        middle = (above + below) // 2
        below, above = (below, middle) if chance(middle) >= POWER else (middle, above)
    return above


def _chance_of_means(n: int, mean: Mean, margin: float, level: float) -> Callable[[int], float]:
    from scipy.special import ndtr, ndtri

    def chance(cases: int) -> float:
        then = mean.of_more(cases / n)
        below, above = then.reach()
        passes = mean.value - (below - margin)
        fails = min(-margin - above, float(ndtri(level / 2)) * then.error) - mean.value
        new = 1 - n / cases
        spread = math.sqrt(new * then.error**2 + (new * _DOUBT * mean.error) ** 2)
        return float(ndtr(passes / spread) + ndtr(fails / spread)) if spread else float(max(passes, fails) >= 0)

    return chance


def _chance_of_shares(measured: PairedResult, margin: float, level: float) -> Callable[[int], float]:
    from scipy.special import bdtr

    n, wins, losses = measured.n, measured.wins, measured.losses
    changed = (wins + losses + 1) / (n + 1)  # half a case on either side, since what was not seen can still happen
    doubt = np.random.default_rng(_SEED).normal(0, _DOUBT * math.sqrt(changed / n), _DRAWS)
    effect = np.clip((wins - losses) / n + doubt, -changed, changed)
    shares = np.stack([(changed + effect) / 2, (changed - effect) / 2, np.full(_DRAWS, 1 - changed)], axis=1)

    def chance(cases: int) -> float:
        drawn = np.random.default_rng(_SEED).multinomial(cases - n, shares)
        won, lost = wins + drawn[:, 0], losses + drawn[:, 1]
        distance = score_statistic(won, lost, cases, -margin)
        p = 2 * bdtr(np.minimum(won, lost).astype(np.float64), won + lost, 0.5)
        return float(((distance >= Z) | ((distance <= -Z) & (p <= level) & (won < lost))).mean())

    return chance
