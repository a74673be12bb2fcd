"""Clusters of texts, and the words that set a group apart."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import pdist, squareform

from leadline.tasks.analyse import text_clusters
from leadline.tasks.analyse.text_clusters import clusters, distinctive_words, label_vectors, text_vectors, words

TIDES = [f"How high is the tide at {place} when the water is low?" for place in "ABCDEFGH"]
PILOTS = [
    f"Which pilot boards a {ship} and how is the ladder rigged?" for ship in ("coaster", "tanker", "ferry", "tug")
]
DUES = [f"What port dues does a {ship} pay per gross ton?" for ship in ("coaster", "tanker", "ferry", "tug")]


def test_texts_about_one_thing_are_a_cluster() -> None:
    texts = [*TIDES, *PILOTS, *DUES]
    found = clusters(text_vectors(texts), least=0.05)
    assert [sorted(group) for group in found] == [list(range(8)), list(range(8, 12)), list(range(12, 16))]
    assert clusters(text_vectors(texts), least=0.05) == found


def test_texts_without_anything_in_common_are_no_clusters() -> None:
    texts = [f"alpha{i} beta{i} gamma{i}" for i in range(9)]
    assert [len(group) for group in clusters(text_vectors(texts), least=0.05)] == [9]
    noise = np.random.default_rng(0).normal(size=(200, 50))
    assert len(clusters(noise, least=0.05)) == 1


@pytest.mark.parametrize("values", [2, 3, 1000])
@pytest.mark.parametrize("n", [6, 27, 48])
def test_groups_are_scipys_to_the_last_tie(n: int, values: int) -> None:
    points = np.random.default_rng(n).integers(0, values, size=(n, 4)).astype(float) + 0.1
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    close = pdist(points).round(9)
    distances = text_clusters._distances(points)
    assert np.array_equal(distances, squareform(close))
    for number in range(2, n // 3 + 1):
        ours = text_clusters._divided(text_clusters._merges(distances), number)
        theirs = fcluster(linkage(close, "ward"), number, "maxclust")
        assert np.array_equal(ours[:, None] == ours, theirs[:, None] == theirs)


def test_fewer_than_three_points_are_no_cluster() -> None:
    assert clusters(np.ones((2, 3)), least=0.0) == []
    assert clusters(np.ones((5, 3)), least=0.0) == [[0, 1, 2, 3, 4]]


def test_labels_that_go_together_are_near_each_other() -> None:
    vectors = label_vectors([{1, 2}, {1, 2}, {3}, ()])
    assert vectors[0] @ vectors[1] > 0.99
    assert vectors[0] @ vectors[2] == 0
    assert not vectors[3].any()


def test_the_words_of_a_group_are_those_that_the_others_lack() -> None:
    assert set(distinctive_words(PILOTS, [*TIDES, *DUES])) == {"boards", "ladder", "pilot", "rigged"}
    assert distinctive_words(TIDES[:4], TIDES[4:]) == []


def test_words_of_scripts_without_spaces_are_pairs_of_characters() -> None:
    assert words("港口的潮汐 is HIGH") == ["港口", "口的", "的潮", "潮汐", "high"]
