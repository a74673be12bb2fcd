"""Damage is found wherever it is, and mended by computing again."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import leadline
from leadline.tasks.db.statements import sql
from leadline.tasks.maintenance.integrity import Checked, Damage, check_store
from leadline.tasks.store.digests import is_sealed, seal, seal_fault
from leadline.tasks.store.store import Store
from leadline.tasks.store.vectors.vectors import ParquetVectors

ROWS = [
    {"question": f"Question {n}?", "expected_answer": f"The answer is {n}", "actual_answer": f"The answer is {n % 3}"}
    for n in range(6)
]


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one run."""
    folder = tmp_path_factory.mktemp("evaluated")
    rows = folder / "answers.json"
    rows.write_text(json.dumps(ROWS), encoding="utf-8")
    evaluate(folder / "store", rows)
    ParquetVectors(Store.open(folder / "store")).put("m", [bytes(16)], np.ones((1, 4), np.float32))
    return folder


@pytest.fixture
def folder(evaluated: Path, tmp_path: Path) -> Path:
    """A copy of it with the file that was evaluated."""
    shutil.copytree(evaluated, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.fixture
def store(folder: Path) -> Store:
    return Store.open(folder / "store")


def evaluate(store: Path, rows: Path) -> leadline.Result:
    return leadline.evaluate(rows, evaluators=["bleu"], store=str(store))


def damages(store: Store, *, repair: bool = False) -> list[Damage]:
    return list(check_store(store, Checked(), repair=repair))


def flip(path: Path, place: int) -> None:
    """Turn one bit of a file around."""
    data = bytearray(path.read_bytes())
    data[place] ^= 4
    path.write_bytes(data)


def segment(store: Store) -> Path:
    (found,) = (store.root / "scores").rglob("*.parquet")
    return found


def test_a_store_as_it_was_written_is_whole(store: Store) -> None:
    checked = Checked()
    assert list(check_store(store, checked)) == []
    assert checked.files > 8
    assert checked.without_digest == 0


@pytest.mark.parametrize(
    "pattern", ["scores/*/*/*.parquet", "vectors/*/*.parquet", "datasets/*/*.parquet", "runs/*/results/*.html"]
)
def test_one_bit_is_noticed(store: Store, pattern: str) -> None:
    for path in store.root.glob(pattern):
        flip(path, path.stat().st_size // 2)
        (found,) = damages(store)
        assert "not those that were written" in found.fault
        assert found.name in str(path)
        flip(path, path.stat().st_size // 2)


def test_every_bit_of_a_segment_counts(store: Store) -> None:
    path = segment(store)
    for place in range(0, path.stat().st_size, 7):
        flip(path, place)
        assert len(damages_of(path)) == 1, place
        flip(path, place)
    assert damages_of(path) == []


def damages_of(path: Path) -> list[str]:
    try:
        fault = seal_fault(path)
    except ValueError as error:
        fault = str(error)
    return [fault] if fault else []


def test_damaged_scores_are_set_aside_and_computed_again(folder: Path, store: Store) -> None:
    path = segment(store)
    before = parquet.read_table(path)
    flip(path, path.stat().st_size // 2)
    (found,) = damages(store, repair=True)
    assert found.mended
    assert not path.exists()
    assert (store.root / "damaged" / path.relative_to(store.root)).exists()
    assert damages(store) == []
    again = evaluate(store.root, folder / "answers.json")
    assert again.gate in ("pass", "fail", "inconclusive")
    after = parquet.read_table(segment(store))
    assert after.sort_by("key").equals(before.sort_by("key"))


def test_a_damaged_dataset_is_loaded_again(folder: Path, store: Store) -> None:
    path = next(store.root.glob("datasets/*/rows.parquet"))
    flip(path, path.stat().st_size // 2)
    (found,) = damages(store, repair=True)
    assert found.mended
    evaluate(store.root, folder / "answers.json")
    assert damages(store) == []


def test_a_damaged_database_of_a_run_is_named(store: Store) -> None:
    (path,) = store.root.glob("runs/*/run.duckdb")
    with path.open("r+b") as file:
        file.seek(3 * 4096)  # behind the headers
        file.write(b"\xff" * (path.stat().st_size // 2))
    (found,) = damages(store, repair=True)
    assert found.name.endswith("run.duckdb")
    assert "Evaluate its dataset again" in found.advice
    assert not found.mended


def test_segments_without_a_digest_are_read_through(store: Store) -> None:
    path = segment(store)
    table = pa.concat_tables([parquet.read_table(path)] * 500)
    parquet.write_table(table, path, compression="none", use_dictionary=False)
    checked = Checked()
    assert list(check_store(store, checked)) == []
    assert checked.without_digest == 1
    parquet.write_table(table, path, compression="none", use_dictionary=False, write_page_checksum=True)
    flip(path, path.stat().st_size // 2)
    (found,) = damages(store)
    assert found.name == path.relative_to(store.root).as_posix()


def test_a_digest_changes_nothing_for_readers(tmp_path: Path) -> None:
    import duckdb

    table = pa.table({"n": list(range(10_000)), "s": [f"text {n}" for n in range(10_000)]})
    parquet.write_table(table, tmp_path / "a.parquet")
    plain = (tmp_path / "a.parquet").read_bytes()
    seal(tmp_path / "a.parquet")
    sealed = (tmp_path / "a.parquet").read_bytes()
    assert len(sealed) == len(plain) + 48
    assert is_sealed(tmp_path / "a.parquet")
    assert parquet.read_table(tmp_path / "a.parquet").equals(table)
    query = f"SELECT sum(n), max(s) FROM '{tmp_path / 'a.parquet'}' WHERE n > 5000"
    assert duckdb.connect().execute(query).fetchall() == [(sum(range(5001, 10_000)), "text 9999")]
    seal(tmp_path / "a.parquet")
    assert (tmp_path / "a.parquet").read_bytes() == sealed


def test_a_ledger_that_contradicts_itself_is_named(store: Store) -> None:
    with closing(sqlite3.connect(store.root / "ledger.sqlite", isolation_level=None)) as ledger:
        ledger.executescript(sql("ledger/schema"))
        ledger.execute("INSERT INTO judges VALUES ('j', 'm', '{}')")
        ledger.execute("INSERT INTO calls (digest, judge, trial, attempt, messages) VALUES ('one', 'j', 0, 1, '[]')")
        ask = (
            "INSERT INTO asks (ask, digest, run, purpose, process, state, intended_at) VALUES (?, ?, 'r', 'p', ?, ?, 1)"
        )
        ledger.execute(ask, (1, "one", "h:1:1", "answered"))
        ledger.execute(ask, (2, "two", "h:1:1", "intended"))
    found = damages(store)
    assert [damage.fault for damage in found] == [
        "call one: it was answered, and its reply is missing",
        "call two: it was begun, and its question is missing",
    ]


def test_a_ledger_whose_file_is_damaged_is_named(store: Store) -> None:
    path = store.root / "ledger.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as ledger:
        ledger.executescript(sql("ledger/schema"))
        judges = [(str(n), "m" * 500, "{}") for n in range(200)]
        ledger.executemany("INSERT INTO judges VALUES (?, ?, ?)", judges)
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(b"\xff" * 8192)
    assert damages(store)
