"""Claims: one evaluation per version, whoever dies over it; and which version is the one before."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from leadline.tasks.runs.versions import (
    RECORD,
    SILENT_S,
    Claim,
    Subject,
    claim,
    file_name,
    of_version,
    previous,
    renewed,
    tag_of,
)
from leadline.tasks.store.store import Store
from tests.support.processes.waiting import eventually
from tests.support.stores.object_server import serving_objects
from tests.support.stores.s3 import use

OWNER = {"flow_run": "f-1"}


def subject(version: str = "2", model: str = "harbour", suite: str = "tides", **configuration: Any) -> Subject:
    return Subject(model, version, suite, f"digest of {suite}", {"measured": {"evaluators": ["bleu"]}, **configuration})


def finish(store: Store, of: Subject, decision: str = "pass", **outcome: Any) -> None:
    taken = claim(store, of, owner=OWNER)
    assert isinstance(taken, Claim)
    taken.finish("done", {"decision": decision, "run": f"run-{of.version}", **outcome})


def test_of_many_that_come_at_once_one_gets_the_claim(store: Store) -> None:
    found: list[Any] = []
    start = threading.Barrier(8)

    def try_it() -> None:
        start.wait()
        found.append(claim(store, subject(), owner=OWNER))

    threads = [threading.Thread(target=try_it) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(isinstance(each, Claim) for each in found) == 1
    assert {each["state"] for each in found if not isinstance(each, Claim)} == {"running"}


def test_what_is_done_is_answered_from_its_record_unless_it_is_wanted_again(store: Store) -> None:
    finish(store, subject())
    known = claim(store, subject(), owner=OWNER)
    assert isinstance(known, dict)
    assert (known["state"], known["decision"], known["run"]) == ("done", "pass", "run-2")
    assert isinstance(claim(store, subject(), owner=OWNER, again=True), Claim)


@pytest.mark.parametrize("other", [subject("3"), subject(model="x"), subject(suite="berths"), subject(decided=1)])
def test_another_version_suite_or_configuration_is_another_evaluation(store: Store, other: Subject) -> None:
    finish(store, subject())
    assert isinstance(claim(store, other, owner=OWNER), Claim)


def test_what_failed_or_stayed_incomplete_is_tried_again(store: Store) -> None:
    taken = claim(store, subject(), owner=OWNER)
    assert isinstance(taken, Claim)
    with pytest.raises(RuntimeError, match="no luck"), renewed(taken):
        raise RuntimeError("no luck")
    record = json.loads((subject().folder(store) / RECORD).read_text())
    assert (record["state"], record["error"]) == ("failed", "RuntimeError: no luck")
    again = claim(store, subject(), owner=OWNER)
    assert isinstance(again, Claim)
    assert not again.taken_over
    again.finish("incomplete", {"decision": "inconclusive"})
    assert isinstance(claim(store, subject(), owner=OWNER), Claim)


def owned_by(store: Store, process: str, beat: float) -> None:
    path = subject().folder(store) / RECORD
    taken = claim(store, subject(), owner=OWNER)
    assert isinstance(taken, Claim)
    record = json.loads(path.read_text()) | {"process": process, "beat": beat}
    path.write_text(json.dumps(record))


def test_a_live_owner_keeps_its_claim_and_a_dead_one_loses_it(store: Store) -> None:
    script = "from leadline.tasks.ground.processes import this_process; print(this_process(), flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path.cwd(),
        env=os.environ | {"PYTHONPATH": str(Path.cwd())},
    ) as owner:  # fmt: skip
        assert owner.stdout is not None
        owned_by(store, owner.stdout.readline().strip(), time.time() - 10 * SILENT_S)
        left = claim(store, subject(), owner=OWNER)
        assert isinstance(left, dict)
        assert left["state"] == "running"
        owner.kill()
    taken = claim(store, subject(), owner=OWNER)
    assert isinstance(taken, Claim)
    assert taken.taken_over


def test_an_owner_on_another_host_is_given_up_when_it_has_been_silent_for_long(store: Store) -> None:
    assert socket.gethostname() != "elsewhere"
    owned_by(store, "elsewhere:1:99", time.time() - SILENT_S / 2)
    assert isinstance(claim(store, subject(), owner=OWNER), dict)
    path = subject().folder(store) / RECORD
    path.write_text(json.dumps(json.loads(path.read_text()) | {"beat": time.time() - 2 * SILENT_S}))
    assert isinstance(claim(store, subject(), owner=OWNER), Claim)


def test_who_lost_its_claim_says_nothing_any_more(store: Store) -> None:
    taken = claim(store, subject(), owner=OWNER)
    assert isinstance(taken, Claim)
    path = subject().folder(store) / RECORD
    path.write_text(json.dumps(json.loads(path.read_text()) | {"token": "of another owner"}))
    taken.finish("done", {"decision": "pass"})
    assert json.loads(path.read_text())["state"] == "running"


def measure(store: Store, of: Subject) -> str:
    """Return the version that another one is held against."""
    found = previous(store, of)
    assert found is not None
    return str(found["version"])


@pytest.mark.parametrize(
    ("earlier", "wanted"),
    [
        ({"1": "pass", "2": "fail", "1b": "inconclusive"}, "1"),
        ({"1": "inconclusive", "2": "fail"}, "1"),
        ({"1": "fail", "2": "fail"}, "2"),
    ],
    ids=["the last that passed", "else the last that is undecided", "else the last"],
)
def test_the_version_before_is_the_best_of_its_model_and_suite(
    store: Store, earlier: dict[str, str], wanted: str
) -> None:
    finish(store, subject("9", suite="berths"))
    finish(store, subject("9", model="other"))
    assert previous(store, subject("3")) is None
    for version, decision in earlier.items():
        finish(store, subject(version), decision)
    assert measure(store, subject("3")) == wanted


def test_a_beat_that_fails_is_tried_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leadline.tasks.runs.versions.BEAT_S", 0.01)
    taken = claim(store, subject(), owner=OWNER)
    assert isinstance(taken, Claim)
    beats: list[int] = []

    def beat(self: Claim) -> None:
        beats.append(len(beats))
        if len(beats) == 1:
            raise OSError("the bucket does not answer")

    monkeypatch.setattr(Claim, "beat", beat)
    with renewed(taken):
        eventually(lambda: len(beats) >= 3, 10, "a beat after the one that failed")


def test_a_version_measured_in_the_same_way_goes_before_others(store: Store) -> None:
    finish(store, subject("1"))
    finish(store, subject("2", measured={"evaluators": ["rouge"]}))
    assert measure(store, subject("3", target="anything")) == "1"


def test_a_version_is_found_by_its_name(store: Store) -> None:
    finish(store, subject("1"))
    found = of_version(store, subject("3"), "1")
    assert found is not None
    assert found["run"] == "run-1"
    assert of_version(store, subject("3"), "0") is None


def test_names_of_tags_and_files_are_made_of_what_is_allowed_in_them() -> None:
    assert tag_of(subject(model="harbour-rag", suite="berths")) == "harbour-rag.berths.accepted"
    assert re.fullmatch(
        r"org-harbour-rag\.Tides-berths\.[0-9a-f]{6}\.accepted",
        tag_of(subject(model="org/harbour rag", suite="Tides & berths")),
    )
    assert tag_of(subject(model="org/x")) != tag_of(subject(model="org-x"))
    assert re.fullmatch(r"x\.x\.[0-9a-f]{6}\.accepted", tag_of(subject(model="潮", suite="")))
    assert file_name("../../etc/passwd") == "etc-passwd.jsonl"
    assert file_name("") == "answers.jsonl"


@pytest.fixture(params=["s3", "gs", "az"])
def bucket(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a store in an empty bucket of each provider."""
    if request.param == "s3":
        yield request.getfixturevalue("s3").url
        return
    with serving_objects(request.param) as server:
        use(monkeypatch, server.environment)
        yield server.url


@pytest.mark.slow
def test_in_a_bucket_too_one_of_two_hosts_gets_the_claim_and_both_see_the_outcome(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = []
    for name in ("here", "there"):
        monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / name))
        stores.append(Store.open(bucket))
    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(lambda store: claim(store, subject(), owner=OWNER), stores))
    (taken,) = [each for each in found if isinstance(each, Claim)]
    (left,) = [each for each in found if not isinstance(each, Claim)]
    assert left["state"] == "running"
    taken.finish("done", {"decision": "pass", "run": "run-2"})
    for store in stores:
        known = claim(store, subject(), owner=OWNER)
        assert isinstance(known, dict)
        assert known["decision"] == "pass"
        before = previous(store, subject("3"))
        assert before is not None
        assert before["run"] == "run-2"
