"""Chunks are few, worth their trip, and shared by the workers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.evaluators.core import Lane
from leadline.tasks.plan.jobs import MAX_CHUNKS, MAX_SHARDS, TRIPS, local_chunk_size, shard_size

LANES = st.sampled_from(("cpu", "gpu", "judge"))


@given(lane=LANES, rows=st.integers(1, 10**7), processes=st.integers(1, 256))
def test_a_lane_has_a_bounded_number_of_chunks_here(lane: Lane, rows: int, processes: int) -> None:
    assert -(-rows // local_chunk_size(lane, rows, processes)) <= MAX_CHUNKS


@given(lane=LANES, rows=st.integers(1, 10**7), each=st.integers(1, 60), workers=st.integers(1, 500))
def test_a_lane_has_a_bounded_number_of_shards_and_none_is_empty(
    lane: Lane, rows: int, each: int, workers: int
) -> None:
    size = shard_size(lane, rows, rows * each, workers)
    assert 1 <= size <= rows
    assert -(-rows // size) <= MAX_SHARDS


@given(lane=LANES, rows=st.integers(1, 10**6), each=st.integers(1, 60), workers=st.integers(1, 64))
def test_shards_are_split_further_only_when_both_parts_are_worth_the_trip(
    lane: Lane, rows: int, each: int, workers: int
) -> None:
    shards = -(-rows // shard_size(lane, rows, rows * each, workers))
    assert shards == 1 or rows * each / shards > TRIPS[lane].least / 2


@pytest.mark.parametrize(
    ("lane", "rows", "scores", "workers", "shards"),
    [
        ("judge", 100, 100, 4, 1),
        ("judge", 1_000, 1_000, 1, 2),
        ("judge", 1_000, 1_000, 4, 5),
        ("judge", 100_000, 100_000, 2, 25),
        ("gpu", 10_000, 20_000, 2, 4),
        ("gpu", 1_000, 1_000, 8, 1),
        ("cpu", 1_000_000, 10_000_000, 4, 25),
        ("cpu", 10_000_000, 400_000_000, 4, 80),
    ],
)
def test_workers_share_what_there_is(lane: Lane, rows: int, scores: int, workers: int, shards: int) -> None:
    assert -(-rows // shard_size(lane, rows, scores, workers)) == shards
