"""Masks as runs of set pixels: areas, intersections and unions without decoding a pixel.

Pixels are numbered column by column, as in COCO's encoding: pixel ``(row, column)`` is ``column * height + row``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from leadline.evaluators.data import decode_many

if TYPE_CHECKING:
    import numpy.typing as npt

    from leadline.evaluators.data import Raster


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


def from_raster(raster: Raster) -> Runs:
    """Return the runs of a mask.

    Raises:
        ValueError: The counts do not fill the mask exactly.
    """
    return from_rasters([raster])[0]


def from_rasters(rasters: Sequence[Raster]) -> list[Runs]:
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
    bounds = np.searchsorted(owner, np.arange(len(rasters) + 1)).tolist()
    return [
        Runs((raster["size"][0], raster["size"][1]), starts[low:high], ends[low:high])
        for raster, low, high in zip(rasters, bounds[:-1], bounds[1:], strict=True)
    ]


def intersections(masks: Sequence[Runs], other: Runs) -> npt.NDArray[np.int64]:
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


def union(masks: Sequence[Runs]) -> Runs:
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


def envelope(runs: Runs) -> tuple[float, float, float, float]:
    """Return the box of the edges of the set pixels, ``(x_min, y_min, x_max, y_max)``; zeros for an empty mask."""
    if not len(runs.starts):
        return 0.0, 0.0, 0.0, 0.0
    height = runs.size[0]
    last = runs.ends - 1
    left, right = int(runs.starts[0]) // height, int(last[-1]) // height
    if ((last // height) != (runs.starts // height)).any():  # a run over the end of a column touches both edges
        return float(left), 0.0, float(right + 1), float(height)
    return float(left), float((runs.starts % height).min()), float(right + 1), float((last % height).max() + 1)


def columns(runs: Runs) -> npt.NDArray[np.float64]:
    """Return the set pixels as boxes one column wide, shape ``(n, 4)``: the runs cut where a column ends."""
    height = runs.size[0]
    first, last = runs.starts // height, (runs.ends - 1) // height
    repeat = last - first + 1
    run = np.repeat(np.arange(len(first)), repeat)
    column = first[run] + np.arange(len(run)) - np.repeat(np.cumsum(repeat) - repeat, repeat)
    top = np.maximum(runs.starts[run] - column * height, 0)
    bottom = np.minimum(runs.ends[run] - column * height, height)
    return np.stack([column, top, column + 1, bottom], axis=1).astype(np.float64)
