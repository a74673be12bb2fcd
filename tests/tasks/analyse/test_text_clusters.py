"""Clusters of texts, and the words that set a group apart."""

from __future__ import annotations

import numpy as np

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
