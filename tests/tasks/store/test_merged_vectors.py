"""Many small segments of embeddings become few, and nobody who reads them at the same time misses a vector."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leadline.evaluators.models.vectors import text_digest
from leadline.tasks.ground.files import locked
from leadline.tasks.store import vectors as module
from leadline.tasks.store.store import Store
from leadline.tasks.store.vectors import MERGED_AT, ROW_GROUP, ParquetVectors

MODEL = "0" * 32

KILLED = """
import os, sys
from pathlib import Path
from leadline.tasks.store.store import Store
from leadline.tasks.store.vectors import ParquetVectors
from tests.tasks.store.test_merged_vectors import put

original = Path.unlink
gone = []

def unlink(path, **options):
    if len(gone) == 5:
        os.kill(os.getpid(), 9)
    gone.append(path)
    original(path, **options)

Path.unlink = unlink
put(ParquetVectors(Store.open(sys.argv[1])), 0, 64)
"""


def segment(number: int) -> tuple[list[bytes], np.ndarray[Any, Any]]:
    return [text_digest(f"{number}-{row}") for row in range(3)], np.arange(12, dtype=np.float32).reshape(3, 4) + number


def put(vectors: ParquetVectors, first: int, count: int) -> None:
    for number in range(first, first + count):
        vectors.put(MODEL, *segment(number))


def check(vectors: ParquetVectors, first: int, count: int) -> None:
    wanted = [segment(number) for number in range(first, first + count)]
    found = vectors.get(MODEL, [digest for digests, _ in wanted for digest in digests])
    assert len(found) == 3 * count
    for digests, rows in wanted:
        np.testing.assert_array_equal(np.stack([found[digest] for digest in digests]), rows)


def files(store: Store) -> list[Path]:
    return list(store.vectors(MODEL).glob("*.parquet"))


def test_small_segments_are_merged_when_there_are_many(store: Store) -> None:
    vectors = ParquetVectors(store)
    put(vectors, 0, MERGED_AT - 1)
    assert len(files(store)) == MERGED_AT - 1
    put(vectors, MERGED_AT - 1, 3)
    assert len(files(store)) == 3
    check(vectors, 0, MERGED_AT + 2)
    check(ParquetVectors(store), 0, MERGED_AT + 2)


def test_merged_segments_keep_their_row_groups(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SMALL", ROW_GROUP)
    vectors = ParquetVectors(store)
    rows = np.arange(300 * 2, dtype=np.float32).reshape(300, 2)
    for number in range(MERGED_AT):
        vectors.put(MODEL, [text_digest(f"{number}-{row}") for row in range(300)], rows + number)
    assert len(files(store)) == 1
    found = ParquetVectors(store).get(MODEL, [text_digest(f"{number}-299") for number in range(MERGED_AT)])
    assert [vector[1] for vector in found.values()] == [599.0 + number for number in range(MERGED_AT)]


def test_who_knew_the_small_segments_finds_the_merged_one(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    writer, reader = ParquetVectors(store), ParquetVectors(store)
    put(writer, 0, MERGED_AT - 1)
    check(reader, 0, MERGED_AT - 1)
    put(writer, MERGED_AT - 1, 1)
    with caplog.at_level(logging.WARNING):
        check(reader, 0, MERGED_AT)
    assert not caplog.records


def test_a_segment_that_goes_between_looking_and_reading_is_found_where_it_went(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    writer, reader = ParquetVectors(store), ParquetVectors(store)
    put(writer, 0, MERGED_AT - 1)
    check(reader, 0, 1)
    original, waiting = module.read_vectors, [True]

    def merged_meanwhile(path: Path, rows: Any) -> Any:
        if waiting:
            waiting.clear()
            put(writer, MERGED_AT - 1, 1)
        return original(path, rows)

    monkeypatch.setattr(module, "read_vectors", merged_meanwhile)
    with caplog.at_level(logging.WARNING):
        check(reader, 0, MERGED_AT - 1)
    assert not waiting
    assert not caplog.records


def test_a_damaged_segment_is_neither_merged_nor_deleted(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    put(ParquetVectors(store), 0, 5)
    damaged, *_ = files(store)
    damaged.write_bytes(b"")
    with caplog.at_level(logging.WARNING):
        put(ParquetVectors(store), 5, MERGED_AT)
    assert damaged.exists()
    assert len(files(store)) < 10
    assert str(damaged) in caplog.text
    check(ParquetVectors(store), 5, MERGED_AT)


def test_a_process_killed_while_the_small_ones_go_loses_nothing(store: Store) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, str(store.root)],
        check=False, timeout=120, cwd=Path(__file__).parents[4], env=os.environ | {"PYTHONPATH": "."},
    )  # fmt: skip
    assert ended.returncode == -9
    assert len(files(store)) == 64 - 5 + 1
    vectors = ParquetVectors(store)
    check(vectors, 0, 64)
    put(vectors, 64, 10)
    assert len(files(store)) < 10
    check(vectors, 0, 74)


def test_one_process_merges_at_a_time(store: Store) -> None:
    with locked(store.vectors(MODEL) / ".lock"):
        put(ParquetVectors(store), 0, MERGED_AT + 1)
    assert len(files(store)) == MERGED_AT + 1


def test_where_merging_fails_the_small_segments_stay(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    vectors = ParquetVectors(store)
    put(vectors, 0, MERGED_AT - 1)
    original = module.write_vectors

    def full(path: Path, tables: Any) -> None:
        if isinstance(tables, list):
            original(path, tables)
        else:
            raise OSError("No space left on device")

    monkeypatch.setattr(module, "write_vectors", full)
    put(vectors, MERGED_AT - 1, 3)
    assert len(files(store)) == MERGED_AT + 2
    assert caplog.text.count("No space left") == 1
    check(vectors, 0, MERGED_AT + 2)


def test_in_a_bucket_small_segments_stay_for_other_hosts_would_bring_them_back(store: Store) -> None:
    class Bucket:
        def push(self, paths: Any) -> None: ...

        def sync(self, folders: Any, own: str = "") -> None: ...

    shared: Any = Store(store.root, Bucket())  # type: ignore[arg-type]
    put(ParquetVectors(shared), 0, MERGED_AT + 1)
    assert len(files(store)) == MERGED_AT + 1


def test_where_small_segments_cannot_be_removed_no_merged_one_is_added(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    original = Path.unlink

    def refused(path: Path, **options: Any) -> None:
        if path.name in small:
            raise PermissionError("not yours")
        original(path, **options)

    vectors = ParquetVectors(store)
    put(vectors, 0, MERGED_AT - 1)
    small = {path.name for path in store.vectors(MODEL).glob("*.parquet")}
    monkeypatch.setattr(Path, "unlink", refused)
    for number in range(3):
        fresh = ParquetVectors(store)
        check(fresh, 0, MERGED_AT - 1)
        put(fresh, MERGED_AT + number, 1)
        check(fresh, 0, MERGED_AT - 1)
    assert len(list(store.vectors(MODEL).glob("*.parquet"))) == MERGED_AT + 2
    assert "stay in many small files" in caplog.text


def test_where_there_are_no_locks_vectors_are_stored_all_the_same(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", refused)
    put(ParquetVectors(store), 0, MERGED_AT + 2)
    check(ParquetVectors(store), 0, MERGED_AT + 2)
