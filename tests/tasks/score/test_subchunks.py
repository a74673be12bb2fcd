"""A chunk that a worker scores in parts gives what it gives in one piece."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from leadline.tasks.plan.jobs import Chunk
from leadline.tasks.score.executor import PARTS, subchunks


def chunk(number: int, first: int, last: int) -> Chunk:
    rows = last - first + 1
    return Chunk("store", "run", "dataset", "cpu", number, first, last, rows, 3 * rows)


@given(number=st.integers(0, 249), first=st.integers(0, 10**6), width=st.integers(1, 10**6))
def test_the_parts_cover_the_chunk_once(number: int, first: int, width: int) -> None:
    parts = subchunks(chunk(number, first, first + width - 1))
    assert parts[0].first == first
    assert parts[-1].last == first + width - 1
    assert all(after.first == before.last + 1 for before, after in pairwise(parts))
    assert len(parts) == min(PARTS, width)


def test_no_two_parts_of_a_lane_share_a_name() -> None:
    names = [part.name for number in range(250) for part in subchunks(chunk(number, number * 100, number * 100 + 99))]
    assert len({*names, *(chunk(number, 0, 1).name for number in range(250))}) == len(names) + 250
