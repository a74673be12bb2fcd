"""Files are on disk when they appear, what killed processes left of them goes, and what living ones write stays."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from leadline.tasks.ground import files
from leadline.tasks.ground.files import (
    DAY,
    clean_stale,
    host_tag,
    publish_folder,
    replacing,
    scratch_folder,
    temporary_beside,
)
from leadline.tasks.store.store import Store


def test_a_file_is_on_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[tuple[int, bool]] = []
    target = tmp_path / "file"
    monkeypatch.setattr(os, "fsync", lambda file: synced.append((os.fstat(file).st_ino, target.exists())))
    with replacing(target) as temporary:
        temporary.write_text("x")
    assert synced == [(target.stat().st_ino, False)]


def test_the_files_of_a_folder_that_later_runs_trust_are_on_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.fstat(file).st_ino))

    def fill(folder: Path) -> None:
        (folder / "inner").mkdir()
        for name in ("rows", "inner/manifest"):
            (folder / name).write_text("x")

    made = publish_folder(tmp_path / "made", fill)
    assert sorted(synced) == sorted((made / name).stat().st_ino for name in ("rows", "inner/manifest"))


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


HOLDING = """
import sys, time
from leadline.tasks.ground.files import scratch_folder
from leadline.tasks.store.store import Store

with scratch_folder(Store.open(sys.argv[1]).root, "collect") as folder:
    print(folder, flush=True)
    time.sleep(60)
"""


def test_a_folder_is_kept_while_its_process_lives_and_removed_when_it_was_killed(store: Store) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDING, str(store.root)], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        theirs = Path(other.stdout.readline().strip())
        os.utime(theirs, (0, 0))
        with scratch_folder(store.root, "load"):
            assert theirs.exists()
        other.send_signal(signal.SIGKILL)
        other.wait(60)
    assert theirs.exists()
    with scratch_folder(store.root, "load"):
        assert not theirs.exists()


def test_a_folder_that_is_just_being_made_stays(store: Store) -> None:
    fresh = store.root / "staging" / f"load-{host_tag()}-fresh"
    fresh.mkdir(parents=True)
    (fresh / ".lock").touch()
    with scratch_folder(store.root, "load") as mine:
        assert fresh.exists()
    assert not mine.exists()


@pytest.mark.parametrize(("hours", "stays"), [(1, True), (25, False)])
def test_a_folder_of_another_host_is_told_by_its_age_since_its_lock_may_not_be_seen(
    store: Store, hours: int, stays: bool
) -> None:
    theirs = store.root / "staging" / "load-00c0ffee-x"
    theirs.mkdir(parents=True)
    (theirs / ".lock").touch()
    then = time.time() - 3600 * hours
    os.utime(theirs, (then, then))
    with scratch_folder(store.root, "load"):
        assert theirs.exists() == stays


def test_a_file_system_without_locks_has_scratch_folders_all_the_same(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refused)
    with scratch_folder(store.root, "load") as mine:
        assert list(mine.iterdir()) == []


def test_a_folder_of_another_user_stays(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path) -> bool:
        raise PermissionError(path)

    theirs = store.root / "staging" / f"load-{host_tag()}-theirs"
    theirs.mkdir(parents=True)
    (theirs / ".lock").touch()
    os.utime(theirs, (0, 0))
    monkeypatch.setattr("leadline.tasks.ground.files.is_held", refused)
    with scratch_folder(store.root, "load"):
        assert theirs.exists()
