"""A copy of a store is whole, is made while runs go on, and becomes a store only if nothing in it was changed."""

from __future__ import annotations

import io
import json
import shutil
import sqlite3
import subprocess
import sys
import tarfile
from contextlib import closing
from pathlib import Path

import pytest

from leadline.evaluators.ground import StoreError, UsageError
from leadline.flows.evaluate.config import EvaluateConfig
from leadline.flows.evaluate.job import Evaluate
from leadline.plugins.ops.maintenance import backup
from leadline.plugins.ops.maintenance.backup import LIST, back_up, restore
from leadline.plugins.ops.maintenance.integrity import CheckedStore, check_store
from leadline.tasks.db import sql
from leadline.tasks.store.store import Store

ROWS = [{"question": f"Q{n}?", "expected_answer": f"It is {n}", "actual_answer": f"It is {n % 2}"} for n in range(4)]
FORMS = ["copy.tar", "copy"]


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one completed run, one in work, and a ledger."""
    folder = tmp_path_factory.mktemp("evaluated")
    (folder / "answers.json").write_text(json.dumps(ROWS), encoding="utf-8")
    Evaluate()(EvaluateConfig(dataset=str(folder / "answers.json"), evaluators=("bleu",), store=str(folder / "store")))
    store = Store.open(folder / "store")
    store.new_run().update({"status": "running"})
    with closing(sqlite3.connect(store.root / "ledger.sqlite", isolation_level=None)) as ledger:
        ledger.executescript(sql("ledger/schema"))
    return folder


def contents(root: Path) -> dict[str, bytes]:
    """Return the files of a store that a backup has."""
    running = {path.parent.name for path in root.glob("runs/*/run.json") if '"running"' in path.read_text("utf-8")}
    return {
        name: path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
        and not any(part.startswith(".") or part in running for part in path.relative_to(root).parts)
        and (name := path.relative_to(root).as_posix()).partition("/")[0] not in ("alive", "staging", "tmp", LIST)
        and not name.startswith("ledger.sqlite")
    }


@pytest.mark.parametrize("form", FORMS)
def test_what_is_restored_is_what_was_copied_and_scores_are_reused(evaluated: Path, tmp_path: Path, form: str) -> None:
    store = Store.open(evaluated / "store")
    made = back_up(store, tmp_path / form)
    assert len(made.left_out) == 1
    assert made.ledger
    found = restore(tmp_path / form, tmp_path / "new")
    assert (found.files, found.bytes) == (made.files, made.bytes)
    assert contents(tmp_path / "new") == contents(store.root)
    restored = Store.open(tmp_path / "new")
    assert list(check_store(restored, CheckedStore())) == []
    Evaluate()(
        EvaluateConfig(dataset=str(evaluated / "answers.json"), evaluators=("bleu",), store=str(tmp_path / "new"))
    )
    assert [run.read()["reused"] for run in restored.runs()] == [0, len({row["actual_answer"] for row in ROWS}) * 2]


def test_a_run_whose_record_is_damaged_is_left_out(evaluated: Path, tmp_path: Path) -> None:
    shutil.copytree(evaluated / "store", tmp_path / "store")
    store = Store.open(tmp_path / "store")
    damaged = store.new_run()
    (damaged.path / "run.json").write_text('{"id": "2026', encoding="utf-8")
    made = back_up(store, tmp_path / "copy")
    assert damaged.id in made.left_out
    restore(tmp_path / "copy", tmp_path / "new")
    assert len(Store.open(tmp_path / "new").runs()) == 1


@pytest.mark.parametrize("form", FORMS)
def test_a_copy_is_for_its_owner_alone(evaluated: Path, tmp_path: Path, form: str) -> None:
    back_up(Store.open(evaluated / "store"), tmp_path / form)
    assert (tmp_path / form).stat().st_mode & 0o077 == 0
    restore(tmp_path / form, tmp_path / "new")
    assert (tmp_path / "new").stat().st_mode & 0o077 == 0


def test_the_ledger_is_consistent_while_somebody_writes_it(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store")
    code = (
        "import sqlite3, sys\n"
        "ledger = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)\n"
        "ledger.execute('PRAGMA journal_mode = WAL'); ledger.executescript(sys.argv[2]); n = 0\n"
        "while True:\n"
        "    ledger.execute('BEGIN IMMEDIATE'); n += 1\n"
        "    ledger.execute('INSERT INTO judges VALUES (?, ?, ?)', (f'a{n}', 'm', 'x' * 500))\n"
        "    ledger.execute('INSERT INTO judges VALUES (?, ?, ?)', (f'b{n}', 'm', 'x' * 500))\n"
        "    ledger.execute('COMMIT')\n"
        "    if n == 50: print('writing', flush=True)\n"
    )
    place = store.root / "ledger.sqlite"
    writing = subprocess.Popen([sys.executable, "-c", code, str(place), sql("ledger/schema")], stdout=subprocess.PIPE)
    try:
        assert writing.stdout is not None
        assert writing.stdout.readline() == b"writing\n"
        for number in range(3):
            back_up(store, tmp_path / f"copy{number}")
    finally:
        writing.kill()
        writing.communicate()
    for number in range(3):
        with closing(sqlite3.connect(tmp_path / f"copy{number}" / "ledger.sqlite")) as ledger:
            assert ledger.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            count = (
                "SELECT count(*) FILTER (WHERE judge LIKE 'a%'), count(*) FILTER (WHERE judge LIKE 'b%') FROM judges"
            )
            ((first, second),) = ledger.execute(count).fetchall()
            assert first == second >= 50


def test_a_changed_file_a_missing_one_and_one_more_are_refused(evaluated: Path, tmp_path: Path) -> None:
    back_up(Store.open(evaluated / "store"), tmp_path / "copy")
    (segment,) = (tmp_path / "copy" / "scores").rglob("*.parquet")
    data = segment.read_bytes()
    segment.write_bytes(data[:-1] + b"x")
    with pytest.raises(StoreError, match=r"parquet' was changed"):
        restore(tmp_path / "copy", tmp_path / "new")
    segment.unlink()
    with pytest.raises(StoreError, match=r"parquet' is missing"):
        restore(tmp_path / "copy", tmp_path / "new")
    segment.write_bytes(data)
    (segment.parent / "more.parquet").write_bytes(data)
    with pytest.raises(StoreError, match=r"more.parquet' is not listed"):
        restore(tmp_path / "copy", tmp_path / "new")
    (tmp_path / "copy" / LIST).unlink()
    with pytest.raises(StoreError, match="not complete"):
        restore(tmp_path / "copy", tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]


@pytest.mark.parametrize("form", FORMS)
def test_the_list_may_be_as_long_as_the_files_are_many_and_no_longer(
    evaluated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setattr(backup, "_LIST_ROOM", 1000)
    back_up(Store.open(evaluated / "store"), tmp_path / form)
    restore(tmp_path / form, tmp_path / "new")
    if form == "copy":
        with (tmp_path / "copy" / LIST).open("ab") as file:
            file.write(b" " * 10_000_000)
        with pytest.raises(StoreError, match="not complete"):
            restore(tmp_path / form, tmp_path / "again")


def tar(path: Path, *members: tuple[tarfile.TarInfo, bytes], form: int = tarfile.GNU_FORMAT) -> Path:
    with tarfile.open(path, "w", format=form) as archive:
        for member, data in members:
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, target
    return made


@pytest.mark.parametrize(
    "name",
    ["../evil", "/etc/evil", "runs/../../evil", "runs//a", "runs/.hidden", "evil", "evil/a", "runs\\..\\a", "runs"],
)
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    archive = tar(tmp_path / "evil.tar", (member(name), b"x"))
    with pytest.raises(StoreError, match="is no file of a store"):
        restore(archive, tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["evil.tar"]


@pytest.mark.parametrize(
    "kind",
    [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE, tarfile.GNUTYPE_SPARSE],
)
def test_what_is_no_plain_file_is_refused(tmp_path: Path, kind: bytes) -> None:
    archive = tar(tmp_path / "evil.tar", (member("runs/a/run.json", kind, "/etc/passwd"), b""))
    with pytest.raises(StoreError, match="is no plain file"):
        restore(archive, tmp_path / "new")


def test_large_headers_and_compressed_files_are_refused(tmp_path: Path) -> None:
    long = member("runs/a/" + "x" * 5000)
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        with pytest.raises(StoreError, match="is no plain file"):
            restore(tar(tmp_path / "evil.tar", (long, b"x"), form=form), tmp_path / "new")
    with tarfile.open(tmp_path / "bomb.tar", "w:gz") as archive:
        zeros = member("runs/a/run.json")
        zeros.size = 1 << 20
        archive.addfile(zeros, io.BytesIO(bytes(1 << 20)))
    with pytest.raises(StoreError, match="tar file"):
        restore(tmp_path / "bomb.tar", tmp_path / "new")


def test_a_cut_off_file_is_refused(evaluated: Path, tmp_path: Path) -> None:
    back_up(Store.open(evaluated / "store"), tmp_path / "copy.tar")
    data = (tmp_path / "copy.tar").read_bytes()
    for share in (0.1, 0.5, 0.9):
        (tmp_path / "cut.tar").write_bytes(data[: int(len(data) * share)])
        with pytest.raises(StoreError):
            restore(tmp_path / "cut.tar", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_links_in_a_folder_are_refused(evaluated: Path, tmp_path: Path) -> None:
    back_up(Store.open(evaluated / "store"), tmp_path / "copy")
    (tmp_path / "copy" / "runs" / "link").symlink_to("/etc")
    with pytest.raises(StoreError, match="is a link"):
        restore(tmp_path / "copy", tmp_path / "new")


def test_nothing_is_overwritten(evaluated: Path, tmp_path: Path) -> None:
    store = Store.open(evaluated / "store")
    back_up(store, tmp_path / "copy")
    with pytest.raises(UsageError, match="exists"):
        back_up(store, tmp_path / "copy")
    with pytest.raises(UsageError, match="is not empty"):
        restore(tmp_path / "copy", store.root)
    (tmp_path / "empty").mkdir()
    restore(tmp_path / "copy", tmp_path / "empty")
    assert contents(tmp_path / "empty") == contents(store.root)


def test_a_backup_that_fails_leaves_nothing(evaluated: Path, tmp_path: Path) -> None:
    shutil.copytree(evaluated / "store", tmp_path / "store")
    (tmp_path / "store" / "ledger.sqlite").write_bytes(b"not a database" * 1000)
    with pytest.raises(StoreError, match="cannot be copied"):
        back_up(Store.open(tmp_path / "store"), tmp_path / "copy.tar")
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
