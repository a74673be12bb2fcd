"""Polygons and rotated boxes as shapely's geometries: exact areas, invalid outlines made valid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from leadline.evaluators.data import Ring
from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.evaluators.vision.engine.mask_runs import Runs, columns

if TYPE_CHECKING:
    import numpy.typing as npt

Shape: TypeAlias = Any
"""A shapely geometry."""


def _shapely() -> Any:
    try:
        import shapely
    except ModuleNotFoundError:
        raise UsageError(
            "Polygons and rotated boxes need the package shapely.",
            hint="Install it with: pip install -c constraints.txt -e '.[vision]'.",
            code=ErrorCode.CONFIG_PACKAGE,
        ) from None
    return shapely


def from_parts(parts: Sequence[Sequence[Ring]]) -> Shape:
    """Return the area that the parts of a polygon cover together; each is an outer ring and its holes.

    A ring may be closed or open. One that crosses itself encloses what its loops enclose; one of fewer than three
    points, or without an area, is empty.
    """
    shapely = _shapely()
    shapes = [_valid(shapely, rings) for rings in parts]
    return shapes[0] if len(shapes) == 1 else shapely.union_all(shapes)


def _valid(shapely: Any, rings: Sequence[Ring]) -> Shape:
    outer, *holes = [ring for ring in rings if len(ring) >= 3] or [()]
    if not rings or len(rings[0]) < 3:
        return shapely.Polygon()
    shape = shapely.Polygon(outer, holes)
    return shape if shape.is_valid else shapely.make_valid(shape)


def from_box(box: Sequence[float]) -> Shape:
    """Return an axis-aligned box as a polygon."""
    return _shapely().box(*box)


def from_runs(runs: Runs) -> Shape:
    """Return the area of a mask's set pixels; a pixel is a square of side 1 from its row and column on."""
    shapely = _shapely()
    return shapely.union_all(shapely.box(*columns(runs).T))


def envelope(shape: Shape) -> tuple[float, float, float, float]:
    """Return the smallest axis-aligned box around a shape, zeros for an empty one."""
    return (0.0, 0.0, 0.0, 0.0) if shape.is_empty else tuple(map(float, shape.bounds))  # type: ignore[return-value]


def union(shapes: Sequence[Shape]) -> Shape:
    """Return what several shapes cover together."""
    return shapes[0] if len(shapes) == 1 else _shapely().union_all(shapes)


def area(shapes: Sequence[Shape]) -> npt.NDArray[np.float64]:
    """Return the areas of shapes, shape ``(n,)``."""
    return np.asarray(_shapely().area(_array(shapes)), dtype=np.float64)


def intersection(shapes: Sequence[Shape], others: Sequence[Shape]) -> npt.NDArray[np.float64]:
    """Return the area that each shape shares with its counterpart, shape ``(n,)``.

    Args:
        others: Their counterparts, as many.
    """
    shapely = _shapely()
    return np.asarray(shapely.area(shapely.intersection(_array(shapes), _array(others))), dtype=np.float64)


def _array(shapes: Sequence[Shape]) -> npt.NDArray[np.object_]:
    out = np.empty(len(shapes), dtype=object)
    out[:] = shapes
    return out
