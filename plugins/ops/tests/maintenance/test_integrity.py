"""Damage is found wherever it is, and mended by computing again."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from leadline.evaluators.ground import StoreError
from leadline.flows.evaluate.config import EvaluateConfig, EvaluateResult
from leadline.flows.evaluate.job import Evaluate
from leadline.plugins.ops.maintenance.integrity import CheckedStore, Damage, check_store
from leadline.tasks.db import sql
from leadline.tasks.judges.labels.drawing import draw
from leadline.tasks.judges.labels.judged_rows import read_judged_rows
from leadline.tasks.judges.labels.label_sets import LabelSet, make_sample
from leadline.tasks.load.label import Label
from leadline.tasks.pipeline import correct_scores
from leadline.tasks.store.parquet_files import is_sealed, seal, seal_fault
from leadline.tasks.store.store import MANIFEST, Store
from leadline.tasks.store.vectors import ParquetVectors
from tests.support.stores.run_factory import Given, answer, make_run

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


def evaluate(store: Path, rows: Path) -> EvaluateResult:
    return Evaluate()(EvaluateConfig(dataset=str(rows), evaluators=("bleu",), store=str(store)))


def damages(store: Store, *, repair: bool = False) -> list[Damage]:
    return list(check_store(store, CheckedStore(), repair=repair))


def flip(path: Path, place: int) -> None:
    """Turn one bit of a file around."""
    data = bytearray(path.read_bytes())
    data[place] ^= 4
    path.write_bytes(data)


def segment(store: Store) -> Path:
    (found,) = (store.root / "scores").rglob("*.parquet")
    return found


def test_a_store_as_it_was_written_is_whole(store: Store) -> None:
    checked = CheckedStore()
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


@pytest.fixture
def labelled(tmp_path: Path) -> Store:
    """A store with labels, the sample in which they were drawn, and the certificate that they earned."""
    rows = [answer(f"c{n}", "bot", answer=f"{n} m") for n in range(80)]
    scores = [Given(f"c{n}", "bot", float(n % 4 != 0)) for n in range(80)]
    store, run = make_run(tmp_path, rows=rows, scores=scores)
    run.update({"status": "completed"})
    (store.dataset(run.read()["dataset"]) / MANIFEST).write_text("{}")
    judged = read_judged_rows(store, run, "toy")
    sample = make_sample(run, judged, draw(judged, 80), how="uniform", seed=1)
    people = LabelSet(store, "people")
    people.keep_sample(sample)
    people.add([Label(row.key, "toy.value", float(row.case[-1] not in "05"), "a", "2026-01-01") for row in sample.rows])
    return store


def test_every_byte_of_labels_that_says_something_counts(labelled: Store) -> None:
    [path] = labelled.root.glob("labels/people/*.parquet")
    known, name = LabelSet(labelled, "people").history(), path.relative_to(labelled.root).as_posix()
    seen = 0
    for place in range(0, path.stat().st_size, 41):
        flip(path, place)
        found = [damage for damage in damages(labelled) if damage.name == name]
        if not found:  # a byte that no reader looks at
            assert LabelSet(labelled, "people").history() == known, place
        seen += len(found)
        assert all("Restore the file from a backup" in damage.advice and not damage.mendable for damage in found)
        flip(path, place)
    assert seen > 20
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(StoreError, match=path.name):
        LabelSet(labelled, "people").labels()


def test_damaged_samples_and_certificates_are_named_and_certificates_earned_again(labelled: Store) -> None:
    [run] = labelled.runs()
    correct_scores(labelled, run)
    [certificate] = labelled.root.glob("labels/people/certificates/*.json")
    certificate.write_text(certificate.read_text().replace('"n_people": 1', '"n_people": 7'))
    [sample] = labelled.root.glob("labels/people/samples/*.json")
    written = sample.read_text()
    sample.write_text(written[:-9])
    found = damages(labelled, repair=True)
    names = [path.relative_to(labelled.root).as_posix() for path in (certificate, sample)]
    assert [(damage.name, damage.mended) for damage in found if damage.name.startswith("labels/")] == [
        (names[0], True),
        (names[1], False),
    ]
    with pytest.raises(StoreError, match=sample.name):
        LabelSet(labelled, "people").samples()
    sample.write_text(written)
    correct_scores(labelled, run)
    assert certificate.exists()
    assert not [damage for damage in damages(labelled) if damage.name.startswith("labels/")]


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
    checked = CheckedStore()
    assert list(check_store(store, checked)) == []
    assert checked.without_digest == 1
    parquet.write_table(table, path, compression="none", use_dictionary=False, write_page_checksum=True)
    flip(path, path.stat().st_size // 2)
    (found,) = damages(store)
    assert found.name == path.relative_to(store.root).as_posix()


def test_a_digest_changes_nothing_for_readers(tmp_path: Path) -> None:
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
