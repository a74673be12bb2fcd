"""Charts of lines in the unit square, as SVG paths."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from leadline.evaluators.data import Curve

WIDTH: Final = 320
HEIGHT: Final = 240
LEFT: Final = 38
BOTTOM: Final = 34
TOP: Final = 8
RIGHT: Final = 10
MOST_LINES: Final = 8
"""Lines of one chart; there is a colour for each."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line: its label, its path, and the points to mark where there are few."""

    label: str
    path: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on both axes."""

    label: str
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Plot:
    """A chart of the size :data:`WIDTH` by :data:`HEIGHT`; ``more`` lines are left out."""

    name: str
    x_label: str
    y_label: str
    diagonal: str
    ticks: Sequence[Tick]
    lines: Sequence[Line]
    more: int


def plot(curve: Curve) -> Plot:
    """Return a chart of a curve's first series."""
    series = curve.get("series", ())
    lines = []
    for one in series[:MOST_LINES]:
        points = [
            (_x(x), _y(y)) for x, y in zip(one["x"], one["y"], strict=True) if math.isfinite(x) and math.isfinite(y)
        ]
        path = "".join(f"{'L' if number else 'M'}{x:g} {y:g}" for number, (x, y) in enumerate(points))
        lines.append(Line(one["label"], path, points if len(points) <= 25 else ()))
    return Plot(
        name=curve.get("name", ""),
        x_label=curve.get("x_label", ""),
        y_label=curve.get("y_label", ""),
        diagonal=f"M{_x(0):g} {_y(0):g}L{_x(1):g} {_y(1):g}" if curve.get("diagonal") else "",
        ticks=[Tick(f"{share:g}", _x(share), _y(share)) for share in (0, 0.25, 0.5, 0.75, 1)],
        lines=lines,
        more=max(0, len(series) - MOST_LINES),
    )


def _x(share: float) -> float:
    return round(LEFT + min(1.0, max(0.0, share)) * (WIDTH - LEFT - RIGHT), 2)


def _y(share: float) -> float:
    return round(HEIGHT - BOTTOM - min(1.0, max(0.0, share)) * (HEIGHT - BOTTOM - TOP), 2)
