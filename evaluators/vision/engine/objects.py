"""The labelled geometries of many images as flat arrays, in the least detailed type that an image's two sides share.

An annotation's detail is that of its geometry: a box is less detailed than a polygon, a polygon less than a raster.
Within an image all annotations are converted to the least detailed geometry among them: a raster becomes the outline
of its pixels, a polygon or raster the axis-aligned box around it. Pixel ``(row, column)`` is the square from
``(column, row)`` to ``(column + 1, row + 1)``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from leadline.evaluators.data import Annotation, Annotations, LabelName, geometry, parts
from leadline.evaluators.vision.engine import mask_runs, planar

if TYPE_CHECKING:
    import numpy.typing as npt

Detail: TypeAlias = Literal["box", "polygon", "raster"]

_NAMES: Final[tuple[Detail, ...]] = ("box", "polygon", "raster")
_DETAIL: Final[dict[str, int]] = {name: detail for detail, name in enumerate(_NAMES)}


class Labels:
    """The labels of a batch, numbered in the order in which they are met, after the label map."""

    def __init__(self, label_map: Mapping[LabelName, LabelName] | None = None) -> None:
        self.names: list[LabelName] = []
        self._map = label_map or {}
        self._by_name: dict[LabelName, int] = {}
        self._by_written: dict[LabelName, int] = {}

    def number(self, key: str, value: str) -> int:
        """Return the number of a label as it is written.

        Args:
            key: The label's key.
        """
        written = (key, value)
        number = self._by_written.get(written)
        if number is None:
            name = self._map.get(written, written)
            number = self._by_name.setdefault(name, len(self.names))
            if number == len(self.names):
                self.names.append(name)
            self._by_written[written] = number
        return number

    def keys(self) -> npt.NDArray[np.int64]:
        """Return for each label the number of its key."""
        numbers = {key: number for number, key in enumerate(dict.fromkeys(key for key, _ in self.names))}
        return np.array([numbers[key] for key, _ in self.names], dtype=np.int64)


@dataclass(slots=True)
class Objects:
    """One side (ground truth or predictions) of a batch of images; one line per label of an annotation.

    Attributes:
        image: Position of the image in the batch, ascending, shape ``(n,)``.
        label: Number of the label.
        score: Confidence; 1 where a prediction has none, and for ground truth.
        index: Position of the annotation in its image's list.
        crowd: Whether it is a region of ground truth around a group of objects.
        box: Axis-aligned box around it, shape ``(n, 4)``.
        shape: The geometry where it is no axis-aligned box: a shapely shape or :class:`~.mask_runs.Runs`.
    """

    image: npt.NDArray[np.int64]
    label: npt.NDArray[np.int64]
    score: npt.NDArray[np.float64]
    index: npt.NDArray[np.int64]
    crowd: npt.NDArray[np.bool_]
    box: npt.NDArray[np.float64]
    shape: Mapping[int, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.image)

    def take(self, order: npt.NDArray[np.int64]) -> Objects:
        """Return the lines at the given positions, in that order."""
        shape = {}
        if self.shape:
            shape = {new: self.shape[old] for new, old in enumerate(order.tolist()) if old in self.shape}
        return Objects(
            self.image[order],
            self.label[order],
            self.score[order],
            self.index[order],
            self.crowd[order],
            self.box[order],
            shape,
        )


def countable(annotations: Annotations, *, crowds: bool) -> list[tuple[int, Annotation]]:
    """Return the annotations that are objects, with their positions: those with a geometry that are instances.

    Args:
        annotations: All annotations of one side of an image.
        crowds: Whether to keep regions around a group of objects too.
    """
    return [
        (position, annotation)
        for position, annotation in enumerate(annotations)
        if ("box" in annotation or geometry(annotation) is not None)
        and (annotation.get("is_instance", True) or (crowds and annotation.get("is_crowd", False)))
    ]


def common_detail(annotations: Iterable[Annotation], wanted: Detail | None) -> Detail:
    """Return the type to which the annotations of both sides of an image are converted.

    Args:
        annotations: The annotations of both sides of an image.
        wanted: The type that was asked for, ``None`` for the least detailed one.

    Raises:
        ValueError: The type wanted is more detailed than an annotation, or masks differ in size.
    """
    annotations = list(annotations)
    least = min((_DETAIL[geometry(annotation) or "raster"] for annotation in annotations), default=_DETAIL["raster"])
    detail = wanted or _NAMES[least]
    if _DETAIL[detail] > least:
        raise ValueError(f"a {_NAMES[least]} cannot be converted to a {wanted}, which is more detailed")
    mask_runs.same_size(tuple(raster["size"]) for raster in (a["raster"] for a in annotations if "raster" in a))
    return detail


def collect(images: Sequence[tuple[Sequence[tuple[int, Annotation]], Detail]], labels: Labels) -> Objects:
    """Return the objects of one side of a batch.

    Args:
        images: For each image its countable annotations, and the type to which they are converted.
        labels: Numbers the labels; it is shared by both sides.

    Raises:
        ValueError: A geometry makes no sense.
    """
    image: list[int] = []
    label: list[int] = []
    score: list[float] = []
    index: list[int] = []
    crowd: list[bool] = []
    coordinates: list[float] = []
    shape: dict[int, Any] = {}
    number = labels.number
    masks = _masks_of(images)
    for at, (listed, detail) in enumerate(images):
        for position, annotation in listed:
            box: Any = annotation.get("box")
            converted = None
            if box is None or not isinstance(box[0], float | int):
                box, converted = convert(annotation, detail, masks.get(id(annotation)))
            for one in annotation["labels"]:
                if converted is not None:
                    shape[len(image)] = converted
                image.append(at)
                label.append(number(one["key"], one["value"]))
                score.append(one.get("score", 1.0))
                index.append(position)
                crowd.append("is_crowd" in annotation and annotation["is_crowd"])
                coordinates += box
    return Objects(
        np.array(image, dtype=np.int64),
        np.array(label, dtype=np.int64),
        np.array(score, dtype=np.float64),
        np.array(index, dtype=np.int64),
        np.array(crowd, dtype=np.bool_),
        np.array(coordinates, dtype=np.float64).reshape(-1, 4),
        shape,
    )


def _masks_of(images: Sequence[tuple[Sequence[tuple[int, Annotation]], Detail]]) -> dict[int, mask_runs.Runs]:
    """Return the runs of all masks of a batch by the identity of their annotations, decoded together."""
    masked = [annotation for listed, _ in images for _, annotation in listed if "raster" in annotation]
    runs = mask_runs.from_rasters([annotation["raster"] for annotation in masked]) if masked else []
    return {id(annotation): one for annotation, one in zip(masked, runs, strict=True)}


def convert(annotation: Annotation, detail: Detail, runs: mask_runs.Runs | None = None) -> tuple[Sequence[float], Any]:
    """Return the box around an annotation and its geometry at a level of detail, ``None`` where that is the box.

    Args:
        detail: The type to convert it to.
        runs: Its mask, where it was decoded before.
    """
    if "raster" in annotation:
        runs = mask_runs.from_raster(annotation["raster"]) if runs is None else runs
        if detail == "raster":
            return mask_runs.envelope(runs), runs
        return mask_runs.envelope(runs), None if detail == "box" else planar.from_runs(runs)
    if "polygon" in annotation:
        if detail == "box":
            return _around([point for rings in parts(annotation) for point in rings[0]]), None
        shape = planar.from_parts(parts(annotation))
        return planar.envelope(shape), shape
    corners: Any = annotation["box"]
    if isinstance(corners[0], float | int):
        return corners, None
    around = _around(corners)
    if all(x in around[::2] and y in around[1::2] for x, y in corners) and len({tuple(c) for c in corners}) == 4:
        return around, None
    return around, planar.from_parts([[corners]])


def _around(points: Sequence[Sequence[float]]) -> tuple[float, float, float, float]:
    xs, ys = [point[0] for point in points], [point[1] for point in points]
    return min(xs), min(ys), max(xs), max(ys)
