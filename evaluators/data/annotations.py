"""Annotations: what is known or predicted of an image or a document, and labels that count as one.

A data item is a case. Its ground truth (``Row.expected_annotations``) belongs to the case, its predictions
(``Row.predicted_annotations``) to the pair of case and model. Either is a list of annotations in the form below, or
``None`` when it is absent; an empty list says that there is nothing in the item, or that the model found nothing::

    {"labels": [{"key": "class", "value": "cat", "score": 0.9}],
     "box": [x_min, y_min, x_max, y_max],             # axis-aligned, or four points [[x, y], …] of a rotated one
     "polygon": [[x, y], …],                          # or [ring, hole, …], or [[ring, hole, …], …] of several parts
     "raster": {"size": [height, width], "counts": "…"},  # a mask, run-length encoded as COCO does
     "is_instance": true}

An annotation has one geometry or none; one without geometry labels the item itself. Coordinates are pixels, x to the
right and y down. Scores are in [0, 1]; ground truth has none. ``is_instance`` says whether a geometry is one object
(the default) or a region of a semantic segmentation. ``is_crowd`` marks a region of ground truth that is a group of
objects, as COCO does; it implies ``is_instance: false``.

Loading brings every dataset into exactly this form: labels as a list with keys, coordinates and scores as floats, the
counts of a raster as COCO's text, absent members left out. Rows that are made by hand should keep to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NotRequired, Required, TypeAlias, TypedDict

DEFAULT_KEY: Final = "class"
"""Key of a label that names none."""

GEOMETRIES: Final = ("box", "polygon", "raster")
"""Members that are a geometry, from the least to the most detailed."""

Point: TypeAlias = Sequence[float]
Ring: TypeAlias = Sequence[Point]
LabelName: TypeAlias = tuple[str, str]
"""Key and value of a label."""


class AnnotationLabel(TypedDict):
    """A label: a value under a key, such as ``cat`` under ``class``; predictions have a score."""

    key: str
    value: str
    score: NotRequired[float]


class Raster(TypedDict):
    """A mask: ``size`` is (height, width), ``counts`` its runs, see :mod:`leadline.evaluators.data.rle`."""

    size: Sequence[int]
    counts: str | Sequence[int]


class Annotation(TypedDict, total=False):
    """One annotation; see the module for its members."""

    labels: Required[list[AnnotationLabel]]
    box: Sequence[float] | Sequence[Point]
    polygon: Sequence[Any]
    raster: Raster
    is_instance: bool
    is_crowd: bool


Annotations: TypeAlias = Sequence[Annotation]


def geometry(annotation: Annotation) -> str | None:
    """Return which geometry an annotation has, one of :data:`GEOMETRIES`, or ``None``."""
    return next((name for name in GEOMETRIES if name in annotation), None)


def is_rotated(annotation: Annotation) -> bool:
    """Return whether the box of an annotation is given by its four corners."""
    box = annotation.get("box")
    return box is not None and not isinstance(box[0], float | int)


def parts(annotation: Annotation) -> list[list[Ring]]:
    """Return the polygon of an annotation as its parts, each an outer ring and its holes."""
    polygon = annotation.get("polygon") or ()
    if not polygon:
        return []
    first = polygon[0][0]
    if isinstance(first, float | int):
        return [[polygon]]
    return [list(polygon)] if isinstance(first[0], float | int) else [list(part) for part in polygon]


def whole_item_labels(annotations: Annotations) -> Iterator[AnnotationLabel]:
    """Yield the labels of the annotations without a geometry."""
    for annotation in annotations:
        if geometry(annotation) is None:
            yield from annotation["labels"]
