"""Scores of answers that a changed instrument scored again: paired differences, pooled over several runs.

The same answers are scored twice, so that nothing but the judge, the prompt or the evaluator differs. A case that comes
in several runs counts as one cluster, with the copies that perturb it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import scipy

from leadline.evaluators.ground import LeadlineError, count
from leadline.tasks.compare.metric_choice import differences
from leadline.tasks.compare.run_pair import SIDES, metrics_of, models_of, open_sides, pair_rows, pair_values
from leadline.tasks.db import sql
from leadline.tasks.ground.numbers import figure
from leadline.tasks.runs.trends import Trend
from leadline.tasks.statistics.paired import PairedSeries, measure
from leadline.tasks.store.store import Run, Store

if TYPE_CHECKING:
    from leadline.tasks.statistics.bounded_mean import Floats, Ints

_PARTS: Final = ("judge", "prompt", "version")
"""Parts of an evaluator's configuration that a person knows; any other is its configuration."""

MOST_JOINED: Final = 10
"""Runs of an epoch, the last ones, that join it with the next."""


@dataclass(frozen=True, slots=True)
class RescoredDifference:
    """A metric of one model, scored in one way and in another.

    Attributes:
        changed: The part of the configuration that differs: ``judge``, ``prompt``, ``version`` or ``configuration``;
            "" where the configuration is the same, so that the answers differ.
        judge: The later judge's model, or "".
        low: Lower end of the 95 % interval of the difference, later less earlier; ``None`` where there is none.
        unscored: Answers that one of the two could not score.
        is_share: Its values are told in percentage points.
    """

    evaluator: str
    metric: str
    name: str
    model: str
    changed: str
    judge: str
    before: float
    after: float
    low: float | None
    high: float | None
    answers: int
    cases: int
    runs: int
    unscored: int
    is_share: bool

    @property
    def effect(self) -> float:
        """The later mean less the earlier one."""
        return self.after - self.before

    @property
    def size(self) -> str:
        """The difference in words: "3.1 points lower (2.2 to 4.0)"."""
        way, other, sign = ("lower", "higher", -1) if self.effect < 0 else ("higher", "lower", 1)
        unit = " points" if self.is_share else ""
        moved = f"{self._shown(abs(self.effect))}{unit} {way if self.effect else 'apart'}"
        if self.low is None or self.high is None:
            return moved
        least, most = sorted((sign * self.low, sign * self.high))
        if least < 0:
            return f"{moved} ({self._shown(-least)} {other} to {self._shown(most)} {way}, which may be chance)"
        return f"{moved} ({self._shown(least)} to {self._shown(most)})"

    @property
    def words(self) -> str:
        """The difference as a sentence without its end."""
        judge = f" {self.judge}" if self.judge and self.changed == "judge" else ""
        answers = f"on the same {count(self.answers, 'answer')} of {count(self.runs, 'run')}"
        left = f"; {self.unscored:,} could not be compared" if self.unscored else ""
        return f"the new {self.changed}{judge} scores {self.size} {answers}{left}"

    def to_json(self) -> dict[str, Any]:
        """Return it for programs."""
        known = {name: getattr(self, name) for name in self.__slots__}
        return known | {"effect": self.effect, "words": self.words}

    def _shown(self, value: float) -> str:
        return f"{100 * value:.1f}" if self.is_share else figure(value)


@dataclass(frozen=True, slots=True)
class EpochJoin:
    """The difference between two epochs of a series, told apart: the instrument's, and the model's.

    Attributes:
        instrument: The answers before the change, scored in both ways.
        model: The answers of the first run after it and of the last one before, scored in the new way alone; ``None``
            where they have no case in common.
        before: Id of the run that scored the last answers before again.
        after: Id of the first run after.
    """

    instrument: RescoredDifference
    model: RescoredDifference | None
    before: str
    after: str

    @property
    def model_words(self) -> str:
        """The model's own difference as a sentence without its end; "" where it is not known."""
        if self.model is None:
            return ""
        found = self.model
        cases = count(found.answers, "case")
        return f"Scored alike, {found.model} is {found.size} in the first run after than in the last before, on {cases}"


@dataclass(slots=True)
class _Pool:
    """The pairs of a metric from several runs.

    Attributes:
        cases: Key of the case of each pair.
        clusters: Name of its cluster, of its own run.
    """

    line: Mapping[str, Any]
    changed: str
    cases: list[str] = field(default_factory=list)
    clusters: list[tuple[int, int]] = field(default_factory=list)
    before: list[Floats] = field(default_factory=list)
    after: list[Floats] = field(default_factory=list)
    runs: int = 0
    unscored: int = 0


def rescored_differences(
    store: Store,
    pairs: Iterable[tuple[Run, Run]],
    *,
    evaluator: str = "",
    metric: str = "",
    slice_: str = "",
) -> list[RescoredDifference]:
    """Return the differences between runs and those that scored their answers again, pooled over the pairs.

    Pairs whose configurations changed in another way are pooled apart. Metrics that have no value per answer are left
    out, and without a metric's name all but those that stand for their evaluators.

    Args:
        pairs: Each run, and the one after it.
        evaluator: Only this one.
        metric: Only this one of it.
        slice_: Only answers that are in it in both runs, as ``COLUMN=VALUE``.

    Raises:
        UsageError: The results or the dataset of a run are gone.
        StoreError: Another process writes one of the runs just now.
    """
    pools: dict[tuple[str, ...], _Pool] = {}
    for place, (earlier, later) in enumerate(pairs):
        with open_sides(store, earlier, later) as connection:
            ours, theirs = (metrics_of(connection, side) for side in SIDES)
            chosen = [
                (ours[key], line)
                for key, line in theirs.items()
                if key in ours and not line["dataset_level"] and _is_wanted(line, evaluator, metric)
            ]
            before, after = (
                {str(line["model_key"]): int(line["model_id"]) for line in models_of(connection, side)}
                for side in SIDES
            )
            keys = dict(connection.execute("SELECT case_no, case_key FROM both_cases").fetchall()) if chosen else {}
            for key in [key for key in before if chosen and key in after]:
                pair_rows(connection, before[key], after[key])
                if slice_:
                    connection.execute(sql("compare/keep_slice"), {"slice": slice_})
                lines = [((one["metric_id"], other["metric_id"]), other) for one, other in chosen]
                for (one, other), (counted, values) in zip(chosen, pair_values(connection, lines), strict=True):
                    name = (other["evaluator"], other["metric"], key, one["config"], other["config"])
                    if name not in pools:
                        pools[name] = _Pool(other, _part_that_changed(one, other))
                    pool = pools[name]
                    families = np.arange(len(values.cases)) if values.clusters is None else values.clusters
                    pool.cases += [keys[case] for case in values.cases.tolist()]
                    pool.clusters += [(place, family) for family in families.tolist()]
                    pool.before.append(values.baseline)
                    pool.after.append(values.candidate)
                    pool.runs += bool(len(values.cases))
                    pool.unscored += counted.coverage.unscored
    return [found for name, pool in sorted(pools.items()) for found in _measured(pool, name[2])]


def join_epochs(store: Store, trend: Trend, start: int) -> EpochJoin | None:
    """Join an epoch of a series with the one before by runs of that one that were scored again like it.

    Args:
        trend: Of the means of a metric over all rows, or over those of a slice.
        start: Place of the epoch's first point, but not of the first epoch.

    Returns:
        The join; ``None`` where no run was scored again, or none whose answers can be compared.
    """
    if trend.subject.measure != "value":
        return None
    first, last = trend.points[start], trend.points[start - 1]
    configs = {point.run.id: point.config for point in trend.points[:start]}
    again = [point for point in trend.prolonged(start) if configs[point.run.id] == last.config]
    subject = trend.subject
    pairs = tuple((point.run.id, point.rescored) for point in again[-MOST_JOINED:])
    ends = (again[-1].rescored if again else "", first.run.id)

    def of_model(pairs: tuple[tuple[str, str], ...]) -> RescoredDifference | None:
        found = _kept_differences(store, pairs, subject.evaluator, subject.metric, subject.slice)
        return next((one for one in found if one.model == subject.model), None)

    try:
        instrument = of_model(pairs)
        return EpochJoin(instrument, of_model((ends,)), *ends) if instrument else None
    except LeadlineError:  # the results of one are gone, or another process has it open
        return None


@lru_cache(maxsize=256)
def _kept_differences(
    store: Store,
    pairs: tuple[tuple[str, str], ...],
    evaluator: str,
    metric: str,
    slice_: str,
) -> tuple[RescoredDifference, ...]:
    """Return the differences of all models; completed runs do not change, and a pair takes some 0.2 s to be read."""
    runs = [(store.run(earlier), store.run(later)) for earlier, later in pairs]
    return tuple(rescored_differences(store, runs, evaluator=evaluator, metric=metric, slice_=slice_))


def _is_wanted(line: Mapping[str, Any], evaluator: str, metric: str) -> bool:
    if evaluator not in ("", line["evaluator"]):
        return False
    return bool(line["metric"] == metric if metric else line["is_primary"])


def _part_that_changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Return the known part in which two configurations differ, the judge first; "" where they are the same."""
    changed = {text.partition(":")[0].partition(".")[0].removesuffix("s") for text in differences(before, after)}
    return next((part for part in _PARTS if part in changed), "configuration" if changed else "")


def _measured(pool: _Pool, model: str) -> Iterator[RescoredDifference]:
    """Yield the difference of a pool; nothing where it has no pairs, or infinite ones."""
    before, after = np.concatenate(pool.before), np.concatenate(pool.after)
    if not len(before) or not np.isfinite(before).all() or not np.isfinite(after).all():
        return
    line, clusters = pool.line, _joined(pool.cases, pool.clusters)
    binary = bool(line["is_share"]) and all(bool(((side == 0) | (side == 1)).all()) for side in (before, after))
    found = measure(PairedSeries(after - before, clusters, line["high"] - line["low"], binary))
    interval = found.interval if found.interval and math.isfinite(found.interval.high - found.interval.low) else None
    judge = json.loads(line["identity"]).get("judge") or {}
    own = str(line["evaluator_name"])
    yield RescoredDifference(
        line["evaluator"], line["metric"], own if line["is_primary"] else f"{own} · {line['name']}", model,
        pool.changed, str(judge.get("model") or ""), float(before.mean()), float(after.mean()),
        interval.low if interval else None, interval.high if interval else None,
        len(before), found.groups, pool.runs, pool.unscored, line["low"] == 0 and line["high"] == 1,
    )  # fmt: skip


def _joined(cases: Sequence[str], clusters: Sequence[tuple[int, int]]) -> Ints | None:
    """Number clusters over all runs: those that share a case are one. ``None`` where every pair stands alone."""
    _, of_case = np.unique(np.asarray(cases), return_inverse=True)
    _, of_run = np.unique(np.asarray(clusters), axis=0, return_inverse=True)
    first = int(of_case.max()) + 1
    size = first + int(of_run.max()) + 1
    links = scipy.sparse.coo_array((np.ones(len(cases), bool), (of_case, first + of_run)), shape=(size, size))
    number, labels = scipy.sparse.csgraph.connected_components(links, directed=False)
    return None if number == len(cases) else np.asarray(labels[of_case], np.int64)
