"""The index over all segments answers as a dictionary would, in few searches however many segments there are."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.tasks.store.vectors import VectorIndex, as_array

digests = st.binary(min_size=1, max_size=2).map(lambda text: text.ljust(16, b"\0"))
segments = st.lists(st.lists(digests, min_size=1, max_size=12), max_size=12)


def places(index: VectorIndex, wanted: list[bytes]) -> dict[bytes, tuple[int, int]]:
    found: dict[bytes, tuple[int, int]] = {}
    for number, at, rows in index.find(as_array(wanted)):
        assert list(rows) == sorted(rows)
        found |= {wanted[place]: (number, int(row)) for place, row in zip(at, rows, strict=True)}
    return found


@given(segments, st.sets(st.integers(0, 11)), st.lists(digests, unique=True, max_size=30))
@settings(deadline=None)
def test_a_digest_is_found_in_a_segment_that_has_it_and_was_not_dropped(
    held: list[list[bytes]], dropped: set[int], wanted: list[bytes]
) -> None:
    index = VectorIndex()
    for number, segment in enumerate(held):
        index.add(number, as_array(segment))
    index.drop(sorted(dropped))
    found = places(index, wanted)
    kept = {number: segment for number, segment in enumerate(held) if number not in dropped}
    assert found.keys() == {digest for digest in wanted if any(digest in segment for segment in kept.values())}
    for digest, (number, row) in found.items():
        assert kept[number][row] == digest


def test_many_segments_take_few_searches() -> None:
    index = VectorIndex()
    for number in range(1000):
        index.add(number, as_array([(number * 10 + row).to_bytes(16, "big") for row in range(10)]))
        assert len(index._parts) <= 14
    assert places(index, [(4567).to_bytes(16, "big")]) == {(4567).to_bytes(16, "big"): (456, 7)}
