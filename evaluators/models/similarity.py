"""Cosine similarities of sentences: the arithmetic that the embedding evaluators share.

All vectors have unit length (or are zero for text of white space alone), so that a dot product is the cosine. A cosine
lies in [-1, 1]; the metrics' range is [0, 1], so negative ones count as 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

_BLOCK: Final = 4_000_000
"""Similarities in memory at a time (16 MB)."""


class Best(NamedTuple):
    """For each of ``n`` sentences the candidate that is most similar to it.

    Attributes:
        values: Similarities in [0, 1], float64 of shape ``(n,)``; 0 without candidates.
        places: Which candidate, the first of equals, of shape ``(n,)``; -1 without candidates.
    """

    values: npt.NDArray[np.float64]
    places: npt.NDArray[np.int64]


def best_matches(sentences: npt.NDArray[np.float32], candidates: npt.NDArray[np.float32]) -> Best:
    """Return for each sentence its most similar candidate, in memory that does not grow with their product.

    Args:
        sentences: Vectors of shape ``(n, d)``.
        candidates: Vectors of shape ``(m, d)``.
    """
    values = np.zeros(len(sentences))
    places = np.full(len(sentences), -1, dtype=np.int64)
    if len(candidates):
        step = max(1, _BLOCK // len(candidates))
        for start in range(0, len(sentences), step):
            product = sentences[start : start + step] @ candidates.T
            best = product.argmax(axis=1)
            places[start : start + step] = best
            values[start : start + step] = product[np.arange(len(best)), best]
    return Best(np.clip(values, 0.0, 1.0), places)
