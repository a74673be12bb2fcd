"""Clusters of rows by their texts and labels, and the words that set a group of texts apart.

References:
    * Salton and Buckley, "Term-weighting approaches in automatic text retrieval", IPM 24 (1988): TF-IDF.
    * Ward, "Hierarchical grouping to optimize an objective function", JASA 58 (1963): the clusters.
    * Mardia, Kent and Bibby, "Multivariate analysis" (1979), and
      Rousseeuw, "Silhouettes", J. Comput. Appl. Math. 20 (1987): how many.
    * Monroe, Colaresi and Quinn, "Fightin' words", Political Analysis 16 (2008): the words that set a group apart.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt
    from scipy.sparse import csr_matrix

LEAST: Final = 3
"""Members that a cluster has at least."""
MOST_CLUSTERS: Final = 12
"""Groups that rows are divided into at most."""
TOPICS: Final = 50
"""Dimensions that TF-IDF vectors are reduced to (latent semantic analysis)."""
_PRIOR: Final = 10.0  # weight of the words of all texts in the log-odds, in words
_ITERATIONS: Final = 6
_DIGITS: Final = 9  # of distances: the last ones depend on the order in which a machine adds
_Z: Final = 1.64  # z-score from which a word sets a group apart

_FUNCTION_WORDS: Final = frozenset(
    """a about after all also am an and any are as at be been before but by can could did do does doing for from get had
    has have how i if in into is it its just like long many may me more most much must my no not of on one only or other
    our out over please say should so some such tell than that the their them then there these they this those through
    to up us use used was we were what when where which while who whom whose why will with would you your""".split()
)
"""English words that say nothing of a topic."""
_FREQUENT: Final = 0.3  # share of a group's texts from which on a word is the group's
_COMMON: Final = 0.4  # share of all texts from which on a word says nothing of one, in any language

_WORD: Final = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")
_UNSPACED: Final = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
_LONGEST: Final = 2000  # characters of a text that are read


def words(text: str) -> list[str]:
    """Return the words of a text in lower case, without function words; of scripts without spaces, pairs of letters."""
    out: list[str] = []
    for word in _WORD.findall(text[:_LONGEST].casefold().replace("\u2019", "'")):
        if len(word) > 2 and _UNSPACED.search(word):
            out += [word[place : place + 2] for place in range(len(word) - 1)]
        elif word not in _FUNCTION_WORDS:
            out.append(word)
    return out


def text_vectors(texts: Sequence[str]) -> npt.NDArray[np.float64]:
    """Return TF-IDF vectors of texts, reduced to at most :data:`TOPICS` dimensions, of unit length or zero."""
    from scipy import sparse

    counted = [Counter(words(text)) for text in texts]
    documents = Counter(word for counts in counted for word in counts)
    columns = {word: place for place, word in enumerate(sorted(word for word, n in documents.items() if n > 1))}
    cells = [
        (row, columns[word], (1 + math.log(n)) * math.log(len(texts) / documents[word]))
        for row, counts in enumerate(counted)
        for word, n in counts.items()
        if word in columns
    ]
    if not cells:
        return np.zeros((len(texts), 1))
    rows, places, weights = zip(*cells, strict=True)
    matrix = sparse.csr_matrix((weights, (rows, places)), shape=(len(texts), len(columns)))
    return _unit(matrix.toarray() if min(matrix.shape) <= TOPICS else _topics(matrix))


def _topics(matrix: csr_matrix) -> npt.NDArray[np.float64]:
    """Return the rows of a matrix in its first singular directions, found by subspace iteration from a fixed start.

    Libraries start from chance, and give other vectors at every call where directions are equally strong.
    """
    basis = np.random.default_rng(0).normal(size=(matrix.shape[1], TOPICS))
    for _ in range(_ITERATIONS):
        basis, _upper = np.linalg.qr(matrix.T @ (matrix @ basis))
    return np.asarray(matrix @ basis, dtype=np.float64)


def label_vectors(labels: Sequence[Collection[int]]) -> npt.NDArray[np.float64]:
    """Return sets of labels as vectors of unit length, with a dimension per label."""
    known = {label: place for place, label in enumerate(sorted({label for each in labels for label in each}))}
    matrix = np.zeros((len(labels), max(1, len(known))))
    for row, each in enumerate(labels):
        matrix[row, [known[label] for label in each]] = 1
    return _unit(matrix)


def clusters(vectors: npt.NDArray[np.float64], *, least: float) -> list[list[int]]:
    """Divide points by Ward's method into as many groups as have the best mean silhouette.

    Args:
        least: Mean silhouette below which a division is none: the points are one cloud.

    Returns:
        The groups with at least :data:`LEAST` members, largest first, each with its most central members first; one
        group of all points where no division is better than none. The same points give the same groups.
    """
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import pdist, squareform

    n = len(vectors)
    if n < LEAST:
        return []
    close = pdist(vectors).round(_DIGITS)
    distances = squareform(close)
    tree = linkage(close, "ward") if n >= 2 * LEAST and close.any() else None
    best, labels = least, np.ones(n, dtype=np.intp)
    most = min(MOST_CLUSTERS, n // LEAST, round(math.sqrt(n / 2)))  # Mardia's rule of thumb, against splinters
    for number in range(2, most + 1) if tree is not None else ():
        found = fcluster(tree, number, "maxclust")
        score = _silhouette(distances, found)
        if score > best + 1e-9:
            best, labels = score, found
    groups = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    central = [
        group[np.argsort(distances[np.ix_(group, group)].sum(axis=1).round(_DIGITS), kind="stable")] for group in groups
    ]
    return sorted((group.tolist() for group in central if len(group) >= LEAST), key=lambda group: (-len(group), group))


def distinctive_words(texts: Sequence[str], others: Sequence[str], *, most: int = 4) -> list[str]:
    """Return the words that texts have and other texts have not, most telling first.

    Words are counted once per text. The log-odds of a word have the words of all texts as their prior.

    Args:
        others: Texts to tell it from.
    """
    inside, outside = _counted(texts), _counted(others)
    every = inside + outside
    total, n_inside, n_outside = every.total(), inside.total(), outside.total()
    scored = []
    for word, n in inside.items():
        if n < max(2, _FREQUENT * len(texts)) or len(word) < 2 or every[word] > _COMMON * (len(texts) + len(others)):
            continue
        prior = _PRIOR * every[word] / total
        odds_in = (n + prior) / max(n_inside + _PRIOR - n - prior, 1e-9)
        odds_out = (outside[word] + prior) / max(n_outside + _PRIOR - outside[word] - prior, 1e-9)
        z = math.log(odds_in / odds_out) / math.sqrt(1 / (n + prior) + 1 / (outside[word] + prior))
        if z >= _Z:
            scored.append((-z, -n, word))
    return [word for *_, word in sorted(scored)[:most]]


def _counted(texts: Sequence[str]) -> Counter[str]:
    return Counter(word for text in texts for word in set(words(text)))


def _unit(matrix: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    return np.asarray(np.divide(matrix, lengths, out=np.zeros_like(matrix), where=lengths > 1e-12))


def _silhouette(distances: npt.NDArray[np.float64], labels: npt.NDArray[np.intp]) -> float:
    """Return the mean silhouette; points alone in their group count 0."""
    groups = np.unique(labels)
    if len(groups) < 2:
        return 0.0
    member = (labels[:, None] == groups[None, :]).astype(np.float64)
    sizes = member.sum(axis=0)
    sums = distances @ member
    own = member.astype(bool)
    size = sizes[own.argmax(axis=1)]
    within = sums[own] / np.maximum(size - 1, 1)
    nearest = np.where(own, np.inf, sums / sizes).min(axis=1)
    spread = np.maximum(within, nearest)
    values = np.divide(nearest - within, spread, out=np.zeros_like(spread), where=(spread > 0) & (size > 1))
    return float(values.mean())
