"""What killed processes left is removed, and what living ones write stays."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from leadline.tasks.ground import files
from leadline.tasks.ground.files import DAY, clean_stale, replacing, temporary_beside
from leadline.tasks.store.store import Store

KILLED = """
import os, sys
from pathlib import Path
from leadline.tasks.ground.files import replacing

with replacing(Path(sys.argv[1])) as temporary:
    if sys.argv[2] == "folder":
        (temporary / "inner").mkdir(parents=True)
        (temporary / "inner" / "big").write_text("x")
    else:
        temporary.write_text("x")
    os.kill(os.getpid(), 9)
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store")


def age(path: Path, days: float) -> None:
    then = time.time() - days * DAY
    os.utime(path, (then, then))


def kill_while_it_writes(path: Path, kind: str) -> Path:
    """Return what a process left that was killed while it wrote a file or a folder, two days ago."""
    subprocess.run([sys.executable, "-c", KILLED, str(path), kind], check=False, timeout=60)
    (left,) = path.parent.glob(".*.tmp")
    age(left, 2)
    return left


def test_what_a_killed_process_left_goes_when_the_next_run_begins(store: Store) -> None:
    left = [
        kill_while_it_writes(store.dataset("d"), "folder"),
        kill_while_it_writes(store.run("r").results, "folder"),
        kill_while_it_writes(store.scores("e", "c") / "s.parquet", "file"),
    ]
    clean_stale(store.root)
    assert not any(path.exists() for path in left)


def test_what_a_living_process_writes_stays_however_old_it_is(store: Store) -> None:
    with replacing(store.run("r").results) as temporary:
        temporary.mkdir(parents=True)
        age(temporary, 9)
        clean_stale(store.root)
        assert temporary.exists()
    assert store.run("r").results.exists()


def test_what_was_written_within_a_day_stays(store: Store) -> None:
    left = kill_while_it_writes(store.dataset("d"), "file")
    age(left, 0.9)
    clean_stale(store.root)
    assert left.exists()


def test_what_another_host_writes_stays_for_a_month(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(files, "host_tag", lambda: "00c0ffee")
        theirs = temporary_beside(store.dataset("d"))
    theirs.parent.mkdir()
    theirs.with_name(theirs.name.replace(str(os.getpid()), "999999999")).touch()
    (theirs,) = theirs.parent.iterdir()
    for days in (9, 31):
        age(theirs, days)
        for mark in store.root.glob(".swept-*"):
            mark.unlink()
        clean_stale(store.root)
        assert theirs.exists() == (days < 30)


def test_other_hidden_files_stay(store: Store) -> None:
    run = store.run("r").path
    run.mkdir(parents=True)
    for name in (".own", ".run.duckdb.version", ".notes.tmp", "results.tmp"):
        (run / name).touch()
        age(run / name, 90)
    clean_stale(store.root)
    assert len(list(run.iterdir())) == 4


def test_a_store_is_looked_through_once_a_day(store: Store) -> None:
    clean_stale(store.root)
    left = kill_while_it_writes(store.dataset("d"), "file")
    clean_stale(store.root)
    assert left.exists()
    (mark,) = store.root.glob(".swept-*")
    age(mark, 1.1)
    clean_stale(store.root)
    assert not left.exists()


def test_a_mark_of_another_user_keeps_no_run_from_beginning(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError("not yours")

    monkeypatch.setattr(Path, "touch", refused)
    clean_stale(store.root)


def test_what_cannot_be_removed_keeps_no_run_from_beginning(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(path: Path) -> None:
        raise PermissionError("not yours")

    left = kill_while_it_writes(store.dataset("d"), "file")
    monkeypatch.setattr(files, "remove", refused)
    clean_stale(store.root)
    assert str(left) in caplog.text
