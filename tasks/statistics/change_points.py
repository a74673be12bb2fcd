"""Change points: when the level of a series of runs changed, looked for in many series at once.

A series is one metric of one model over runs, with the standard error of each value. If its level never changed, the
order of its points tells nothing, so that every other order is as likely: a permutation test is then exact, whatever
the spread and however coarse the values. Its statistic is the largest weighted sum of squares between the points before
and after a place, which is the likelihood ratio of a shift of a normal mean, maximised over all places:

    * Hawkins, "Testing a sequence of observations for a shift in location", J. Am. Statist. Ass. 72 (1977).
    * James, James and Siegmund, "Tests for a change-point", Biometrika 74 (1987).

A point weighs 1 / (s² + τ²): its own sampling error s, and the spread τ between runs beyond it, by the method of
moments (DerSimonian and Laird, "Meta-analysis in clinical trials", Controlled Clinical Trials 7, 1986). Weights move
with their values, and only make the test sharper. Permutations end early where the p-value is surely large:

    * Besag and Clifford, "Sequential Monte Carlo p-values", Biometrika 78 (1991).

Where a night resembles the one before, orders are not alike, and the statistic is too large by (1 + r) / (1 - r), the
variance ratio of a mean in an autoregression; r is the correlation of neighbours, where positive:

    * Bartlett, "On the theoretical specification of sampling properties of autocorrelated time series", J. R. Statist.
      Soc. Suppl. 8 (1946).
    * Robbins, Gallagher, Lund and Aue, "Mean shift testing in correlated data", J. Time Series Analysis 32 (2011).

A few points have too few orders for a small p-value, however far they moved: five after five have 252. Where orders are
fewer than are drawn, and three points or more on either side, the smaller counts of that p-value and Student's, times
the places that were looked at (Bonferroni). Student's takes the spread of points, but never less than their sampling
error, so that rare failures that happen to fall into neighbouring nights are no change; where that error is unknown,
only the orders count.

Over all series the share of false finds is held with Benjamini and Hochberg's procedure. A series that is found is cut
at its change (binary segmentation), and its parts are tested in turn, each at half the level that the procedure left to
the series. The intervals of what was found are as wide as finding it asks for:

    * Vostrikova, "Detecting disorder in multidimensional random processes", Soviet Math. Dokl. 24 (1981).
    * Benjamini and Bogomolov, "Selective inference on multiple families of hypotheses", J. R. Statist. Soc. B 76
      (2014).
    * Benjamini and Yekutieli, "False discovery rate-adjusted multiple confidence intervals", J. Am. Statist. Ass. 100
      (2005).
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import scipy

from leadline.tasks.statistics.statistics import benjamini_hochberg

if TYPE_CHECKING:
    from leadline.tasks.statistics.bounded_mean import Floats

FALSE_CHANGES: Final = 0.05
"""Share of the series found that may have no change (Benjamini and Hochberg)."""

LEAST: Final = 2
"""Points on either side of a change: a single one is an outlier as likely as a level."""

MOST_POINTS: Final = 250
"""Points of a series that are looked at, the last ones."""

_MOST_DRAWS: Final = 19_999
_ENOUGH: Final = 20
"""Orders with as large a statistic after which the p-value is known well enough."""

_DRAWN_TOGETHER: Final = (50, 150, 400)
"""Orders drawn at once: few at first, since most series need no more."""

_MOST_ALIKE: Final = 0.8
"""Correlation of neighbours that is believed at most."""


@dataclass(frozen=True, slots=True)
class LevelSeries:
    """Values in the order of their runs.

    Attributes:
        errors: The standard error of each value; not a number where it is unknown.
        samples: What each value was measured on: values of the same sample share its sampling error.
    """

    values: Floats
    errors: Floats
    samples: Sequence[Hashable]


@dataclass(frozen=True, slots=True)
class LevelChange:
    """A change of a level.

    Attributes:
        place: The first point of the new level.
        before: The level before it, back to the change before.
        after: The level from there on, up to the next change.
        low: Lower end of the difference's interval; of all that are found, 95 % hold the truth.
        p: The chance of such a change among the points around it if there was none.
        same_sample: Whether the points beside it were measured on the same.
    """

    place: int
    before: float
    after: float
    low: float
    high: float
    p: float
    same_sample: bool

    @property
    def difference(self) -> float:
        """The new level less the one before."""
        return self.after - self.before


def find_changes(series: Sequence[LevelSeries], share: float = FALSE_CHANGES) -> list[list[LevelChange]]:
    """Return the changes of each series, in the order of their places.

    Args:
        series: All that are looked at together.
        share: The share of the series with a find that may have no change.
    """
    kept = [_last(one) for one in series]
    tests = [_test(one) for one in kept]
    q_values = benjamini_hochberg(np.array([p for p, _ in tests], np.float64))
    level = share * float((q_values <= share).mean()) if len(tests) else 0.0
    found: list[list[LevelChange]] = []
    for one, whole, (p, place), q in zip(kept, series, tests, q_values, strict=True):
        cuts = _cuts(one, 0, len(one.values), level, (p, place)) if q <= share else {}
        found.append(_described(one, cuts, level, len(whole.values) - len(one.values)))
    return found


def _last(series: LevelSeries) -> LevelSeries:
    return LevelSeries(series.values[-MOST_POINTS:], series.errors[-MOST_POINTS:], series.samples[-MOST_POINTS:])


def _weights(series: LevelSeries) -> Floats:
    """Return the weights of points; all alike where some point has no standard error."""
    values, errors = series.values, series.errors
    if len(values) < 2 or not (np.isfinite(errors).all() and errors.max() > 0):
        return np.ones(len(values))
    sampled = np.maximum(errors, 0.2 * float(np.median(errors[errors > 0]))) ** 2  # one without any is not all there is
    weights = 1 / sampled
    total = weights.sum()
    excess = float((weights * (values - (weights * values).sum() / total) ** 2).sum()) - (len(values) - 1)
    between = max(0.0, excess / float(total - (weights**2).sum() / total))
    mixed: Floats = 1 / (sampled + between)
    mixed /= mixed.mean()
    return mixed


def _scan(values: Floats, weights: Floats) -> Floats:
    """Return the weighted sums of squares between the parts of series at all places, an order in each line."""
    total = weights.sum(axis=-1, keepdims=True)
    centred = values - (weights * values).sum(axis=-1, keepdims=True) / total
    first = slice(LEAST - 1, values.shape[-1] - LEAST)
    weight = np.cumsum(weights, axis=-1)[..., first]
    between: Floats = np.cumsum(weights * centred, axis=-1)[..., first] ** 2 * total / (weight * (total - weight))
    return between


def _test(series: LevelSeries) -> tuple[float, int]:
    """Return the p-value of a change anywhere, and the first point after it."""
    values, weights = series.values, _weights(series)
    if len(values) < 2 * LEAST or float(np.ptp(values)) <= 1e-12 * float(np.abs(values).max(initial=1.0)):
        return 1.0, 0
    seen = _scan(values, weights)
    place = int(seen.argmax())
    alike = _alike(values)
    inflated = (1 + alike) / (1 - alike)
    reached = float(seen[place])
    place += LEAST
    students = _students(series, weights, len(values) - place, reached, inflated)
    return min(students, _share_of_orders(values, weights, reached / inflated)), place


def _students(series: LevelSeries, weights: Floats, after: int, reached: float, inflated: float) -> float:
    """Return Student's p-value of the best place among all that were looked at, 1 where the orders are enough.

    Args:
        after: Points from that place on.
        reached: The sum of squares between the parts.
        inflated: How much larger the spread of points makes it where they resemble their neighbours.
    """
    number = len(weights)
    few = math.comb(number, after) <= _MOST_DRAWS and min(after, number - after) > LEAST
    if not few or not np.isfinite(series.errors).all():
        return 1.0
    centred = series.values - float(np.average(series.values, weights=weights))
    spread = max(0.0, float((weights * centred**2).sum()) - reached) / (number - 2)
    least = max(spread * inflated, float((weights * series.errors**2).mean()))
    if least <= 0:
        return 1.0
    places = number - 2 * LEAST + 1
    return min(1.0, 2 * places * float(scipy.special.stdtr(number - 2, -math.sqrt(reached / least))))


def _share_of_orders(values: Floats, weights: Floats, reached: float) -> float:
    """Return the share of the orders of points whose statistic is as large."""
    number = len(values)
    reached *= 1 - 1e-9  # equal values in another order may differ in their last digits
    drawing = np.random.default_rng(zlib.crc32(np.ascontiguousarray(values).tobytes()))
    drawn = above = rounds = 0
    while drawn < _MOST_DRAWS:
        size = min(_DRAWN_TOGETHER[min(rounds, 2)], _MOST_DRAWS - drawn)
        rounds += 1
        order = drawing.permuted(np.broadcast_to(np.arange(number), (size, number)), axis=1)
        larger = np.cumsum(_scan(values[order], weights[order]).max(axis=1) >= reached)
        if above + int(larger[-1]) >= _ENOUGH:
            needed = drawn + int(np.searchsorted(larger, _ENOUGH - above)) + 1
            return _ENOUGH / needed
        drawn += size
        above += int(larger[-1])
    return (above + 1) / (drawn + 1)


def _alike(values: Floats) -> float:
    """Return the correlation of neighbours about four levels, 0 where it is negative.

    Four, so that up to three changes are not taken for a likeness of neighbours; that makes it too small by some 6 / n,
    as 300 series each of 20, 60 and 200 independent points show.
    """
    rest = _about_levels(values, 2)
    squares = float((rest**2).sum())
    if squares <= 1e-18 * float((values**2).sum()):  # no spread but that of the last digits
        return 0.0
    seen = float((rest[1:] * rest[:-1]).sum()) / squares
    return min(_MOST_ALIKE, max(0.0, seen + min(0.3, 6 / len(values))))


def _about_levels(values: Floats, cuts: int) -> Floats:
    """Return values less their level, cut at the best place, and either part again."""
    if not cuts or len(values) < 4 * LEAST:
        level: Floats = values - values.mean()
        return level
    place = int(_scan(values, np.ones(len(values))).argmax()) + LEAST
    return np.concatenate([_about_levels(part, cuts - 1) for part in (values[:place], values[place:])])


def _cuts(series: LevelSeries, start: int, end: int, level: float, test: tuple[float, int]) -> dict[int, float]:
    """Return the places of changes between two points with their p-values.

    Args:
        test: The p-value of these points, and where their change is.
    """
    p, place = test
    if p > level or not place:
        return {}
    found = {start + place: p}
    for first, last in ((start, start + place), (start + place, end)):
        part = LevelSeries(series.values[first:last], series.errors[first:last], series.samples[first:last])
        found |= _cuts(series, first, last, level / 2, _test(part))
    return found


def _described(series: LevelSeries, cuts: dict[int, float], level: float, left_out: int) -> list[LevelChange]:
    """Return changes with their levels and intervals, but those that another sample explains.

    Args:
        level: The level at which they were found.
        left_out: Points before the first one that was looked at.
    """
    borders = [0, *sorted(cuts), len(series.values)]
    found = []
    for start, place, end in zip(borders, borders[1:], borders[2:], strict=False):
        before, after = series.values[start:place], series.values[place:end]
        same = series.samples[place - 1] == series.samples[place]
        low, high = _interval(before, after, level, 0.0 if same else _sampling(series, start, place, end))
        if not same and low <= 0 <= high:  # drawing other cases moves it as far
            continue
        found.append(
            LevelChange(
                left_out + place, float(before.mean()), float(after.mean()), low, high, cuts[place], same_sample=same
            )
        )
    return found


def _interval(before: Floats, after: Floats, level: float, sampling: float) -> tuple[float, float]:
    """Return the interval of the difference of two levels: Student's, by the spread of points around their level.

    Args:
        level: How often it may miss the truth.
        sampling: The variance of the difference that all points of a level share.
    """
    freedom = len(before) + len(after) - 2
    squares = float(((before - before.mean()) ** 2).sum() + ((after - after.mean()) ** 2).sum())
    variance = squares / max(1, freedom) * (1 / len(before) + 1 / len(after)) + sampling
    reach = float(scipy.special.stdtrit(max(1, freedom), 1 - level / 2)) * math.sqrt(variance)
    difference = float(after.mean() - before.mean())
    return difference - reach, difference + reach


def _sampling(series: LevelSeries, start: int, place: int, end: int) -> float:
    """Return the variance of a difference of levels that is not seen in the spread of their points.

    Of the n points of a level, n_s rest on sample s, and e² is the sampling variance of a point. The mean has
    e² Σ (n_s / n)² of it, and the spread of points shows e² (1 - Σ (n_s / n)²) / (n - 1) of that: nothing where all
    share a sample, everything where each has its own.
    """
    unseen = 0.0
    for first, last in ((start, place), (place, end)):
        n = last - first
        shares = sum(count**2 for count in Counter(series.samples[first:last]).values()) / n
        unseen += float((np.nan_to_num(series.errors[first:last]) ** 2).mean()) * (shares - 1) / max(1, n - 1)
    return unseen
