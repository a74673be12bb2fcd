"""Embeddings in the store come back as they were, from any thread and host, and are found by a few searches."""

from __future__ import annotations

import multiprocessing
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.evaluators.models.vectors import text_digest
from leadline.tasks.store import vectors as module
from leadline.tasks.store.store import Store
from leadline.tasks.store.vectors import ParquetVectors, VectorIndex, as_array

MODEL = "0" * 32


def some(first: int, count: int, width: int = 8) -> tuple[list[bytes], np.ndarray[Any, Any]]:
    digests = [text_digest(str(number)) for number in range(first, first + count)]
    rows = np.stack([np.random.default_rng(number).normal(size=width) for number in range(first, first + count)])
    return digests, rows.astype(np.float32)


def check(found: dict[bytes, Any], digests: list[bytes], rows: np.ndarray[Any, Any]) -> None:
    assert found.keys() == set(digests)
    for digest, row in zip(digests, rows, strict=True):
        np.testing.assert_array_equal(found[digest], row)


def _write(root: str, number: int) -> None:
    ParquetVectors(Store(Path(root))).put(MODEL, *some(number * 100, 100))


def test_vectors_come_back_bit_for_bit_in_this_and_a_later_process(store: Store) -> None:
    digests, rows = some(0, 20)
    vectors = ParquetVectors(store)
    assert vectors.get(MODEL, digests) == {}
    vectors.put(MODEL, digests, rows)
    check(vectors.get(MODEL, digests), digests, rows)
    check(ParquetVectors(store).get(MODEL, [*digests[5:9], *digests[5:9], text_digest("new")]), digests[5:9], rows[5:9])


def test_models_do_not_share_vectors(store: Store) -> None:
    digests, rows = some(0, 3)
    vectors = ParquetVectors(store)
    vectors.put(MODEL, digests, rows)
    assert vectors.get("1" * 32, digests) == {}


def test_nothing_is_written_for_no_vectors(store: Store) -> None:
    ParquetVectors(store).put(MODEL, [], np.zeros((0, 4), dtype=np.float32))
    assert not store.vectors(MODEL).exists()


@given(st.lists(st.binary(min_size=16, max_size=16), unique=True, max_size=40), st.integers(1, 7))
@settings(deadline=None, max_examples=25)
def test_any_digests_are_kept_apart_over_any_number_of_segments(
    tmp_path_factory: pytest.TempPathFactory, digests: list[bytes], parts: int
) -> None:
    digests = list(dict.fromkeys([bytes(15) + b"\1", bytes(16), b"\1" + bytes(15), b"\xff" * 16, *digests]))
    rows = np.arange(len(digests) * 3, dtype=np.float32).reshape(-1, 3)
    vectors = ParquetVectors(Store.open(tmp_path_factory.mktemp("store")))
    for part in range(parts):
        vectors.put(MODEL, digests[part::parts], rows[part::parts])
    check(vectors.get(MODEL, digests), digests, rows)
    check(vectors.get(MODEL, digests[1::2]), digests[1::2], rows[1::2])


def test_only_the_row_groups_that_are_needed_are_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROW_GROUP", 10)
    digests, rows = some(0, 95)
    vectors = ParquetVectors(store)
    vectors.put(MODEL, digests, rows)
    read: list[int] = []
    original = pq.ParquetFile.read_row_group

    def counting(self: Any, group: int, **kwargs: Any) -> Any:
        read.append(group)
        return original(self, group, **kwargs)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", counting)
    wanted = [3, 41, 47, 94]
    check(vectors.get(MODEL, [digests[at] for at in wanted]), [digests[at] for at in wanted], rows[wanted])
    assert read == [0, 4, 9]


@pytest.mark.slow
def test_segments_of_other_processes_are_seen_as_they_appear(store: Store) -> None:
    reader = ParquetVectors(store)
    assert reader.get(MODEL, some(0, 1)[0]) == {}
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write, args=(str(store.root), number)) for number in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    check(reader.get(MODEL, some(0, 200)[0]), *some(0, 200))
    assert list(store.vectors(MODEL).glob(".*")) == []


def test_threads_share_one_store(store: Store) -> None:
    vectors = ParquetVectors(store)
    failures: list[Exception] = []

    def work(number: int) -> None:
        try:
            for part in range(5):
                digests, rows = some(number * 1000 + part * 10, 10)
                vectors.put(MODEL, digests, rows)
                check(vectors.get(MODEL, digests), digests, rows)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.parametrize("damage", ["empty", "truncated", "garbage", "other columns"])
def test_a_segment_that_cannot_be_read_costs_only_its_own_vectors(
    store: Store, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    vectors = ParquetVectors(store)
    vectors.put(MODEL, *some(0, 50))
    path = next(store.vectors(MODEL).glob("*.parquet"))
    if damage == "other columns":
        import pyarrow as pa

        pq.write_table(pa.table({"x": [1]}), path)
    else:
        content = path.read_bytes()
        path.write_bytes({"empty": b"", "truncated": content[:-9], "garbage": b"\0" * len(content)}[damage])
    vectors.put(MODEL, *some(100, 50))
    found = ParquetVectors(store).get(MODEL, some(0, 50)[0] + some(100, 50)[0])
    check(found, *some(100, 50))
    assert path.name in caplog.text
    fresh = ParquetVectors(store)
    fresh.put(MODEL, *some(0, 50))
    check(fresh.get(MODEL, some(0, 50)[0]), *some(0, 50))


def test_a_flipped_bit_among_the_vectors_is_noticed(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    digests, rows = some(0, 200)
    vectors = ParquetVectors(store)
    vectors.put(MODEL, digests, rows)
    path = next(store.vectors(MODEL).glob("*.parquet"))
    content = bytearray(path.read_bytes())
    content[content.index(rows[100].tobytes())] ^= 1
    path.write_bytes(content)
    assert vectors.get(MODEL, digests) == {}
    assert "is ignored" in caplog.text


def test_a_segment_that_vanishes_is_a_miss(store: Store) -> None:
    digests, rows = some(0, 10)
    vectors = ParquetVectors(store)
    vectors.put(MODEL, digests, rows)
    assert vectors.get(MODEL, digests)
    for path in store.vectors(MODEL).glob("*.parquet"):
        path.unlink()
    assert vectors.get(MODEL, digests) == {}


def test_a_store_that_cannot_be_written_says_so(store: Store) -> None:
    store.vectors(MODEL).parent.mkdir(parents=True)
    store.vectors(MODEL).write_text("in the way")
    with pytest.raises(OSError):  # noqa: PT011
        ParquetVectors(store).put(MODEL, *some(0, 1))


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
