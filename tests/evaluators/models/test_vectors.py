"""Vectors: the most similar candidates; coroutines that wait share a pass, and one's failure is not the others'."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.evaluators.ground import ModelUnavailable, OutOfMemory
from leadline.evaluators.models import vectors
from leadline.evaluators.models.vectors import Passes, best_matches


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


class Model:
    def __init__(self) -> None:
        self.passes: list[list[str]] = []
        self.at_once = 0

    def __call__(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        self.at_once += 1
        assert self.at_once == 1
        self.passes.append(list(texts))
        time.sleep(0.02)
        self.at_once -= 1
        if any(len(text) > 50 for text in texts):
            raise OutOfMemory("too long")
        return np.array([[len(text), ord(text[0])] for text in texts], dtype=np.float32)


async def test_those_that_ask_while_the_model_is_busy_share_its_next_pass() -> None:
    model = Model()
    passes = Passes(model)
    first = asyncio.create_task(passes.of(["a"]))
    await asyncio.sleep(0.005)
    others = await asyncio.gather(*(passes.of([f"row {n}", "shared"]) for n in range(100)))
    assert (await first).tolist() == [[1, 97]]
    assert [vectors[0, 0] for vectors in others] == [5.0] * 10 + [6.0] * 90
    assert (await passes.of(["later"])).tolist() == [[5, 108]]
    assert [len(texts) for texts in model.passes] == [1, 101, 1]


async def test_one_text_that_does_not_fit_costs_no_other_its_vectors() -> None:
    passes = Passes(Model())
    asking = (passes.of(["a"]), passes.of(["x" * 60]), passes.of(["b"]))
    first, second, third = await asyncio.gather(*asking, return_exceptions=True)
    assert isinstance(second, OutOfMemory)
    assert np.array_equal(first, [[1, 97]])  # type: ignore[call-overload]
    assert np.array_equal(third, [[1, 98]])  # type: ignore[call-overload]


async def test_a_caller_that_gives_up_does_not_disturb_the_others() -> None:
    passes = Passes(Model())
    impatient = asyncio.create_task(passes.of(["a"]))
    patient = asyncio.create_task(passes.of(["b"]))
    await asyncio.sleep(0.005)
    impatient.cancel()
    assert (await patient).tolist() == [[1, 98]]


async def test_without_its_weights_everybody_is_told() -> None:
    def missing(texts: Sequence[str]) -> npt.NDArray[np.float32]:
        raise ModelUnavailable("not here")

    passes = Passes(missing)
    results = await asyncio.gather(passes.of(["a"]), passes.of(["b"]), return_exceptions=True)
    assert all(isinstance(result, ModelUnavailable) for result in results)


def test_another_event_loop_starts_afresh() -> None:
    passes = Passes(Model())
    for _ in range(2):
        assert asyncio.run(passes.of(["a"])).shape == (1, 2)


async def test_repeated_texts_are_encoded_once() -> None:
    model = Model()
    assert (await Passes(model).of(["a", "a", "b"])).tolist() == [[1, 97], [1, 97], [1, 98]]
    assert model.passes == [["a", "b"]]
