"""Overlap of two sets of labelled regions in one image, in pixels or in exact areas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from leadline.evaluators.data import Annotations, LabelName
from leadline.evaluators.vision.engine import mask_runs, planar
from leadline.evaluators.vision.engine.objects import convert

if TYPE_CHECKING:
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Region:
    """The region of one label on one side of an image.

    Attributes:
        shape: Its area, a shapely shape or :class:`~leadline.evaluators.vision.engine.mask_runs.Runs`.
        area: Its size.
        indices: Positions of the annotations in their list.
    """

    shape: Any
    area: float
    indices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Overlap:
    """The regions of one label key in one image.

    Attributes:
        truth: Regions of the ground truth by label.
        predicted: Regions of the predictions by label.
        shared: Area shared by each label of the ground truth and each of the predictions, shape ``(truth, predicted)``.
        missed: Area of each label of the ground truth that no prediction of the key covers.
        spurious: Area of each predicted label that no ground truth of the key covers.
    """

    truth: Mapping[str, Region]
    predicted: Mapping[str, Region]
    shared: npt.NDArray[np.float64]
    missed: npt.NDArray[np.float64]
    spurious: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Geometry:
    """Functions that measure regions of one kind of geometry."""

    union: Callable[[Sequence[Any]], Any]
    area: Callable[[Any], float]
    shared: Callable[[Sequence[Any], Any], npt.NDArray[Any]]


_MASKS = _Geometry(mask_runs.union, lambda runs: runs.area, mask_runs.intersections)
_SHAPES = _Geometry(
    planar.union,
    lambda shape: float(planar.area([shape])[0]),
    lambda shapes, other: planar.intersection(shapes, [other] * len(shapes)),
)


def overlaps(
    expected: Annotations, predicted: Annotations, label_map: Mapping[LabelName, LabelName]
) -> dict[str, Overlap]:
    """Return the overlap of the regions of an image by label key.

    A region is the union of all masks and polygons of a label; boxes are no regions. Where an image has polygons,
    its masks become the outlines of their pixels.

    Args:
        expected: Annotations of the ground truth.
        predicted: Annotations of the prediction.
        label_map: Labels that count as another.

    Raises:
        ValueError: A geometry makes no sense, or the masks differ in size.
    """
    sides = [[(at, one) for at, one in enumerate(side) if "raster" in one or "polygon" in one]
             for side in (expected, predicted)]  # fmt: skip
    masks = all("raster" in annotation for side in sides for _, annotation in side)
    geometry = _MASKS if masks else _SHAPES
    mask_runs.same_size(tuple(one["raster"]["size"]) for side in sides for _, one in side if "raster" in one)
    regions: tuple[dict[str, dict[str, Region]], ...] = ({}, {})
    for side, by_key in zip(sides, regions, strict=True):
        parts: dict[LabelName, list[tuple[int, Any]]] = {}
        for at, annotation in side:
            _, shape = convert(annotation, "raster" if masks else "polygon")
            for label in annotation["labels"]:
                name = label["key"], label["value"]
                parts.setdefault(label_map.get(name, name), []).append((at, shape))
        for (key, value), found in parts.items():
            shape = geometry.union([part for _, part in found])
            region = Region(shape, geometry.area(shape), tuple(dict.fromkeys(at for at, _ in found)))
            by_key.setdefault(key, {})[value] = region
    truth, predictions = regions
    return {
        key: _overlap(truth.get(key, {}), predictions.get(key, {}), geometry)
        for key in dict.fromkeys((*truth, *predictions))
    }


def _overlap(truth: Mapping[str, Region], predicted: Mapping[str, Region], geometry: _Geometry) -> Overlap:
    true, found = ([region.shape for region in side.values()] for side in (truth, predicted))
    shared = np.zeros((len(true), len(found)))
    for line, shape in enumerate(true):
        if found:
            shared[line] = geometry.shared(found, shape)
    return Overlap(
        truth,
        predicted,
        shared,
        missed=_uncovered(truth, found, geometry),
        spurious=_uncovered(predicted, true, geometry),
    )


def _uncovered(regions: Mapping[str, Region], others: Sequence[Any], geometry: _Geometry) -> npt.NDArray[np.float64]:
    """Return how much of each region none of the others covers."""
    areas = np.array([region.area for region in regions.values()], dtype=np.float64)
    if not len(areas) or not others:
        return areas
    covered = geometry.shared([region.shape for region in regions.values()], geometry.union(others))
    out: npt.NDArray[np.float64] = np.maximum(areas - covered, 0.0)
    return out
