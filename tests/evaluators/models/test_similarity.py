from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.evaluators.models import vectors
from leadline.evaluators.models.vectors import best_matches


def unit_vectors(count: int, seed: int) -> np.ndarray[Any, Any]:
    vectors = np.random.default_rng(seed).normal(size=(count, 5))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@given(st.integers(0, 12), st.integers(0, 12), st.integers(0, 2**32 - 1), st.integers(1, 20))
@settings(deadline=None)
def test_it_equals_a_loop_whatever_the_size_of_its_blocks(n: int, m: int, seed: int, block: int) -> None:
    sentences, candidates = unit_vectors(n, seed), unit_vectors(m, seed + 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vectors, "_BLOCK", block)
        best = best_matches(sentences, candidates)
    assert len(best.values) == len(best.places) == n
    for sentence, value, place in zip(sentences, best.values, best.places, strict=True):
        cosines = [float(np.dot(sentence, candidate)) for candidate in candidates]
        if not cosines:
            assert (value, place) == (0.0, -1)
            continue
        assert value == pytest.approx(min(1.0, max(0.0, max(cosines))), abs=1e-6)
        assert cosines[place] == pytest.approx(max(cosines), abs=1e-6)


def test_opposite_sentences_have_similarity_zero_and_equal_ones_no_more_than_one() -> None:
    one = unit_vectors(200, 1)
    assert best_matches(one, -one[:1]).values[0] == 0
    assert best_matches(one, one).values.max() <= 1
    assert best_matches(one, one).places.tolist() == list(range(200))


def test_the_first_of_equal_candidates_is_named() -> None:
    one = unit_vectors(1, 3)
    assert best_matches(one, np.repeat(one, 4, axis=0)).places.tolist() == [0]
