"""Values by label, curves, confusion matrices and examples of errors, drawn as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from leadline.evaluators.data import (
    Annotation,
    Confusion,
    Curve,
    Details,
    Example,
    LabelValues,
    Point,
    decode_mask,
    geometry,
    is_rotated,
    parts,
)
from leadline.tasks.publish.facts import EvaluatorView, Facts, ModelView, read_details
from leadline.tasks.publish.report.section import Section, register_section
from leadline.tasks.publish.run_results import RunResults

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MOST_MODELS: Final = 12
"""Models of one evaluator whose details the page shows; the files contain all."""
MOST_ROWS: Final = 60
"""Labels in the page's table."""
MOST_SQUARES: Final = 25
"""Labels in the page's confusion matrix."""
MOST_PICTURES: Final = 24
"""Examples in the page, for each model."""


@register_section
class LabelDetails(Section):
    """The details that evaluators give of a model beyond its metrics."""

    name = "details"
    title = "Labels"
    order = 700

    def context(self, results: RunResults) -> Mapping[str, Any] | None:
        """Return the drawings by evaluator and model; without any, the section is left out."""
        found = _page_details(results.connection, results.facts)
        return {"details": found} if found else None


@dataclass(frozen=True, slots=True)
class Square:
    """One field of a confusion matrix: its count, how dark it is (0 to 4), and its title."""

    count: float
    depth: int
    right: bool
    title: str


@dataclass(frozen=True, slots=True)
class Matrix:
    """A confusion matrix ready to be drawn; each line is an expected label with its squares."""

    key: str
    columns: Sequence[str]
    lines: Sequence[tuple[str, Sequence[Square]]]
    cut: int


@dataclass(frozen=True, slots=True)
class ModelDetails:
    """The details of one model, ready to be drawn.

    Attributes:
        keys: Lines of whole label keys.
    """

    model: ModelView
    names: Sequence[str]
    keys: Sequence[LabelValues]
    labels: Sequence[LabelValues]
    more: int
    plots: Sequence[Plot]
    matrices: Sequence[Matrix]
    pictures: Sequence[Canvas]
    notes: Sequence[str]


def _page_details(connection: DuckDBPyConnection, facts: Facts) -> list[tuple[EvaluatorView, list[ModelDetails]]]:
    """Return what the page draws, by evaluator; evaluators without details are left out."""
    out = []
    for evaluator in facts.evaluators:
        found = read_details(connection, evaluator.id)
        shown = [_drawn(model, found[model.id]) for model in facts.models if model.id in found][:MOST_MODELS]
        if shown:
            out.append((evaluator, shown))
    return out


def _drawn(model: ModelView, details: Details) -> ModelDetails:
    lines = details.get("labels", ())
    labels = [line for line in lines if line["value"]]
    return ModelDetails(
        model=model,
        names=list(dict.fromkeys(name for line in (*labels, *lines) for name in line["values"])),
        keys=[line for line in lines if not line["value"]],
        labels=labels[:MOST_ROWS],
        more=max(0, len(labels) - MOST_ROWS),
        plots=[plot(curve) for curve in details.get("curves", ())],
        matrices=[_matrix(confusion) for confusion in details.get("confusion", ())],
        pictures=[canvas(example) for example in details.get("examples", ())[:MOST_PICTURES]],
        notes=details.get("notes", ()),
    )


def _matrix(confusion: Confusion) -> Matrix:
    """Shade each square by its share of its line; only the first labels of a large matrix are shown."""
    columns = confusion["predicted"]
    across = range(min(len(columns), MOST_SQUARES))
    lines = []
    for expected, counts in list(zip(confusion["expected"], confusion["counts"], strict=True))[:MOST_SQUARES]:
        total = sum(counts)
        squares = [
            Square(
                count=counts[at],
                depth=_depth(counts[at] / total) if total else 0,
                right=columns[at] == expected,
                title=f"expected {expected}, predicted {columns[at]}: {counts[at]:g} of {total:g}",
            )
            for at in across
        ]
        lines.append((expected, squares))
    cut = max(len(columns), len(confusion["expected"])) - MOST_SQUARES
    return Matrix(confusion["key"], columns[:MOST_SQUARES], lines, max(0, cut))


def _depth(share: float) -> int:
    return 0 if not share else 1 + min(3, int(share * 4))


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


CANVAS_WIDTH: Final = 300.0
TALLEST: Final = 340.0
MOST_SHAPES: Final = 40
"""Geometries drawn on either side."""
MOST_CORNERS: Final = 200
"""Points of a ring that are drawn; of longer ones every n-th."""
MOST_PIXELS: Final = 25_000_000
"""Pixels of a mask that is drawn; of a larger one the frame."""
_GRID: Final = 100
"""Cells along each side of a drawn mask, at most."""
_KINDS: Final = {
    "misclassification": "Misclassified",
    "misclassifications": "Misclassified",
    "hallucination": "Nothing there",
    "hallucinations": "Nothing there",
    "no_prediction": "Missed",
    "no_predictions": "Missed",
}


@dataclass(frozen=True, slots=True)
class Shape:
    """A geometry as an SVG path, with its label where it begins."""

    path: str
    label: str
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Canvas:
    """One example.

    Attributes:
        width: Width of the drawing; 0 where there is nothing to draw.
    """

    kind: str
    case: str
    label: str
    score: float | None
    width: float
    height: float
    expected: Sequence[Shape]
    predicted: Sequence[Shape]
    labels_expected: Sequence[str]
    labels_predicted: Sequence[str]


def canvas(example: Example) -> Canvas:
    """Return an example ready to be drawn."""
    sides = [_annotations(example.get("expected")), _annotations(example.get("predicted"))]
    drawn = [[one for one in side if geometry(one)][:MOST_SHAPES] for side in sides]
    width, height = _size(example.get("size"), [*drawn[0], *drawn[1]])
    scale = min(CANVAS_WIDTH / width, TALLEST / height) if width and height and any(drawn) else 0.0
    kind = example.get("kind", "")
    return Canvas(
        kind=_KINDS.get(kind, kind.replace("_", " ").capitalize()),
        case=example.get("case", ""),
        label=example.get("value", ""),
        score=example.get("score"),
        width=round(width * scale, 1),
        height=round(height * scale, 1),
        expected=[_shape(one, scale) for one in drawn[0]],
        predicted=[_shape(one, scale) for one in drawn[1]],
        labels_expected=[_label(one) for one in sides[0] if not geometry(one)],
        labels_predicted=[_label(one) for one in sides[1] if not geometry(one)],
    )


def _annotations(listed: Sequence[Annotation | int] | None) -> list[Annotation]:
    return [one for one in listed or () if not isinstance(one, int)]


def _label(annotation: Annotation) -> str:
    texts = []
    for label in annotation["labels"]:
        score = label.get("score")
        texts.append(label["value"] if score is None else f"{label['value']} {score:.2f}")
    return ", ".join(texts)


def _size(given: Sequence[float] | None, annotations: Iterable[Annotation]) -> tuple[float, float]:
    """Return width and height of the item: those in the dataset, else the extent of its annotations."""
    if given:
        return float(given[0]), float(given[1])
    right = bottom = 0.0
    for annotation in annotations:
        if "raster" in annotation:
            height, width = annotation["raster"]["size"]
            right, bottom = max(right, width), max(bottom, height)
        for x, y in _points(annotation):
            right, bottom = max(right, x * 1.05), max(bottom, y * 1.05)
    return (right, bottom) if right > 0 and bottom > 0 else (0.0, 0.0)


def _points(annotation: Annotation) -> Iterator[Point]:
    for ring in _rings(annotation):
        yield from ring


def _rings(annotation: Annotation) -> list[Sequence[Point]]:
    box = annotation.get("box")
    if box is not None:
        if is_rotated(annotation):
            return [cast("Sequence[Point]", box)]
        left, top, right, bottom = cast("Sequence[float]", box)
        return [[(left, top), (right, top), (right, bottom), (left, bottom)]]
    return [ring for part in parts(annotation) for ring in part]


def _shape(annotation: Annotation, scale: float) -> Shape:
    raster = annotation.get("raster")
    path = _mask(raster, scale) if raster else "".join(_ring(ring, scale) for ring in _rings(annotation))
    corners = list(_points(annotation)) or [(0.0, 0.0)]
    x, y = min(x for x, _ in corners), min(y for _, y in corners)
    if raster:
        x, y = _first_pixel(path)
        return Shape(path, _label(annotation), x, y)
    return Shape(path, _label(annotation), round(x * scale, 1), round(y * scale, 1))


def _ring(ring: Sequence[Point], scale: float) -> str:
    step = -(-len(ring) // MOST_CORNERS)
    return "M" + "L".join(f"{x * scale:.1f} {y * scale:.1f}" for x, y in ring[::step]) + "Z"


def _mask(raster: Any, scale: float) -> str:
    """Return a mask as cells of a coarse grid, joined along their rows; cells at the edge end with the item."""
    height, width = raster["size"]
    if height * width > MOST_PIXELS:
        return _ring([(0, 0), (width, 0), (width, height), (0, height)], scale)
    down, across = (-(-side // _GRID) for side in (height, width))
    middles = [
        np.minimum(np.arange(step // 2, side + step // 2, step), side - 1)
        for side, step in ((height, down), (width, across))
    ]
    mask = decode_mask(raster["size"], raster["counts"])[np.ix_(*middles)]
    out = []
    for row, line in enumerate(np.pad(mask, ((0, 0), (1, 1))).astype(np.int8)):
        change = np.flatnonzero(np.diff(line))
        top, bottom = (min(edge * down, height) * scale for edge in (row, row + 1))
        for start, end in zip(change[::2].tolist(), change[1::2].tolist(), strict=True):
            left, right = (min(edge * across, width) * scale for edge in (start, end))
            out.append(f"M{left:.1f} {top:.1f}h{right - left:.1f}v{bottom - top:.2f}h{left - right:.1f}z")
    return "".join(out)


def _first_pixel(path: str) -> tuple[float, float]:
    if not path:
        return 0.0, 0.0
    x, _, rest = path[1:].partition(" ")
    digits = rest.partition("h")[0].partition("L")[0]
    return float(x), float(digits)
