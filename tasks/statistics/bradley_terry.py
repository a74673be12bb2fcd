"""Strengths of models by comparisons of their answers: Bradley and Terry's model, with intervals over cases.

The chance that model i wins against j is ``1 / (1 + exp(-(s_i - s_j)))``; the strengths s have the mean 0. A tie counts
as half a win for both. What is reported is ``1 / (1 + exp(-s_i))``: the chance of a win against an average model, 0.5
where all are alike.

**One made-up case.** To the cases a made-up one is added in which all pairs that were compared are tied, each as often
as in an average case. It keeps the strength of a model finite that won, or lost, every comparison. For two models it
is the half win and half loss that Gart and Zweifel 1967 add to a share before they take its logit.

**Intervals.** Comparisons of one case, and of its perturbed copies, are one cluster: they share the question and the
answers. How far the strengths move without each cluster, by one step of Newton's method, is its influence (the
jackknife over clusters, as MacKinnon, Nielsen and Webb 2023 advise). Each end of an interval is the farther of two:

* Student's on the scale of s, with the made-up case's half wins and half losses as clusters of their own. It sees that
  few losses tell little of how far a strong model is ahead, also to those in the middle.
* The end of the interval of what the model won of its comparisons, a mean within 0 and 1, by the formula for such means
  (:mod:`leadline.tasks.statistics.bounded_mean`), which knows of skew and of what was not seen; it is taken to the
  scale of s by the model's curve, on which the others give way.

References:
    * Bradley and Terry, "Rank analysis of incomplete block designs", Biometrika 39 (1952).
    * Gart and Zweifel, "On the bias of various estimators of the logit and its variance", Biometrika 54 (1967).
    * MacKinnon, Nielsen and Webb, "Cluster-robust inference: a guide to empirical practice", J. of Econometrics 232
      (2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import scipy

from leadline.tasks.statistics.bounded_mean import TAIL, mean_of_influences

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers = npt.NDArray[np.float64]
    Places = npt.NDArray[np.int64]

_STEPS: Final = 100
_CLOSE: Final = 1e-10
_FAR: Final = 40.0
"""Strengths beyond this are a chance of 0 or 1."""
_MOST_CELLS: Final = 4_000_000  # of the matrices of a block of clusters: 32 MB


class PairComparison(NamedTuple):
    """The outcome of one comparison of two models' answers to a case.

    Attributes:
        one: A model, by its position.
        other: Another one.
        score: What ``one`` won: 1, 0.5 for a tie, 0; or a mean of such.
        cluster: The case; comparisons with the same number are not independent.
    """

    one: int
    other: int
    score: float
    cluster: int


@dataclass(frozen=True, slots=True)
class Strength:
    """The strength of a model.

    Attributes:
        value: Chance of a win against an average model.
        low: Lower end of its 95 % interval, ``None`` where there is but one cluster.
    """

    value: float
    low: float | None
    high: float | None


def strengths(comparisons: Sequence[PairComparison], models: int) -> tuple[Strength, ...] | None:
    """Return the strength of each model, ``None`` where the comparisons do not connect all of them.

    Args:
        comparisons: At least one.
        models: Number of models, at least 2.
    """
    games = _games(comparisons)
    played = np.zeros((models, models))
    won = np.zeros((models, models))
    np.add.at(played, (games.one, games.other), 1.0)
    np.add.at(won, (games.one, games.other), games.score)
    played, won = played + played.T, won + (played - won).T
    if not _connected(played):
        return None
    made_up = played / games.clusters
    fitted = _fit(played + made_up, won + made_up / 2)
    ends = _intervals(games, fitted, played, won, made_up) if games.clusters > 1 else [None] * models
    return tuple(_strength(float(value), end) for value, end in zip(fitted, ends, strict=True))


@dataclass(frozen=True, slots=True)
class _Games:
    """The comparisons as arrays, sorted by cluster, and where each cluster begins and the last one ends."""

    one: Places
    other: Places
    score: Numbers
    bounds: Places

    @property
    def clusters(self) -> int:
        """Number of clusters."""
        return len(self.bounds) - 1

    def sizes(self, models: int) -> Numbers:
        """Return the number of comparisons of each model in each cluster."""
        cluster = np.repeat(np.arange(self.clusters), np.diff(self.bounds))
        out = np.zeros((self.clusters, models))
        np.add.at(out, (cluster, self.one), 1.0)
        np.add.at(out, (cluster, self.other), 1.0)
        return out


def _games(comparisons: Sequence[PairComparison]) -> _Games:
    one, other, score, cluster = (np.array(values) for values in zip(*comparisons, strict=True))
    order = np.argsort(cluster, kind="stable")
    starts = np.unique(cluster[order], return_index=True)[1]
    bounds = np.append(starts, len(order)).astype(np.int64)
    return _Games(one[order], other[order], score[order].astype(np.float64), bounds)


def _connected(played: Numbers) -> bool:
    """Return whether every model is linked to every other by comparisons, over others or not."""
    reached = np.zeros(len(played), dtype=bool)
    reached[0] = True
    for _ in range(len(played)):
        reached |= (played[reached] > 0).any(axis=0)
    return bool(reached.all())


def _fit(played: Numbers, won: Numbers) -> Numbers:
    """Return the strengths of the greatest likelihood, by Newton's method with steps that are halved where they fail.

    Args:
        played: Comparisons of each two models, the made-up ones included: a symmetric matrix.
        won: What each model won of those, in its row.
    """
    wins = won.sum(axis=1)
    found = np.zeros(len(played))
    for _ in range(_STEPS):
        chance = _chances(found)
        gradient = wins - (played * chance).sum(axis=1)
        if np.abs(gradient).max() < _CLOSE * max(1.0, float(played.sum())):
            break
        step = np.linalg.solve(_information(played, chance), gradient)
        while _likelihood(found + step, won) < _likelihood(found, won) and np.abs(step).max() > _CLOSE:
            step = step / 2
        found = found + step
        found -= found.mean()
    return found


def _chances(found: Numbers) -> Numbers:
    """Return the chance that the model of the row wins against that of the column."""
    return np.asarray(scipy.special.expit(found[:, None] - found[None, :]), dtype=np.float64)


def _likelihood(found: Numbers, won: Numbers) -> float:
    return float((won * scipy.special.log_expit(found[:, None] - found[None, :])).sum())


def _information(played: Numbers, chance: Numbers) -> Numbers:
    """Return minus the second derivatives of the log-likelihood, made invertible along the strengths' mean."""
    weight = played * chance * (1 - chance)
    out: Numbers = np.diag(weight.sum(axis=1)) - weight + weight.sum() / len(played) ** 2
    return out


def _intervals(
    games: _Games, fitted: Numbers, played: Numbers, won: Numbers, made_up: Numbers
) -> list[tuple[float, float] | None]:
    """Return the 95 % interval of each model's strength.

    Args:
        games: The comparisons, of at least two clusters.
        won: What each model won of those, in its row.
        made_up: Weight of each pair in the made-up case.
    """
    chance = _chances(fitted)
    whole = _information(played + made_up, chance)
    squares, cubes = _powers(games, chance, whole)
    lone = _variance_of_made_up(chance, whole, made_up)
    sizes = games.sizes(len(fitted))
    out: list[tuple[float, float] | None] = []
    for model in range(len(fitted)):
        curve = _Curve(model, fitted, played[model])
        mine = sizes[:, model][sizes[:, model] > 0]
        scale = curve.slope() * curve.games
        mean = mean_of_influences(
            float(won[model].sum() / curve.games),
            curve.games,
            len(mine),
            sizes=float(mine @ mine),
            squares=float(squares[model] * scale**2),
            cubes=float(cubes[model] * scale**3),
            low=0.0,
            high=1.0,
        )
        variance = squares[model] * (games.clusters - 1) / games.clusters + lone[model]
        reach = float(scipy.special.stdtrit(mean.df, 1 - TAIL) * np.sqrt(variance))
        low, high = (curve.strength_at(end) for end in mean.interval())
        out.append((min(low, fitted[model] - reach), max(high, fitted[model] + reach)))
    return out


@dataclass(frozen=True, slots=True)
class _Curve:
    """The share of its comparisons that a model would win, were it stronger, and the others weaker in turn.

    Attributes:
        fitted: The strengths of all.
        played: Its comparisons with each of the others.
    """

    model: int
    fitted: Numbers
    played: Numbers

    @property
    def games(self) -> float:
        """Number of its comparisons."""
        return float(self.played.sum())

    @property
    def _give_way(self) -> float:
        """Growth of the gap to the others for each unit that the model gains, as the mean of all strengths stays 0."""
        return 1 + 1 / (len(self.fitted) - 1)

    def won_at(self, strength: float) -> float:
        """Return the share of its comparisons that it would win with a strength."""
        gap = self.fitted[self.model] - self.fitted + (strength - self.fitted[self.model]) * self._give_way
        return float(self.played @ scipy.special.expit(gap) / self.games)

    def slope(self) -> float:
        """Return by how much the share grows for each unit of strength, at the model's own."""
        chance = scipy.special.expit(self.fitted[self.model] - self.fitted)
        return float(self.played @ (chance * (1 - chance)) / self.games) * self._give_way

    def strength_at(self, share: float) -> float:
        """Return the strength with which it would win a share, within ``-_FAR`` and ``_FAR``, by bisection."""
        if share <= self.won_at(-_FAR):
            return -_FAR
        if share >= self.won_at(_FAR):
            return _FAR
        return float(scipy.optimize.brentq(lambda strength: self.won_at(strength) - share, -_FAR, _FAR, xtol=1e-9))


def _variance_of_made_up(chance: Numbers, whole: Numbers, made_up: Numbers) -> Numbers:
    """Return the variance of each strength that a half win and a half loss of each pair in the made-up case bring.

    Args:
        made_up: Weight of each pair in the made-up case.
    """
    bread = np.linalg.inv(whole)
    products = ((1 - chance) ** 2 + chance**2) * made_up / 2
    out: Numbers = np.diag(bread @ (np.diag(products.sum(axis=1)) - products) @ bread)
    return out


def _powers(games: _Games, chance: Numbers, whole: Numbers) -> tuple[Numbers, Numbers]:
    """Return the sums of the squares and of the cubes of how far each strength moves by each cluster."""
    squares, cubes = np.zeros(len(chance)), np.zeros(len(chance))
    block = max(1, _MOST_CELLS // len(chance) ** 2)
    for first in range(0, games.clusters, block):
        moved = _moved(games, first, min(first + block, games.clusters), chance, whole)
        squares += (moved**2).sum(axis=0)
        cubes += (moved**3).sum(axis=0)
    return squares, cubes


def _moved(games: _Games, first: int, last: int, chance: Numbers, whole: Numbers) -> Numbers:
    """Return how far each of some clusters moves the strengths, against a fit without it; a line for each.

    Args:
        first: The first of the clusters.
        last: One past the last of them.
    """
    models = len(chance)
    mine = slice(games.bounds[first], games.bounds[last])
    one, other, score = games.one[mine], games.other[mine], games.score[mine]
    cluster = np.repeat(np.arange(last - first), np.diff(games.bounds[first : last + 1]))
    expected = chance[one, other]
    pull = np.zeros((last - first, models))
    np.add.at(pull, (cluster, one), score - expected)
    np.add.at(pull, (cluster, other), expected - score)
    weight = expected * (1 - expected)
    without = np.broadcast_to(whole, (last - first, models, models)).copy()
    for row, column, sign in ((one, one, -1.0), (other, other, -1.0), (one, other, 1.0), (other, one, 1.0)):
        np.add.at(without, (cluster, row, column), sign * weight)
    solved = np.linalg.solve(without, pull[:, :, None])[:, :, 0]
    out: Numbers = solved - solved.mean(axis=1, keepdims=True)
    return out


def _strength(fitted: float, ends: tuple[float, float] | None) -> Strength:
    value = float(scipy.special.expit(fitted))
    if ends is None:
        return Strength(value, None, None)
    low, high = (float(scipy.special.expit(end)) if abs(end) < _FAR else float(end > 0) for end in ends)
    return Strength(value, min(low, value), max(high, value))
