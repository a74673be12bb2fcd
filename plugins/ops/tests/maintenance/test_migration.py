"""A store of an earlier format is brought up to date, also in several goes, and its scores are reused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from pyarrow import parquet

from leadline.evaluators.ground import StoreError
from leadline.flows.evaluate.config import EvaluateConfig
from leadline.flows.evaluate.job import Evaluate
from leadline.plugins.ops.maintenance.integrity import CheckedStore, check_store, migrate
from leadline.tasks.store.parquet_files import is_sealed
from leadline.tasks.store.store import DIGESTS, FORMAT, STORE_FILE, Store, format_of

ROWS = [{"question": f"Q{n}?", "expected_answer": f"It is {n}", "actual_answer": f"It is {n % 3}"} for n in range(5)]
EVALUATORS = ("bleu", "rouge", "text_matching")


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store as version 0.1.0 left it: no number, and no digests."""
    folder = tmp_path_factory.mktemp("earlier")
    (folder / "answers.json").write_text(json.dumps(ROWS), encoding="utf-8")
    Evaluate()(EvaluateConfig(dataset=str(folder / "answers.json"), evaluators=EVALUATORS, store=str(folder / "store")))
    root = folder / "store"
    (root / STORE_FILE).unlink()
    for path in root.glob("scores/*/*/*.parquet"):
        parquet.write_table(parquet.read_table(path), path, compression="zstd")
    for path in root.glob("datasets/*/manifest.json"):
        known = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps({name: known[name] for name in known if name != "sha256"}), encoding="utf-8")
    for path in root.glob(f"runs/*/{DIGESTS}"):
        path.unlink()
    return folder


@pytest.fixture
def store(earlier: Path, tmp_path: Path) -> Store:
    shutil.copytree(earlier / "store", tmp_path / "store")
    return Store.open(tmp_path / "store")


def is_all_reused(earlier: Path, store: Store) -> bool:
    Evaluate()(EvaluateConfig(dataset=str(earlier / "answers.json"), evaluators=EVALUATORS, store=str(store.root)))
    record = store.runs()[-1].read()
    return record["computed"] == 0 and record["reused"] > 0


def test_a_store_without_a_number_is_used_as_it_is(earlier: Path, store: Store) -> None:
    assert format_of(store.root) == 1
    assert is_all_reused(earlier, store)
    assert format_of(store.root) == 1


def test_a_migrated_store_has_digests_and_its_scores_are_reused(earlier: Path, store: Store) -> None:
    before = {path: parquet.read_table(path) for path in store.root.glob("scores/*/*/*.parquet")}
    done = list(migrate(store))
    assert len(done) == len(before) + 1
    assert all(not fault for _, fault in done)
    assert format_of(store.root) == FORMAT
    checked = CheckedStore()
    assert list(check_store(store, checked)) == []
    assert checked.without_digest == 0
    assert all(parquet.read_table(path).equals(table) for path, table in before.items())
    assert is_all_reused(earlier, store)
    assert list(migrate(store)) == []


def test_a_killed_migration_goes_on(earlier: Path, store: Store) -> None:
    segments = len(list(store.root.glob("scores/*/*/*.parquet")))
    going = migrate(store)
    next(going)
    going.close()
    assert sum(map(is_sealed, store.root.glob("scores/*/*/*.parquet"))) == 1
    assert format_of(store.root) == 1
    assert is_all_reused(earlier, store)
    assert len(list(migrate(store))) == segments
    assert format_of(store.root) == FORMAT


def test_what_is_damaged_gets_no_digest(store: Store) -> None:
    path = next(store.root.glob("scores/*/*/*.parquet"))
    path.write_bytes(path.read_bytes()[:-20])
    damaged = [name for name, fault in migrate(store) if fault]
    assert damaged == [path.relative_to(store.root).as_posix()]


def test_a_new_store_has_todays_format(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    for name in ("new", "made"):
        assert format_of(Store.open(tmp_path / name).root) == FORMAT
        assert (tmp_path / name / STORE_FILE).exists()


@pytest.mark.parametrize(("text", "what"), [('{"format": 99}', "has format 99"), ("{}", "does not say the format")])
def test_a_later_or_unknown_format_is_refused(tmp_path: Path, text: str, what: str) -> None:
    Store.open(tmp_path / "store")
    (tmp_path / "store" / STORE_FILE).write_text(text, encoding="utf-8")
    with pytest.raises(StoreError, match=what):
        Store.open(tmp_path / "store")
