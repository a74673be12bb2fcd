"""Average precision and recall of ranked predictions, for many groups and IoU thresholds, under any weights.

A group is what has a precision-recall curve of its own: a label of a dataset, or a label of one image.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

Method: TypeAlias = Literal["valor", "coco"]

POINTS: Final = 101
"""Recalls 0, 0.01, …, 1 at which precision is read off."""


@dataclass(frozen=True, slots=True)
class RankedMetrics:
    """Average precision and recall by group and threshold, NaN where a group has no ground truth."""

    precision: npt.NDArray[np.float64]
    recall: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Ranking:
    """Predictions in the order of their groups and scores, and where each threshold's true positives stand.

    Only true positives are points of the curve that can be a maximum, so that everything is computed at them: an
    *entry* is a true positive at one threshold, in the order of threshold, group and rank.

    Attributes:
        order: The predictions in ranked order, as positions in the arrays that it was made from, shape ``(n,)``.
        groups: Number of groups.
        thresholds: Number of IoU thresholds.
        counted: Whether a ranked prediction counts for precision at all.
        recalled: For each entry whether it counts for recall.
        position: For each entry its prediction's rank, shape ``(e,)``.
        until: For each entry the last rank that its precision covers: its own, or that of its last equal score.
        upto: For each entry the last entry that its precision covers.
        begin: For each entry the first rank of its group.
        segment: For each entry ``threshold * groups + group``.
        head: For each entry the first entry of its segment.
        ignored: Ranks of predictions that are neither right nor wrong at a threshold, in the order of the entries.
        ignored_before: For each entry the first and one past the last of ``ignored`` that its precision covers.
        grid: The recalls at which precision is read off.
    """

    order: npt.NDArray[np.int64]
    groups: int
    thresholds: int
    counted: npt.NDArray[np.float64]
    recalled: npt.NDArray[np.float64]
    position: npt.NDArray[np.int64]
    until: npt.NDArray[np.int64]
    upto: npt.NDArray[np.int64]
    begin: npt.NDArray[np.int64]
    segment: npt.NDArray[np.int64]
    head: npt.NDArray[np.int64]
    ignored: npt.NDArray[np.int64]
    ignored_before: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
    grid: npt.NDArray[np.float64]

    def measure(self, weight: npt.NDArray[np.float64], truth: npt.NDArray[np.float64]) -> RankedMetrics:
        """Return average precision and recall.

        Args:
            weight: How often each prediction counts, in the order of ``Ranking.order``, shape ``(n,)``.
            truth: Weighted number of ground truths of each group, shape ``(groups,)``.
        """
        shape = (self.thresholds, self.groups)
        positives = np.tile(truth, self.thresholds)
        gained = np.bincount(self.segment, self._steps(weight, positives) * self._best(weight), len(positives))
        recalled = np.bincount(self.segment, weight[self.position] * self.recalled, len(positives))
        with np.errstate(divide="ignore", invalid="ignore"):
            recall = np.where(positives > 0, recalled / positives, np.nan)
        average = np.where(positives > 0, gained / POINTS, np.nan)
        return RankedMetrics(average.reshape(shape).T, recall.reshape(shape).T)

    def curves(self, weight: npt.NDArray[np.float64], truth: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the best precision at or beyond each of the 101 recalls, shape ``(groups, thresholds, 101)``.

        Args:
            weight: Weight of each ranked prediction.
            truth: Weighted ground truths of each group.
        """
        positives = np.tile(truth, self.thresholds)
        steps = self._steps(weight, positives)
        out = np.zeros((self.thresholds * self.groups, POINTS))
        segment = np.repeat(self.segment, steps)
        point = np.arange(len(segment)) - np.searchsorted(segment, segment)
        out[segment, point] = np.repeat(self._best(weight), steps)
        return out.reshape(self.thresholds, self.groups, POINTS).transpose(1, 0, 2)

    def _best(self, weight: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return for each entry the best precision from it on."""
        seen = _between(weight * self.counted, self.begin, self.until + 1)
        seen -= _between(weight[self.ignored], *self.ignored_before)
        precision = np.divide(self._found(weight), seen, out=np.zeros(len(seen)), where=seen > 0)
        return _best_from_here(precision, self.segment)

    def _found(self, weight: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return for each entry the weighted true positives up to it."""
        return _between((weight * self.counted)[self.position], self.head, self.upto + 1)

    def _steps(self, weight: npt.NDArray[np.float64], positives: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """Return for each entry how many recalls of the grid are reached there and not before."""
        mine = positives[self.segment]
        recall = np.divide(self._found(weight), mine, out=np.zeros(len(mine)), where=mine > 0)
        reached = np.where(recall > 0, self._reached(recall), 0)
        before = np.concatenate(([0], reached[:-1])) if len(reached) else reached
        steps: npt.NDArray[np.int64] = reached - np.where(self.head == np.arange(len(reached)), 0, before)
        return steps

    def _reached(self, recall: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """Return how many recalls of the grid are at most the given ones."""
        number = np.clip((recall * (POINTS - 1)).astype(np.int64), 0, POINTS - 1)
        number += self.grid[np.minimum(number + 1, POINTS - 1)] <= recall
        number = np.minimum(number, POINTS - 1)
        number -= self.grid[number] > recall
        out: npt.NDArray[np.int64] = number + 1
        return out


def rank(
    group: npt.NDArray[np.int64],
    score: npt.NDArray[np.float64],
    hits: npt.NDArray[np.bool_],
    ignored: npt.NDArray[np.bool_],
    groups: int,
    method: Method,
    least_score: float,
) -> Ranking:
    """Rank predictions.

    With ``valor``, predictions of equal score stand in the order of how many thresholds they are true positives at
    (Valor orders them by IoU), those with score 0 do not count for precision, and a recall reaches a point of the grid
    that it misses by rounding alone. With ``coco``, predictions of equal score are one point of the curve: COCO takes
    them in the order of the file, which is independent of the model.

    Args:
        group: Group of each prediction, shape ``(n,)``.
        score: Its confidence.
        hits: Whether it is a true positive at each threshold, shape ``(n, t)``.
        ignored: Whether it is neither right nor wrong at each threshold, shape ``(n, t)``.
        groups: Number of groups.
        method: Whose rules decide.
        least_score: Confidence below which a true positive does not count for recall.
    """
    order = np.lexsort((-hits.sum(axis=1), -score, group))
    group, score, hits, ignored = group[order], score[order], hits[order], ignored[order]
    threshold, position = np.nonzero(hits.T)
    segment = threshold * groups + group[position]
    entries = np.arange(len(position))
    until, upto = position, entries
    if method == "coco":
        tied = _last_of_run(np.flatnonzero(_changes(group, score)), len(group))
        until = tied[position]
        upto = _last_of_run(np.flatnonzero(_changes(segment, until)), len(position))
    out_threshold, out_position = np.nonzero(ignored.T)
    key = out_threshold * len(group) + out_position
    begin = np.searchsorted(group, np.arange(groups))
    grid = np.linspace(0, 1, POINTS)
    return Ranking(
        order=order,
        groups=groups,
        thresholds=hits.shape[1],
        counted=(score > 0).astype(np.float64) if method == "valor" else np.ones(len(score)),
        recalled=(score >= least_score)[position].astype(np.float64),
        position=position,
        until=until,
        upto=upto,
        begin=begin[group[position]],
        segment=segment,
        head=np.searchsorted(segment, segment),
        ignored=out_position,
        ignored_before=(
            np.searchsorted(key, threshold * len(group) + begin[group[position]]),
            np.searchsorted(key, threshold * len(group) + until, "right"),
        ),
        grid=grid * (1 - 1e-9) if method == "valor" else grid,
    )


def _changes(*columns: npt.NDArray[np.int64] | npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Return where a line differs from the one before it."""
    out = np.ones(len(columns[0]), dtype=bool)
    if len(out):
        out[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return out


def _last_of_run(starts: npt.NDArray[np.int64], length: int) -> npt.NDArray[np.int64]:
    """Return for each line the last line of its run."""
    ends = np.append(starts[1:], length)
    return np.repeat(ends - 1, ends - starts) if length else np.empty(0, dtype=np.int64)


def _between(
    values: npt.NDArray[np.float64], start: npt.NDArray[np.int64], stop: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """Return sums of the values from ``start`` to before ``stop``."""
    running = np.concatenate(([0.0], np.cumsum(values)))
    out: npt.NDArray[np.float64] = running[stop] - running[start]
    return out


def _best_from_here(values: npt.NDArray[np.float64], segment: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return the maximum of the values in [0, 1] from each line to the end of its segment.

    Each segment is lifted above those behind it, so that one running maximum serves all. The lifted values only say
    where the maximum stands, so that no digit of it is lost.
    """
    if not len(values):
        return values
    lifted = (values - 2.0 * segment)[::-1]
    highest = np.maximum.accumulate(lifted)
    rises = np.ones(len(values), dtype=bool)
    rises[1:] = highest[1:] > highest[:-1]
    where = np.maximum.accumulate(np.where(rises, np.arange(len(values)), 0))
    out: npt.NDArray[np.float64] = values[::-1][where][::-1]
    return out
