"""Geometric completeness: how much of the area of a document's sentences the sentences of its summary cover."""

from __future__ import annotations

import threading
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from leadline.evaluators.data import clip
from leadline.evaluators.ground import ErrorCode, ModelUnavailable

if TYPE_CHECKING:
    import numpy.typing as npt

DIMENSIONS: Final = 5
NEIGHBOURS: Final = 10
PERCENTILE: Final = 50.0

FEWEST: Final = 3
"""Sentences of a document below which nothing can be reduced."""

MOST: Final = 5_000
"""Sentences of a document above which the matrix of their distances is too large."""

_alone: Final = threading.Lock()
"""Numba's threads end the process when two threads of ours use them at once."""


@dataclass(frozen=True)
class Plane:
    """A document's sentences in the reduced space.

    Attributes:
        points: Their places, float64 of shape ``(n, dimensions)``.
        distances: Euclidean distances between them, of shape ``(n, n)``.
        near: Distance up to which a summary sentence counts as close: half of the distances between two different
            points are not greater.
        length: Three segment distance of the points.
    """

    points: npt.NDArray[np.float64]
    distances: npt.NDArray[np.float64]
    near: float
    length: float


@dataclass(frozen=True)
class TopicCoverage:
    """The coverage of a document by its summary.

    Attributes:
        value: Ratio of the three segment distances, in [0, 1]; ``None`` when the document's points are all one.
        closest: For each summary sentence the document sentence that it stands for, or ``None`` when it is close to
            none and was left out.
        dimensions: Of the reduced space.
    """

    value: float | None
    closest: tuple[int | None, ...]
    dimensions: int


def cover(document: npt.NDArray[np.float32], summary: npt.NDArray[np.float32], *, seed: int) -> TopicCoverage:
    """Return the coverage of a document by the sentences of its summary.

    Args:
        document: Embeddings of the document's distinct sentences, from :data:`FEWEST` to :data:`MOST` of them.
        summary: Embeddings of the summary's sentences.
        seed: Equal seeds and equal embeddings give equal bits on the same machine.

    Raises:
        ModelUnavailable: UMAP is not installed.
    """
    points, moved = reduce(document, summary, seed)
    plane = plane_of(points)
    closest = snap(moved, plane)
    kept = sorted({place for place in closest if place is not None})
    dimensions = points.shape[1]
    if not plane.length:
        return TopicCoverage(None, closest, dimensions)
    covered = three_segments(plane.distances[kept][:, kept])
    return TopicCoverage(clip(covered / plane.length, 0.0, 1.0), closest, dimensions)


def reduce(
    document: npt.NDArray[np.float32], summary: npt.NDArray[np.float32], seed: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Train UMAP on the document's embeddings and return both in the reduced space.

    The parameters are those of the reference: 10 neighbours, no least distance, the cosine. The start is the
    principal components instead of UMAP's spectral embedding, which is drawn at random for some small documents,
    whatever the seed.

    Args:
        document: Embeddings of the document's sentences.
        summary: Embeddings of the summary's sentences.
        seed: Equal seeds and equal embeddings give equal bits on the same machine.

    Raises:
        ModelUnavailable: UMAP is not installed.
    """
    count = len(document)
    with _alone, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that TensorFlow is missing, that a small graph is not connected
        try:
            from umap.umap_ import UMAP
        except ImportError:
            raise ModelUnavailable(
                "UMAP, which completeness is measured with, is not installed.",
                hint="Install the extra 'summarization' (the package umap-learn).",
                code=ErrorCode.CONFIG_PACKAGE,
            ) from None
        model = UMAP(
            n_components=min(DIMENSIONS, count - 2),
            n_neighbors=min(NEIGHBOURS, count - 1),
            min_dist=0.0,
            metric="cosine",
            init="pca",
            random_state=seed,
            transform_seed=seed,
            n_jobs=1,
        )
        points = np.asarray(model.fit_transform(document), dtype=np.float64)
        moved = np.asarray(model.transform(summary), dtype=np.float64)
    return points, moved


def plane_of(points: npt.NDArray[np.float64]) -> Plane:
    """Measure a document's points, at least two."""
    from scipy.spatial.distance import cdist

    distances = np.asarray(cdist(points, points))
    between = distances[np.triu_indices(len(points), k=1)]
    return Plane(points, distances, float(np.percentile(between, PERCENTILE)), three_segments(distances))


def snap(summary: npt.NDArray[np.float64], plane: Plane) -> tuple[int | None, ...]:
    """Return for each summary point the closest document point, or ``None`` when it is not close to it.

    Args:
        summary: Points of the summary's sentences.
        plane: The document's points.
    """
    from scipy.spatial.distance import cdist

    distances = cdist(summary, plane.points)
    closest = distances.argmin(axis=1)
    return tuple(
        int(place) if distances[row, place] <= plane.near else None for row, place in enumerate(closest.tolist())
    )


def three_segments(distances: npt.NDArray[np.float64]) -> float:
    """Return the longest segment between two points and the longest further segment at each of its ends.

    Two points have the one segment between them; fewer have none.

    Args:
        distances: Distances between the points, of shape ``(n, n)``.
    """
    count = len(distances)
    if count < 2:
        return 0.0
    first, last = divmod(int(distances.argmax()), count)
    length = float(distances[first, last])
    if count == 2:
        return length
    others = np.ones(count, dtype=bool)
    others[[first, last]] = False
    return length + float(distances[first, others].max()) + float(distances[last, others].max())
