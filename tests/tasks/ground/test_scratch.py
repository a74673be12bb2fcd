"""Scratch folders go with their process, and not before."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from leadline.tasks.ground.files import host_tag, scratch_folder
from leadline.tasks.store.store import Store

HOLDING = """
import sys, time
from leadline.tasks.ground.files import scratch_folder
from leadline.tasks.store.store import Store

with scratch_folder(Store.open(sys.argv[1]).root, "collect") as folder:
    print(folder, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store")


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
