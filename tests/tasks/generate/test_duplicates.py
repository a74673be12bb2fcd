"""Which questions ask the same."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from leadline.tasks.generate.duplicates import Repeats, normalised, repeated_by_meaning


def same(first: str, second: str) -> bool:
    repeats = Repeats()
    assert not repeats.seen(first)
    return repeats.seen(second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("How deep is berth 3?", "how deep is  berth 3"),
        ("What is the depth of water at the north berth?", "What is the water depth at the north berth?"),
        ("Which ships pay dues?", "What ship pays the due?"),
        ("Ｈow deep is it at 10.5 m?", "How deep is it at 10.5 m?"),
        ("Wie tief ist der Liegeplatz?", "Wie tief sind die Liegeplätze?"),
    ],
)
def test_the_same_in_other_words_is_found(first: str, second: str) -> None:
    assert same(first, second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("How deep is berth 3?", "How deep is berth 4?"),
        ("How long is 1.5 m?", "How long is 15 m?"),
        ("What is the capital of France?", "What is the capital of Greece?"),
        ("When is the port open?", "Where is the port open?"),
        ("May ships enter at night?", "May ships not enter at night?"),
        ("Must ships enter at night?", "May ships enter at night?"),
    ],
)
def test_what_differs_in_one_word_that_counts_stays(first: str, second: str) -> None:
    assert not same(first, second)


def test_a_question_is_normalised_to_its_words() -> None:
    assert normalised(" What's  “this”, 10.5 m?! ") == "what s this 10.5 m"


def test_meaning_is_compared_with_an_embedder_and_numbers_count() -> None:
    vectors = {"a": [1.0, 0.0], "b": [0.999, 0.045], "c 1": [0.0, 1.0], "c 2": [0.0, 1.0], "a too": [1.0, 0.0]}

    def embed(texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return np.array([vectors[text] for text in texts], dtype=np.float32)

    assert repeated_by_meaning(list(vectors), embed) == {1, 4}
    assert repeated_by_meaning(list(vectors), embed, 0.9999) == {4}


def test_many_questions_are_compared_in_blocks() -> None:
    places = {"abcdefg"[n % 7] * (n + 1): n for n in range(700)}

    def embed(texts: Sequence[str]) -> npt.NDArray[np.float32]:
        angles = np.array([places[text] % 500 for text in texts]) * 2 * np.pi / 500
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)

    assert repeated_by_meaning(list(places), embed, 0.99999) == set(range(500, 700))


def test_questions_whose_words_all_begin_alike_take_linear_time() -> None:
    repeats = Repeats()
    started = time.process_time()
    seen = sum(repeats.seen(f"word{n:b} other".replace("0", "a").replace("1", "b")) for n in range(5_000))
    assert seen < 5_000
    assert time.process_time() - started < 30
