"""The chart of trends: what is drawn where, for a template that makes SVG of it.

Places are whole numbers of a drawing 1,000 wide, which browsers scale. A series is a line within each of its epochs,
with its intervals as a band; its points are marked by shapes, since colours alone tell some people nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from leadline.tasks.runs.run_index import RunLine
from leadline.tasks.runs.trends import Trend, TrendPoint

WIDTH: Final = 1000
HEIGHT: Final = 340
LEFT, RIGHT, TOP, BOTTOM = 62, 16, 26, 46
STYLES: Final = 6
"""Colours and shapes of series; further ones begin again."""

MOST_POINTS: Final = 240
"""Points of a series up to which all are drawn: of more, marks would hide each other."""

_LABELS: Final = 7
_STEPS: Final = 5


@dataclass(frozen=True, slots=True)
class DrawnPoint:
    """A drawn point: where it is, what it says, and the id of the run that has it."""

    x: int
    y: int
    text: str
    run: str
    changed: bool
    fails: bool


@dataclass(frozen=True, slots=True)
class DrawnSeries:
    """A series.

    Attributes:
        style: Number of its colour and shape.
        lines: A path for each epoch.
        bands: A path for each epoch's intervals.
        again: Points of runs that scored the answers of others again.
    """

    name: str
    style: int
    lines: tuple[str, ...]
    bands: tuple[str, ...]
    points: tuple[DrawnPoint, ...]
    again: tuple[DrawnPoint, ...]


@dataclass(frozen=True, slots=True)
class ChartMark:
    """A line across the chart, at a run: a tag, a new dataset, the beginning of an epoch."""

    x: int
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart.

    Attributes:
        ticks: Values of the vertical axis, with their places.
        days: Days of the horizontal axis, with their places.
        threshold: Where the last threshold lies, and what it is; ``None`` without one.
        together: Neighbours of which only the lowest and the highest are drawn; 1 if all are.
    """

    series: tuple[DrawnSeries, ...]
    ticks: tuple[tuple[int, str], ...]
    days: tuple[tuple[int, str], ...]
    marks: tuple[ChartMark, ...]
    threshold: tuple[int, str] | None
    together: int
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM


def draw(trends: Sequence[Trend], runs: Sequence[RunLine]) -> Chart | None:
    """Return the chart of some series over runs; ``None`` where there is nothing to draw."""
    places = {run.id: number for number, run in enumerate(runs)}
    every = [[point for point in trend.points if point.run.id in places] for trend in trends]
    shown = [_drawn(trend, of) for trend, of in zip(trends, every, strict=True)]
    again = [[point for point in trend.again if point.run.id in places] for trend in trends]
    points = [point for of in (*shown, *again) for point in of if point.value is not None]
    if not points:
        return None
    limits = [point.threshold for point in points if point.threshold is not None]
    low, high, steps = _scale([*_ends(points), *limits[-1:]])
    step = (WIDTH - LEFT - RIGHT) / max(1, len(runs) - 1)

    def x(run: RunLine) -> int:
        return round(LEFT + (places[run.id] * step if len(runs) > 1 else (WIDTH - LEFT - RIGHT) / 2))

    def y(value: float) -> int:
        return round(TOP + (high - value) / (high - low) * (HEIGHT - TOP - BOTTOM))

    def drawn(trend: Trend, of: Sequence[TrendPoint]) -> tuple[DrawnPoint, ...]:
        changed = _changed(trend)
        return tuple(
            DrawnPoint(
                x(one.run), y(one.value), _told(trend, one), one.source, one.source in changed, one.verdict == "fail"
            )
            for one in of
            if one.value is not None
        )

    def series(number: int, trend: Trend, of: Sequence[TrendPoint]) -> DrawnSeries:
        parts = _epochs(trend, of)
        bands = [[one for one in part if one.low is not None and one.high is not None] for part in parts]
        return DrawnSeries(
            trend.subject.model or trend.name,
            number % STYLES,
            tuple(_path((x(one.run), y(one.value)) for one in part if one.value is not None) for part in parts if part),
            tuple(
                _path([(x(one.run), y(one.low or 0.0)) for one in part]
                      + [(x(one.run), y(one.high or 0.0)) for one in reversed(part)]) + "Z"
                for part in bands if part
            ),
            drawn(trend, of),
            drawn(trend, again[number]),
        )  # fmt: skip

    apart = max(1, math.ceil(len(runs) / _LABELS))
    return Chart(
        tuple(series(number, trend, of) for number, (trend, of) in enumerate(zip(trends, shown, strict=True))),
        tuple((y(value), trends[0].shown(value)) for value in steps),
        tuple((x(run), run.day[:10]) for run in runs[::apart]),
        tuple(ChartMark(x(run), kind, text) for run, kind, text in _marks(trends, runs)),
        (y(limits[-1]), trends[0].shown(limits[-1])) if limits else None,
        max(map(_together, every)),
    )


def _drawn(trend: Trend, points: list[TrendPoint]) -> list[TrendPoint]:
    """Return the points of a series that are drawn: all, or the lowest and the highest of each short stretch of runs.

    No change of a level is lost, nor an end of an epoch.
    """
    together = _together(points)
    if together == 1:
        return points
    first = {trend.points[start].run.id for start in trend.starts} | _changed(trend)
    starts = [place for place, point in enumerate(points) if point.run.id in first]
    kept = {0, len(points) - 1, *starts, *(place - 1 for place in starts if place)}
    known = [(point.value, place) for place, point in enumerate(points) if point.value is not None]
    for at in range(0, len(known), together):
        kept |= {min(known[at : at + together])[1], max(known[at : at + together])[1]}
    return [points[place] for place in sorted(kept)]


def _together(points: Sequence[TrendPoint]) -> int:
    """Return the number of neighbours of which only the lowest and the highest are drawn, 1 if all are."""
    return math.ceil(len(points) * 2 / MOST_POINTS) if len(points) > MOST_POINTS else 1


def _changed(trend: Trend) -> set[str]:
    return {trend.points[change.place].run.id for change in trend.changes}


def _epochs(trend: Trend, points: Sequence[TrendPoint]) -> list[list[TrendPoint]]:
    """Return the points of a series that are shown, apart for each epoch."""
    first = {trend.points[start].run.id for start in trend.starts}
    parts: list[list[TrendPoint]] = [[]]
    for point in points:
        if point.run.id in first:
            parts.append([])
        if point.value is not None:
            parts[-1].append(point)
    return [part for part in parts if part]


def _told(trend: Trend, point: TrendPoint) -> str:
    """Return what a point says when it is pointed at or read out."""
    said = f"{trend.subject.model or trend.name}, {point.run.day}: {trend.shown(point.value)}"
    if point.low is not None and point.high is not None:
        said += f" ({trend.shown(point.low)} to {trend.shown(point.high)})"
    said += ", scored again" if point.rescored else ""
    return f"{said}, {point.verdict}" if point.verdict else said


def _marks(trends: Sequence[Trend], runs: Sequence[RunLine]) -> list[tuple[RunLine, str, str]]:
    """Return what is marked at runs: tags that the run before had not, new datasets, new epochs."""
    starts = {trend.points[start].run.id for trend in trends for start in trend.starts[1:]}
    marks = [(run, "epoch", "new epoch") for run in runs if run.id in starts]
    marks += [(run, "dataset", "new dataset") for one, run in pairwise(runs) if one.cases != run.cases]
    had = [(), *(run.tags for run in runs)]
    tagged = [(run, [tag for tag in run.tags if tag not in before]) for before, run in zip(had, runs, strict=False)]
    return marks + [(run, "tag", ", ".join(tags)) for run, tags in tagged if tags]


def _ends(points: Iterable[TrendPoint]) -> list[float]:
    return [one for point in points for one in (point.value, point.low, point.high) if one is not None]


def _scale(values: Sequence[float]) -> tuple[float, float, list[float]]:
    """Return the ends of an axis for some values, and round values along it."""
    low, high = min(values), max(values)
    span = (high - low) or abs(high) or 1.0
    step = 10 ** math.floor(math.log10(span / _STEPS))
    step *= next((by for by in (1, 2, 5) if span / (step * by) <= _STEPS), 10)
    first, last = math.floor(low / step), math.ceil(high / step)
    last += first == last
    return first * step, last * step, [number * step for number in range(first, last + 1)]


def _path(points: Iterable[tuple[int, int]]) -> str:
    return "M" + "L".join(f"{x} {y}" for x, y in points)
