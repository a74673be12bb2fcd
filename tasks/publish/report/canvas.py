"""Examples of data items, drawn on a blank canvas of the item's size: the report contains no images."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np

from leadline.evaluators.data import Annotation, Example, Point, decode_mask, geometry, is_rotated, parts

WIDTH: Final = 300.0
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
        kind: What went wrong, for people.
        case: Key of the case.
        label: The label it is about.
        score: The prediction's score.
        width: Width of the drawing; 0 where there is nothing to draw.
        expected: Shapes of the ground truth.
        predicted: Shapes of the predictions.
        labels_expected: Labels of ground truth without a geometry.
        labels_predicted: Labels of predictions without a geometry.
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
    scale = min(WIDTH / width, TALLEST / height) if width and height and any(drawn) else 0.0
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
