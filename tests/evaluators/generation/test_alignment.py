from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.evaluators.generation._procedures import Edit, align

THRESHOLD = 0.7


def letters(expected: str, actual: str) -> np.ndarray:
    """Similarity of steps that are letters: 1 for equal ones, 0.5 for the same in another case, else 0."""
    table = [[1.0 if a == b else 0.5 if a.lower() == b.lower() else 0.0 for b in actual] for a in expected]
    return np.array(table).reshape(len(expected), len(actual))


def shown(expected: str, actual: str) -> str:
    """Write an alignment as ``expected/actual`` pairs with a dash for a gap."""
    return " ".join(
        f"{'-' if place.expected is None else expected[place.expected]}"
        f"{'-' if place.actual is None else actual[place.actual]}"
        for place in align(letters(expected, actual), THRESHOLD)
    )


@pytest.mark.parametrize(
    ("expected", "actual", "alignment"),
    [
        ("", "", ""),
        ("abc", "abc", "aa bb cc"),
        ("abc", "ac", "aa b- cc"),
        ("ac", "abc", "aa -b cc"),
        ("abc", "axc", "aa bx cc"),
        ("abc", "", "a- b- c-"),
        ("", "abc", "-a -b -c"),
        ("abcd", "bcda", "a- bb cc dd -a"),
        ("ab", "ba", "-b aa b-"),
        ("abcde", "xbde", "ax bb c- dd ee"),
        ("ab", "B", "a- bB"),
        ("aab", "ab", "a- aa bb"),
    ],
)
def test_alignments_checked_by_hand(expected: str, actual: str, alignment: str) -> None:
    assert shown(expected, actual) == alignment


def test_kinds_of_edits() -> None:
    kinds = [place.edit for place in align(letters("abcde", "xbdey"), THRESHOLD)]
    assert kinds == [Edit.MISMATCH, Edit.MATCH, Edit.INSERTION, Edit.MATCH, Edit.MATCH, Edit.DELETION]


def test_a_similarity_at_the_threshold_is_a_match() -> None:
    assert align(np.array([[0.7]]), 0.7)[0].edit is Edit.MATCH
    assert align(np.array([[0.6999999]]), 0.7)[0].edit is Edit.MISMATCH


def best(similarity: np.ndarray, row: int = 0, column: int = 0) -> tuple[int, int]:
    """Fewest edits, and then the greatest sum of similarities (negated, in millionths), by trying everything."""
    rows, columns = similarity.shape
    if row == rows and column == columns:
        return (0, 0)
    tries = []
    if row < rows and column < columns:
        edits, total = best(similarity, row + 1, column + 1)
        value = float(similarity[row, column])
        tries.append((edits + (value < THRESHOLD), total - round(value * 1_000_000)))
    if row < rows:
        edits, total = best(similarity, row + 1, column)
        tries.append((edits + 1, total))
    if column < columns:
        edits, total = best(similarity, row, column + 1)
        tries.append((edits + 1, total))
    return min(tries)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 5), st.integers(0, 5), st.data())
def test_no_alignment_is_better(rows: int, columns: int, data: st.DataObject) -> None:
    values = st.sampled_from([-1.0, -0.25, 0.0, 0.3, 0.699999, 0.7, 0.85, 1.0])
    cells = data.draw(st.lists(values, min_size=rows * columns, max_size=rows * columns))
    similarity = np.array(cells).reshape(rows, columns)
    aligned = align(similarity, THRESHOLD)
    assert [place.expected for place in aligned if place.expected is not None] == list(range(rows))
    assert [place.actual for place in aligned if place.actual is not None] == list(range(columns))
    pairs = [similarity[p.expected, p.actual] for p in aligned if p.expected is not None and p.actual is not None]
    found = (sum(place.edit is not Edit.MATCH for place in aligned), -sum(round(value * 1_000_000) for value in pairs))
    assert found == best(similarity)


def test_long_sequences_take_no_long_time() -> None:
    similarity = np.random.default_rng(1).uniform(-1, 1, (2000, 2000))
    assert len(align(similarity, THRESHOLD)) >= 2000
