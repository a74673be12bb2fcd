"""Trends: a metric over the runs of a store, cut into epochs, with the changes of its level explained.

Values are compared within an *epoch* only: the consecutive runs whose evaluator was configured alike (judge and its
epoch, prompt, version, parameters: one digest). Where the configuration changes, a series is cut, since nobody can tell
there whether the model or the instrument moved. Runs that scored answers of before again (``leadline rescore``) tell
it: their values stand at the time of those answers and prolong the epoch backwards.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from threading import Lock
from typing import Any, Final

import numpy as np

from leadline.evaluators.ground import LeadlineError
from leadline.tasks.ground.numbers import duration, figure, money
from leadline.tasks.policy.questions import IN_WORDS, Question
from leadline.tasks.runs.history import RunHistory
from leadline.tasks.runs.run_index import RunLine
from leadline.tasks.statistics.change_points import MOST_POINTS, LevelChange, LevelSeries, find_changes
from leadline.tasks.store.store import Store

OF_RUNS: Final[Mapping[str, str]] = {
    "coverage": "Measured share of the scores",
    "unscored": "Unscored",
    "seconds": "Time of the run",
    "cost": "Cost of judge calls",
    "calls": "Judge calls",
}
"""Measures of whole runs, which their records have."""

MEASURES: Final[Mapping[str, str]] = {
    "value": "Mean",
    "corrected": "Mean as labels correct it",
    "flips": "Flips",
    "fails": "Share that fails the question",
    "coverage": "Measured share of the rows",
    "unscored": "Unscored rows",
}
"""What is known of a metric, or of a question of the verdict."""

LATELY_DAYS: Final = 30
"""Days before the last run in which a change is news."""

_Z: Final = 1.959964
_LEAST_POINTS: Final = 6
"""Points of an epoch from which on a change is looked for."""


@dataclass(frozen=True, slots=True)
class TrendSubject:
    """The subject of a series.

    Attributes:
        measure: One of :data:`MEASURES` or :data:`OF_RUNS`.
        evaluator: Its id, "" for a question of the verdict or a whole run.
        metric: The metric's key, or the question.
        model: The model's key, "" for a whole run.
        slice: ``COLUMN=VALUE``, or "".
    """

    dataset: str
    measure: str
    evaluator: str = ""
    metric: str = ""
    model: str = ""
    slice: str = ""


@dataclass(frozen=True, slots=True)
class TrendPoint:
    """A value of a run, with its 95 % interval where that is known.

    Attributes:
        verdict: What the run says of it, or "".
        config: Digest of what it depends on; a change begins an epoch.
        judge: The judge's model, or "".
        judge_epoch: How often a change of that judge was accepted.
        rescored: Id of the run that scored the answers of ``run`` again and has this value, or "".
    """

    run: RunLine
    value: float | None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    unscored: int = 0
    threshold: float | None = None
    verdict: str = ""
    config: str = ""
    judge: str = ""
    judge_epoch: int = 0
    rescored: str = ""

    @property
    def source(self) -> str:
        """Id of the run that has this value."""
        return self.rescored or self.run.id

    @property
    def coverage(self) -> float | None:
        """The share of rows that were measured."""
        return self.n / (self.n + self.unscored) if self.n is not None and self.n + self.unscored else None

    @property
    def error(self) -> float:
        """Its standard error, by its interval; not a number where that is not known."""
        if self.low is None or self.high is None or not math.isfinite(self.high - self.low):
            return math.nan
        return (self.high - self.low) / (2 * _Z)


@dataclass(frozen=True, slots=True)
class Trend:
    """A series with its changes.

    Attributes:
        higher_is_better: ``None`` where neither is.
        changes: Each with the place of its first point.
        again: Points of runs whose answers were scored again, in the order of those runs.
    """

    subject: TrendSubject
    name: str
    points: tuple[TrendPoint, ...]
    higher_is_better: bool | None
    is_share: bool
    changes: tuple[LevelChange, ...] = ()
    again: tuple[TrendPoint, ...] = ()

    @property
    def starts(self) -> list[int]:
        """The first points of its epochs."""
        return [0, *(at for at, (one, two) in enumerate(pairwise(self.points), start=1) if one.config != two.config)]

    def prolonged(self, start: int) -> list[TrendPoint]:
        """Return the points of runs before an epoch that were scored again as it scores.

        Args:
            start: Place of the epoch's first point.
        """
        before = {point.run.id for point in self.points[:start]}
        return [one for one in self.again if one.config == self.points[start].config and one.run.id in before]

    def before(self, place: int) -> TrendPoint:
        """Return the last point before a place, scored as the point there where it was scored again."""
        if place not in self.starts:
            return self.points[place - 1]
        return next(iter(reversed(self.prolonged(place))), self.points[place - 1])

    def shown(self, value: float | None) -> str:
        """Return a value in words."""
        if value is None:
            return figure(value)
        measure = self.subject.measure
        if measure == "seconds":
            return duration(value)
        if measure == "cost":
            return money(value)
        return f"{value:,.0f}" if measure in ("calls", "unscored") else figure(value, self.is_share)

    def about(self, change: LevelChange) -> TrendChange:
        """Return a change of this series with its run."""
        return TrendChange(self, change, self.points[change.place].run)


@dataclass(frozen=True, slots=True)
class TrendChange:
    """A change of the level of a series."""

    trend: Trend
    level: LevelChange
    run: RunLine

    @property
    def sides(self) -> tuple[str, str]:
        """The last run of the level before and the first of the new one, as they are named to be compared."""
        model = f":{self.trend.subject.model}" if self.trend.subject.model else ""
        return f"{self.trend.before(self.level.place).source}{model}", f"{self.run.id}{model}"

    @property
    def size(self) -> float:
        """Its size among others: points of a share, else part of the level before."""
        moved = abs(self.level.difference)
        return moved if self.trend.is_share else moved / max(abs(self.level.before), abs(self.level.after))

    @property
    def is_better(self) -> bool | None:
        """True if it is an improvement, ``None`` where neither way is."""
        upper = self.trend.higher_is_better
        return None if upper is None else (self.level.difference > 0) == upper

    @property
    def words(self) -> str:
        """The change in words: "Faithfulness of rag-2 is 6 points lower (2 to 10)"."""
        subject = self.trend.subject
        whose = f" of {subject.model}" if subject.model else ""
        where = f" where {subject.slice}" if subject.slice else ""
        down = self.level.difference < 0
        ends = (-self.level.high, -self.level.low) if down else (self.level.low, self.level.high)
        moved, least, most = (self._apart(max(0.0, one)) for one in (abs(self.level.difference), *ends))
        points = (" point" if moved == "1" else " points") if self.trend.is_share else ""
        way = "lower" if down else "higher"
        return f"{self.trend.name}{whose}{where} is {moved}{points} {way} ({least} to {most})"

    def _apart(self, difference: float) -> str:
        return _points(100 * difference) if self.trend.is_share else self.trend.shown(difference)

    @property
    def reason(self) -> str:
        """Known reasons: what stayed, and what else changed in that run: "same judge, same dataset"."""
        now, before = self.trend.points[self.level.place], self.trend.before(self.level.place)
        known = ["same judge"] if now.judge else []
        if before.rescored:
            known.append("the runs before were scored again like it")
        known.append("same dataset" if self.level.same_sample else "the dataset changed in that run")
        if before.run.version != now.run.version:
            known.append(f"Leadline went from {before.run.version} to {now.run.version}")
        return ", ".join(known)


def _points(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1.95 else f"{value:.1f}".removesuffix(".0")


@dataclass
class Trends:
    """The trends of a store, for many readers at once; what is found is found once as long as no run ends."""

    history: RunHistory
    _state: object = None
    _changes: tuple[list[TrendChange], int] = ([], 0)
    _asked_at: object = None
    _asked: dict[TrendSubject, list[Trend]] = field(default_factory=dict)
    _choices: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def of(self, dataset: str, measure: str, evaluator: str, metric: str, *, slice_: str = "") -> list[Trend]:
        """Return the series of all models of one measure, the changes among them found together."""
        asked = TrendSubject(dataset, measure, evaluator, metric, slice=slice_)
        with self._lock:
            self._forget()
            if asked not in self._asked:
                self._asked[asked] = self._series(asked)
            return self._asked[asked]

    def choices(self, dataset: str) -> list[dict[str, Any]]:
        """Return what is kept of a dataset's runs: each measure of a metric or question, with its models and slices."""
        with self._lock:
            self._forget()
            if dataset not in self._choices:
                self._choices[dataset] = self.history.lines("choices", self.runs(dataset))
            return self._choices[dataset]

    def _forget(self) -> None:
        """Drop what was found when less was known."""
        state = self._now()
        if self._asked_at != state:
            self._asked_at, self._asked, self._choices = state, {}, {}

    def _series(self, asked: TrendSubject) -> list[Trend]:
        runs, again, measure = self.runs(asked.dataset), self.rescored(asked.dataset), asked.measure
        if measure in OF_RUNS and not asked.metric:
            return _with_changes([_of_runs(asked, runs)])
        stored = "value" if measure in ("coverage", "unscored") else measure
        lines = self.history.lines(
            "series", [*runs, *again], measure=stored, evaluator=asked.evaluator, metric=asked.metric,
            slice=asked.slice or None,
        )  # fmt: skip
        return _with_changes(_trends(asked, lines, [*runs, *again]))

    def runs(self, dataset: str = "") -> list[RunLine]:
        """Return the completed runs of a dataset, or of all, the oldest first."""
        return sorted(
            (line for line in self._completed(dataset) if not line.rescored), key=lambda line: (_moment(line), line.id)
        )

    def rescored(self, dataset: str = "") -> list[RunLine]:
        """Return the completed runs that scored the answers of others again, the oldest first."""
        return sorted((line for line in self._completed(dataset) if line.rescored), key=lambda line: line.id)

    def _completed(self, dataset: str) -> list[RunLine]:
        return [line for line in self.history.index.lines() if line.has_report and dataset in ("", line.dataset)]

    def lately(self) -> tuple[list[TrendChange], int]:
        """Return what changed lately over the whole store, the largest first, and how many series were looked at.

        Of each dataset it looks at the last runs, as many as a change is looked for in.
        """
        state = self._now()
        with self._lock:
            if self._state != state:
                self._changes = self._found(self.runs(), self.rescored())
                self._state = state
            return self._changes

    def _now(self) -> object:
        """Return what is another thing whenever a trend may be another: what is kept, and what records say of runs."""
        return self.history.kept().files, tuple((line.id, line.tags) for line in self.history.index.lines())

    def _found(self, runs: Sequence[RunLine], again: Sequence[RunLine]) -> tuple[list[TrendChange], int]:
        by_dataset: defaultdict[str, list[RunLine]] = defaultdict(list)
        for line in runs:
            by_dataset[line.dataset].append(line)
        for dataset, of_it in by_dataset.items():
            by_dataset[dataset] = of_it[-MOST_POINTS:]
        for line in again:
            by_dataset[line.dataset].append(line)
        names = {line.id: dataset for dataset, of_it in by_dataset.items() for line in of_it}
        looked_at = [line for of_it in by_dataset.values() for line in of_it]
        lines: defaultdict[tuple[str, str, str, str], list[dict[str, Any]]] = defaultdict(list)
        for point in self.history.lines("leading", looked_at):
            lines[names[point["run"]], point["measure"], point["evaluator"], point["metric"]].append(point)
        series = [
            trend
            for (dataset, measure, evaluator, metric), points in lines.items()
            for trend in _trends(TrendSubject(dataset, measure, evaluator, metric), points, by_dataset[dataset])
        ]
        for dataset, of_it in by_dataset.items():
            own = [line for line in of_it if not line.rescored]
            series += [_of_runs(TrendSubject(dataset, measure), own) for measure in ("coverage", "seconds")]
        found = _with_changes(series)
        changes = [trend.about(change) for trend in found for change in trend.changes]
        newest = _moment(runs[-1]) if runs else 0.0
        news = [change for change in changes if newest - _moment(change.run) <= LATELY_DAYS * 86_400]
        return sorted(news, key=lambda change: -change.size), len(series)


def _moment(line: RunLine) -> float:
    try:
        return datetime.fromisoformat(line.started).timestamp()
    except ValueError:
        return 0.0


def _of_runs(subject: TrendSubject, runs: Sequence[RunLine]) -> Trend:
    """Return a measure of whole runs, by their records."""

    def value(line: RunLine) -> float | None:
        calls = line.judged.get("answered")
        priced = calls is not None and calls > (line.judged.get("unknown_price") or 0)
        known: dict[str, float | None] = {
            "coverage": line.coverage,
            "unscored": line.work.get("unscored"),
            "seconds": line.seconds,
            "cost": line.judged.get("cost_usd") if priced else None,
            "calls": calls,
        }
        return known[subject.measure]

    points = tuple(TrendPoint(line, value(line)) for line in runs)
    better = {"coverage": True, "unscored": False, "seconds": False}.get(subject.measure)
    return Trend(subject, OF_RUNS[subject.measure], points, better, is_share=subject.measure == "coverage")


def _trends(subject: TrendSubject, lines: Iterable[Mapping[str, Any]], runs: Sequence[RunLine]) -> list[Trend]:
    """Return the series of models from what is kept of them.

    Args:
        runs: In their order, and after them those that scored them again; of several in one way the last one counts.
    """
    own = {run.id: run for run in runs if not run.rescored}
    by_model: defaultdict[str, dict[str, Mapping[str, Any]]] = defaultdict(dict)
    for line in lines:
        by_model[str(line["model"])][line["run"]] = line
    found = []
    for model, known in sorted(by_model.items()):
        points = [_point(run, known[run.id]) for run in own.values() if run.id in known]
        if not points:
            continue
        scored_again = {
            (other.rescored, known[other.id]["config"]): replace(
                _point(own[other.rescored], known[other.id]), rescored=other.id
            )
            for other in runs
            if other.rescored in own and other.id in known
        }
        order = {point.run.id: place for place, point in enumerate(points)}
        again = sorted((one for one in scored_again.values() if one.run.id in order), key=lambda one: order[one.run.id])
        last = known[points[-1].run.id]
        whose = replace(subject, model=model)
        trend = Trend(
            whose, _name(whose, last), tuple(points), last["higher_is_better"], is_share=last["is_share"],
            again=tuple(again),
        )  # fmt: skip
        found.append(_derived(trend))
    return found


def _point(run: RunLine, line: Mapping[str, Any]) -> TrendPoint:
    ends = (line["value"], line["low"], line["high"])
    value, low, high = (one if one is not None and math.isfinite(one) else None for one in ends)
    return TrendPoint(
        run, value, low, high, line["n"], line["unscored"] or 0, line["threshold"], line["verdict"] or "",
        line["config"] or "", line["judge"] or "", line["epoch"] or 0,
    )  # fmt: skip


def _name(subject: TrendSubject, line: Mapping[str, Any]) -> str:
    if subject.measure == "fails":
        question = subject.metric
        words = IN_WORDS[Question(question)] if question in set(Question) else question
        return f"The share that fails “{words}”"
    named = str(line["name"])
    return named if subject.measure == "value" else f"{MEASURES[subject.measure]} ({named})"


def _derived(trend: Trend) -> Trend:
    """Return a trend of means as the coverage or the unscored rows that were asked for."""
    measure = trend.subject.measure
    if measure not in ("coverage", "unscored"):
        return trend
    points = tuple(
        TrendPoint(
            point.run, point.coverage if measure == "coverage" else point.unscored, n=point.n, unscored=point.unscored,
            config=point.config, judge=point.judge, judge_epoch=point.judge_epoch,
        )
        for point in trend.points
    )  # fmt: skip
    is_coverage = measure == "coverage"
    return replace(trend, points=points, higher_is_better=is_coverage, is_share=is_coverage, again=())


def _with_changes(trends: Sequence[Trend]) -> list[Trend]:
    """Return trends with the changes within their epochs, found in all of them together.

    An epoch begins with the runs before it that were scored again like it, so that a change of the model at its
    beginning is found; what changed among those runs is told by the epoch that they are of.
    """
    places: list[tuple[int, list[int | None]]] = []
    series: list[LevelSeries] = []
    for number, trend in enumerate(trends):
        for start, end in pairwise([*trend.starts, len(trend.points)]):
            every: list[tuple[int | None, TrendPoint]] = [(None, point) for point in trend.prolonged(start)]
            every += [(at, trend.points[at]) for at in range(start, end)]
            known = [(at, point) for at, point in every if point.value is not None]
            if len(known) >= _LEAST_POINTS:
                points = [point for _, point in known]
                places.append((number, [at for at, _ in known]))
                series.append(
                    LevelSeries(
                        np.array([point.value for point in points], np.float64),
                        np.array([point.error for point in points], np.float64),
                        [point.run.cases for point in points],
                    )
                )
    found: defaultdict[int, list[LevelChange]] = defaultdict(list)
    for (number, at), changes in zip(places, find_changes(series), strict=True):
        found[number] += [replace(change, place=place) for change in changes if (place := at[change.place]) is not None]
    return [replace(trend, changes=tuple(found[number])) for number, trend in enumerate(trends)]


def epoch_in_words(store: Store, trend: Trend, start: int) -> str:
    """Say what an epoch of a series is made of, and what changed since the one before."""
    point = trend.points[start]
    judge = f"judge {point.judge}" if point.judge else ""
    if point.judge_epoch:
        judge += f" in its epoch {point.judge_epoch}"
    if not start:
        return judge or "first configuration"
    was, now = (_identity(store, trend.points[at].run, trend.subject.evaluator) for at in (start - 1, start))
    changed = sorted(key for key in {*was, *now} if was.get(key) != now.get(key))
    told = ", ".join(changed) if changed else "configuration"
    return f"{told} changed" + (f": {judge}" if judge else "")


def _identity(store: Store, line: RunLine, evaluator: str) -> Mapping[str, Any]:
    try:
        known = store.run(line.id).read().get("identities") or {}
    except LeadlineError:
        return {}
    found = known.get(evaluator) or {}
    return found if isinstance(found, Mapping) else {}
