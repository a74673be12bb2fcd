"""Runs whose process was killed are found to be lost, and recorded as that by the next command."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from leadline.cli.main import cli
from leadline.tasks.ground.files import write_json
from leadline.tasks.ground.processes import process_record
from leadline.tasks.runs import heartbeats
from leadline.tasks.runs.heartbeats import SILENT_S, give_sign, giving_signs, record_lost
from leadline.tasks.runs.run_facts import summary
from leadline.tasks.store.store import Run, Store
from tests.support.processes.waiting import eventually
from tests.support.stores.s3 import S3

BEGIN = """
import os, signal, sys
from leadline.tasks.runs.heartbeats import give_sign
from leadline.tasks.ground.processes import process_record
from leadline.tasks.store.store import Store
store = Store.open(sys.argv[1])
run = store.new_run()
give_sign(store, run)
run.update({"status": "running", "process": process_record()})
print(run.id, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def killed_run(location: str) -> str:
    """Return the id of a run whose process was killed."""
    done = subprocess.run([sys.executable, "-c", BEGIN, location], capture_output=True, text=True, timeout=60)
    assert done.returncode == -9, done.stderr
    return done.stdout.strip()


def begun(store: Store, host: str) -> Run:
    """Return a run that a process of a host is said to be at."""
    run = store.new_run()
    give_sign(store, run)
    run.update({"status": "running", "process": process_record() | {"host": host}})
    return run


def sign(store: Store, run: Run) -> Path:
    return store.root / "alive" / f"{run.id}.json"


def silence(store: Store, run: Run) -> None:
    path = sign(store, run)
    write_json(path, json.loads(path.read_text()) | {"beat": time.time() - SILENT_S - 1})
    store.push([path])


def test_a_killed_run_is_shown_as_lost_and_recorded_by_the_next_command(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    run = store.run(killed_run(str(tmp_path)))
    assert run.read()["status"] == "running"
    assert summary(run)["status"] == "lost"

    listed = CliRunner().invoke(cli, ["--store", str(tmp_path), "store", "runs", "--json"], catch_exceptions=False)
    assert [known["status"] for known in json.loads(listed.stdout)] == ["lost"]
    assert run.read()["status"] == "lost"
    assert "same command goes on" in run.read()["error"]
    assert not sign(store, run).exists()
    assert record_lost(store) == []


def test_a_run_of_another_host_is_lost_when_it_was_silent_for_long(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    run = begun(store, "elsewhere.example")
    assert (summary(run)["status"], record_lost(store)) == ("running", [])
    silence(store, run)
    assert summary(run)["status"] == "lost"
    assert record_lost(store) == [run.id]
    assert run.read()["status"] == "lost"


def test_a_process_of_this_host_that_lives_is_not_lost_however_long_it_slept(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    run = store.new_run()
    give_sign(store, run)
    run.update({"status": "running", "process": process_record()})
    silence(store, run)
    assert (summary(run)["status"], record_lost(store)) == ("running", [])


def test_signs_are_renewed_while_a_run_is_made_and_go_when_it_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeats, "BEAT_S", 0.01)
    store = Store.open(tmp_path)
    run = begun(store, "elsewhere.example")
    silence(store, run)
    with giving_signs(store, run):
        eventually(lambda: summary(run)["status"] != "lost", 30, "a sign of life")
        run.update({"status": "completed"})
    assert not sign(store, run).exists()
    assert [thread for thread in threading.enumerate() if thread.name == "leadline-alive" and thread.is_alive()] == []


def test_signs_stay_where_nobody_could_record_how_the_run_ended(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    run = begun(store, "elsewhere.example")
    with giving_signs(store, run):
        pass
    assert sign(store, run).exists(), "it is found to be lost"


def test_signs_of_runs_that_never_began_or_have_ended_are_removed(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    never, ended = store.new_run(), begun(store, "elsewhere.example")
    give_sign(store, never)
    ended.update({"status": "failed"})
    assert record_lost(store) == []
    assert sign(store, never).exists(), "it may be just about to begin"
    assert not sign(store, ended).exists()
    silence(store, never)
    assert record_lost(store) == []
    assert not sign(store, never).exists()


def test_a_store_that_is_only_for_reading_shows_lost_runs_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store.open(tmp_path)
    run = store.run(killed_run(str(tmp_path)))

    def refuse(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("leadline.tasks.store.store.write_json", refuse)
    assert record_lost(store) == []
    assert summary(run)["status"] == "lost"


@pytest.mark.e2e
def test_in_a_bucket_every_host_sees_lost_runs_by_the_age_of_their_signs(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "one"))
    store = Store.open(s3.url)
    run = begun(store, "elsewhere.example")
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "two"))
    other = Store.open(s3.url)
    (seen,) = other.runs()
    assert (summary(seen)["status"], record_lost(other)) == ("running", [])
    silence(store, run)
    assert summary(seen)["status"] == "lost"
    assert record_lost(other) == [run.id]
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "three"))
    assert [known.read()["status"] for known in Store.open(s3.url).runs()] == ["lost"]
    assert [name for name in s3.names() if name.startswith("alive/")] == []


def test_a_damaged_record_hides_no_other_lost_run(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store")
    damaged, other = (store.run(f"20260101-10000{n}-aaaaaa") for n in range(2))
    for run in (damaged, other):
        give_sign(store, run)
        run.update({"status": "running", "process": process_record() | {"started": "0"}})
    (damaged.path / "run.json").write_text("{", encoding="utf-8")
    assert record_lost(store) == [other.id]
