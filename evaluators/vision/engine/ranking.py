"""Average precision and recall of ranked predictions, for many groups and IoU thresholds, under any weights.

A group is what has a precision-recall curve of its own: a label of a dataset, or a label of one image. The six metrics
of detection are means over the groups of a dataset, or of each image.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from leadline.evaluators.data import LabelName
from leadline.evaluators.vision.engine.matching import MatchedBatch, Method, Records, prediction_type, truth_type

if TYPE_CHECKING:
    import numpy.typing as npt

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


@dataclass(frozen=True, slots=True)
class Dataset:
    """The predictions and ground truth of many payloads.

    Attributes:
        names: Labels by number.
        keys: Label keys by number.
        key: Number of each label's key.
        images: Number of payloads.
        prediction_image: Payload of each prediction.
        truth_image: Payload of each ground truth.
        truth: Records of the ground truth.
        ranking: The predictions by label and score.
    """

    names: list[LabelName]
    keys: list[str]
    key: npt.NDArray[np.int64]
    images: int
    prediction_image: npt.NDArray[np.int64]
    predictions: Records
    truth_image: npt.NDArray[np.int64]
    truth: Records
    ranking: Ranking

    def truths(self, weight: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the weighted number of ground truths of each label."""
        return np.bincount(self.truth["label"], weight[self.truth_image], len(self.names)).astype(np.float64)

    def measure(self, weight: npt.NDArray[np.float64]) -> RankedMetrics:
        """Return average precision and recall by label and threshold; ``weight`` is how often each payload counts."""
        ranked = weight[self.prediction_image][self.ranking.order]
        return self.ranking.measure(ranked, self.truths(weight))


def gather(
    payloads: Sequence[Mapping[str, Any]], bits: int, thresholds: int, method: Method, least_score: float
) -> Dataset:
    """Return the dataset that payloads make up.

    Args:
        payloads: Payloads of images.
        bits: IoU thresholds that the payloads know.
        thresholds: How many of them, the first ones, the metrics are averaged over.
        method: Whose rules decide.
        least_score: Confidence below which a true positive does not count for recall.
    """
    names, joined = _unpacked(payloads, {"predictions": prediction_type(bits), "truth": truth_type()})
    (prediction_image, predictions), (truth_image, truth) = joined["predictions"], joined["truth"]
    keys = list(dict.fromkeys(key for key, _ in names))
    return Dataset(
        names=names,
        keys=keys,
        key=np.array([keys.index(key) for key, _ in names], dtype=np.int64),
        images=len(payloads),
        prediction_image=prediction_image,
        predictions=predictions,
        truth_image=truth_image,
        truth=truth,
        ranking=rank(
            predictions["label"].astype(np.int64),
            predictions["score"],
            unfold(predictions["hits"], thresholds),
            unfold(predictions["ignored"], thresholds),
            len(names),
            method,
            least_score,
        ),
    )


def unfold(bits: npt.NDArray[np.unsignedinteger[Any]], number: int) -> npt.NDArray[np.bool_]:
    """Return bits as columns, shape ``(n, number)``.

    Args:
        bits: Bits of each line, shape ``(n,)``.
        number: Number of bits.
    """
    return (bits[:, np.newaxis] >> np.arange(number, dtype=bits.dtype)) & bits.dtype.type(1) > 0


def metrics_under(
    dataset: Dataset, weights: npt.NDArray[np.float64], threshold: int
) -> dict[str, npt.NDArray[np.float64]]:
    """Return the six metrics for each row of weights, shape ``(b,)`` each.

    Args:
        dataset: The images.
        weights: Weightings of the images, shape ``(b, images)``.
        threshold: Place of the threshold of ``map`` and ``ap``.
    """
    one_owner = np.zeros(len(dataset.keys), dtype=np.int64)
    lines = []
    for weight in weights:
        truth = dataset.truths(weight)
        measured = dataset.measure(weight)
        lines.append(_summarise(measured, truth, dataset.key, one_owner, threshold))
    return {
        metric: np.array([line[metric][0] if len(line[metric]) else np.nan for line in lines]) for metric in lines[0]
    }


def _summarise(
    measured: RankedMetrics,
    truth: npt.NDArray[np.float64],
    key: npt.NDArray[np.int64],
    owner_of_key: npt.NDArray[np.int64],
    threshold: int,
) -> dict[str, npt.NDArray[np.float64]]:
    """Return the metrics of each owner (a dataset or an image), NaN for one without ground truth.

    Args:
        measured: Average precision and recall by group (a label of an owner) and threshold.
        truth: Weighted ground truths of each group.
        key: The label key of each group; keys of different owners differ.
        threshold: Place of the threshold of ``map`` and ``ap``.
    """
    at_one, over_ious = measured.precision[:, threshold], measured.precision.mean(axis=1)
    recall = measured.recall.mean(axis=1)
    owner = owner_of_key[key]
    owners = int(owner_of_key.max(initial=-1)) + 1
    even = (truth > 0).astype(float)
    out = {}
    for mean, each, values in (("map", "ap", at_one), ("map_averaged_over_ious", "ap_averaged_over_ious", over_ious),
                               ("mar", "ar", recall)):  # fmt: skip
        by_key = _weighted_mean(values, even, key, len(owner_of_key))
        out[mean] = _weighted_mean(by_key, (by_key == by_key).astype(float), owner_of_key, owners)
        out[each] = _weighted_mean(values, truth, owner, owners)
    return out


def _weighted_mean(
    values: npt.NDArray[np.float64], weight: npt.NDArray[np.float64], group: npt.NDArray[np.int64], groups: int
) -> npt.NDArray[np.float64]:
    """Return the weighted mean of the values of each group, NaN where all weights are 0."""
    total = np.bincount(group, weight, groups)
    summed = np.bincount(group, np.where(weight > 0, values, 0.0) * weight, groups)
    out: npt.NDArray[np.float64] = np.divide(summed, total, out=np.full(groups, np.nan), where=total > 0)
    return out


def values_by_image(
    matched: MatchedBatch, images: int, *, thresholds: int, returned: int, method: Method, least_score: float
) -> list[dict[str, float] | None]:
    """Return the six metrics of each image, ``None`` for one without ground truth.

    Args:
        images: Number of its images.
        thresholds: Number of thresholds, the first ones, that are averaged over.
        returned: Place of the threshold of ``map`` and ``ap``.
        method: Valor's rules or COCO's.
        least_score: Confidence below which a true positive does not count for recall.
    """
    if not len(matched.truth):
        return [None] * images
    labels = len(matched.names)
    groups, number = np.unique(matched.truth.image * labels + matched.truth.label, return_counts=True)
    group = matched.predictions.image * labels + matched.predictions.label
    place = np.minimum(np.searchsorted(groups, group), len(groups) - 1)
    relevant = np.flatnonzero(groups[place] == group)  # a label without ground truth in the image has no AP there
    ranking = rank(
        place[relevant],
        matched.predictions.score[relevant],
        matched.hits[relevant, :thresholds],
        matched.ignored[relevant, :thresholds],
        len(groups),
        method,
        least_score,
    )
    truth = number.astype(np.float64)
    measured = ranking.measure(np.ones(len(relevant)), truth)
    key_names = list(dict.fromkeys(key for key, _ in matched.names))
    key_of_label = np.array([key_names.index(key) for key, _ in matched.names])
    keys, key = np.unique(groups // labels * len(key_names) + key_of_label[groups % labels], return_inverse=True)
    owners, owner_of_key = np.unique(keys // len(key_names), return_inverse=True)
    values = _summarise(measured, truth, key, owner_of_key, returned)
    out: list[dict[str, float] | None] = [None] * images
    for line, image in enumerate(owners.tolist()):
        out[image] = {metric: float(column[line]) for metric, column in values.items()}
    return out


def _unpacked(
    payloads: Sequence[Mapping[str, Any]], kinds: Mapping[str, np.dtype[np.void]]
) -> tuple[list[LabelName], dict[str, tuple[npt.NDArray[np.int64], Records]]]:
    """Return the labels of all payloads, and for each kind the payload and the record of each line.

    Args:
        payloads: Payloads of images.
        kinds: The records' types by member.
    """
    numbers: dict[LabelName, int] = {}
    parts: dict[str, list[Records]] = {kind: [] for kind in kinds}
    for payload in payloads:
        names = [(key, value) for key, values in payload["labels"].items() for value in values]
        place = np.array([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.uint32)
        for kind, record in kinds.items():
            lines = np.frombuffer(base64.b64decode(payload[kind]), dtype=record).copy()
            if len(lines):
                lines["label"] = place[lines["label"]]
            parts[kind].append(lines)
    joined = {}
    for kind, record in kinds.items():
        lengths = [len(lines) for lines in parts[kind]]
        owner = np.repeat(np.arange(len(payloads)), lengths)
        joined[kind] = (owner, np.concatenate(parts[kind]) if parts[kind] else np.empty(0, dtype=record))
    return list(numbers), joined
