"""Geometries: masks as runs of set pixels, polygons and rotated boxes as shapely's shapes.

Masks have their areas, intersections and unions without a pixel being decoded. Pixels are numbered column by column,
as in COCO's encoding: pixel ``(row, column)`` is ``column * height + row``. Shapes have exact areas, and invalid
outlines are made valid.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from leadline.evaluators.data import Ring, decode_many
from leadline.evaluators.ground import ErrorCode, UsageError

if TYPE_CHECKING:
    import numpy.typing as npt

    from leadline.evaluators.data import Raster

Box: TypeAlias = tuple[float, float, float, float]

Shape: TypeAlias = Any
"""A shapely geometry."""


@dataclass(frozen=True, slots=True)
class Runs:
    """The set pixels of a mask.

    Attributes:
        size: Height and width of the mask.
        starts: First pixel of each run, ascending, shape ``(n,)``.
        ends: One past the last pixel of each run, shape ``(n,)``.
    """

    size: tuple[int, int]
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]

    @property
    def area(self) -> int:
        """Number of set pixels."""
        return int((self.ends - self.starts).sum())

    @property
    def box(self) -> Box:
        """The box of the edges of the set pixels, ``(x_min, y_min, x_max, y_max)``; zeros for an empty mask."""
        if not len(self.starts):
            return 0.0, 0.0, 0.0, 0.0
        height = self.size[0]
        last = self.ends - 1
        left, right = int(self.starts[0]) // height, int(last[-1]) // height
        if ((last // height) != (self.starts // height)).any():  # a run over the end of a column touches both edges
            return float(left), 0.0, float(right + 1), float(height)
        return float(left), float((self.starts % height).min()), float(right + 1), float((last % height).max() + 1)

    @property
    def columns(self) -> npt.NDArray[np.float64]:
        """The set pixels as boxes one column wide, shape ``(n, 4)``: the runs cut where a column ends."""
        height = self.size[0]
        first, last = self.starts // height, (self.ends - 1) // height
        repeat = last - first + 1
        run = np.repeat(np.arange(len(first)), repeat)
        column = first[run] + np.arange(len(run)) - np.repeat(np.cumsum(repeat) - repeat, repeat)
        top = np.maximum(self.starts[run] - column * height, 0)
        bottom = np.minimum(self.ends[run] - column * height, height)
        return np.stack([column, top, column + 1, bottom], axis=1).astype(np.float64)


def runs_of(rasters: Sequence[Raster]) -> list[Runs]:
    """Return the runs of many masks, decoded together.

    Raises:
        ValueError: The counts of a mask do not fill it exactly.
    """
    number, counts = decode_many([raster["counts"] for raster in rasters])
    last = np.cumsum(number)
    running = np.concatenate(([0], np.cumsum(counts)))
    filled = running[last] - running[last - number]
    for raster, pixels in zip(rasters, filled.tolist(), strict=True):
        height, width = raster["size"]
        if pixels != height * width:
            raise ValueError(f"the counts fill {pixels:,} of the {height * width:,} pixels of a mask")
    first = last - number
    place = np.arange(len(counts)) - np.repeat(first, number)
    ends = running[1:] - np.repeat(running[first], number)
    is_set = (place % 2 == 1) & (counts > 0)
    owner = np.repeat(np.arange(len(rasters)), number)[is_set]
    starts, ends = (ends - counts)[is_set], ends[is_set]
    edges = np.searchsorted(owner, np.arange(len(rasters) + 1)).tolist()
    return [
        Runs((raster["size"][0], raster["size"][1]), starts[low:high], ends[low:high])
        for raster, low, high in zip(rasters, edges[:-1], edges[1:], strict=True)
    ]


def shared_pixels(masks: Sequence[Runs], other: Runs) -> npt.NDArray[np.int64]:
    """Return how many pixels each of several masks shares with another, shape ``(len(masks),)``.

    The pixels of ``other`` before a position grow linearly within its runs and stand still between them, so that
    interpolating at the ends of every run gives the exact number of pixels shared with that run.

    Args:
        other: The mask that they are compared with.

    Raises:
        ValueError: The masks are not all of one size.
    """
    same_size(mask.size for mask in (*masks, other))
    number = np.array([len(mask.starts) for mask in masks], dtype=np.int64)
    if not number.sum() or not len(other.starts):
        return np.zeros(len(masks), dtype=np.int64)
    edges = np.stack([other.starts, other.ends], axis=1).ravel()
    covered = np.zeros(len(edges))
    covered[1::2] = np.cumsum(other.ends - other.starts)
    covered[2::2] = covered[1:-1:2]
    shared = np.interp(np.concatenate([mask.ends for mask in masks]), edges, covered)
    shared -= np.interp(np.concatenate([mask.starts for mask in masks]), edges, covered)
    running = np.concatenate(([0.0], np.cumsum(shared)))
    last = np.cumsum(number)
    out: npt.NDArray[np.int64] = np.rint(running[last] - running[last - number]).astype(np.int64)
    return out


def united_masks(masks: Sequence[Runs]) -> Runs:
    """Return the pixels that are set in any of one or more masks.

    Raises:
        ValueError: The masks are not all of one size.
    """
    same_size(mask.size for mask in masks)
    if len(masks) == 1:
        return masks[0]
    starts = np.concatenate([mask.starts for mask in masks])
    ends = np.concatenate([mask.ends for mask in masks])
    order = np.argsort(starts, kind="stable")
    starts, reach = starts[order], np.maximum.accumulate(ends[order])
    first = np.ones(len(starts), dtype=bool)
    first[1:] = starts[1:] > reach[:-1]
    last = np.roll(first, -1) if len(first) else first
    return Runs(masks[0].size, starts[first], reach[last])


def same_size(sizes: Iterable[tuple[int, ...]]) -> None:
    """Raise a ``ValueError`` unless the masks of these sizes, (height, width), can belong to one image."""
    different = sorted(set(sizes))
    if len(different) > 1:
        shown = " and ".join(f"{height} x {width}" for height, width in different[:2])
        raise ValueError(f"masks of one item differ in size: {shown} pixels")


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


def polygon(parts: Sequence[Sequence[Ring]]) -> Shape:
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


def box_shape(box: Sequence[float]) -> Shape:
    """Return an axis-aligned box as a polygon."""
    return _shapely().box(*box)


def outline(runs: Runs) -> Shape:
    """Return the area of a mask's set pixels; a pixel is a square of side 1 from its row and column on."""
    shapely = _shapely()
    return shapely.union_all(shapely.box(*runs.columns.T))


def bounds(shape: Shape) -> Box:
    """Return the smallest axis-aligned box around a shape, zeros for an empty one."""
    return (0.0, 0.0, 0.0, 0.0) if shape.is_empty else tuple(map(float, shape.bounds))  # type: ignore[return-value]


def united_shapes(shapes: Sequence[Shape]) -> Shape:
    """Return what several shapes cover together."""
    return shapes[0] if len(shapes) == 1 else _shapely().union_all(shapes)


def areas(shapes: Sequence[Shape]) -> npt.NDArray[np.float64]:
    """Return the areas of shapes, shape ``(n,)``."""
    return np.asarray(_shapely().area(_array(shapes)), dtype=np.float64)


def shared_areas(shapes: Sequence[Shape], others: Sequence[Shape]) -> npt.NDArray[np.float64]:
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
