"""Evaluating each version of a model once, and the record of its run.

``<store>/versions/<digest>/record.json`` is about one (model, version, suite, configuration). Whoever evaluates it
claims it there first. A claim whose owner is alive is left to it; one whose owner died is taken over; what is finished
is answered from the record.

No two can claim at once: on a file system a lock prevents it, in a bucket the condition that nobody else wrote the
record since it was read.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from leadline.evaluators.data import Json
from leadline.evaluators.ground import masked_value
from leadline.tasks.ground.files import digest, locked, write_json
from leadline.tasks.ground.processes import is_gone, same_host, this_process
from leadline.tasks.store.store import Store

State: TypeAlias = Literal["running", "done", "incomplete", "failed"]

log = logging.getLogger("leadline.versions")

BEAT_S: Final = 30.0
"""Interval at which the owner of a claim renews it, in seconds."""

SILENT_S: Final = 600.0
"""Seconds after which a claim of another host that was not renewed is taken over."""

VERSION_PATTERN: Final = r"^[0-9A-Za-z][0-9A-Za-z._:+@-]*$"
"""Spelling of a version, which is put into addresses and model names."""

RECORD: Final = "record.json"
_NO_TAG: Final = re.compile(r"[^0-9A-Za-z_-]+")


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of an evaluation that is done once.

    Attributes:
        suite_digest: Digest of its cases.
        configuration: Everything else that the outcome depends on; under ``measured`` what the scores depend on.
    """

    model: str
    version: str
    suite: str
    suite_digest: str
    configuration: Mapping[str, Json] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """Digest of all its parts."""
        return digest([self.model, self.version, self.suite_digest, dict(self.configuration)])

    def folder(self, store: Store) -> Path:
        """Return the folder of its record and its answers."""
        return store.root / "versions" / self.digest


class Claim:
    """The right to evaluate a subject, and the duty to record the outcome.

    Attributes:
        taken_over: Whether an earlier owner died over it.
    """

    def __init__(self, store: Store, subject: Subject, token: str, *, taken_over: bool) -> None:
        self.taken_over = taken_over
        self._token = token
        self._store = store
        self._path = subject.folder(store) / RECORD
        self._over = False

    def finish(self, state: State, outcome: Mapping[str, Any]) -> None:
        """Record the outcome."""
        self._over = True
        self._update({"state": state, "finished": _now(), **outcome})

    def beat(self) -> None:
        """Renew the claim."""
        if not self._over:
            self._update({"beat": time.time()})

    def _update(self, changes: Mapping[str, Any]) -> None:
        """Change the record, unless another process took it over."""
        with locked(self._path.with_name("lock")):
            record, version = _read(self._store, self._path)
            if record and record.get("token") == self._token:
                _write(self._store, self._path, masked_value(record | dict(changes)), version)


def claim(store: Store, subject: Subject, *, owner: Mapping[str, Any], again: bool = False) -> Claim | dict[str, Any]:
    """Claim something, or return the record of what became of it.

    The record's ``state`` is ``done``, or ``running`` when another process is at it.
    """
    path = subject.folder(store) / RECORD
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path.with_name("lock")):
        before, version = _read(store, path)
        state = before["state"] if before else None
        taken_over = state == "running"
        if before and (not _is_dead(before) if taken_over else state == "done" and not again):
            return before
        record = {
            "digest": subject.digest,
            "model": subject.model,
            "version": subject.version,
            "suite": subject.suite,
            "suite_digest": subject.suite_digest,
            "configuration": dict(subject.configuration),
            "state": "running",
            "token": (token := secrets.token_hex(8)),
            "process": this_process(),
            "claimed": _now(),
            "beat": time.time(),
            "owner": dict(owner),
            "taken_over": taken_over,
        }
        if not _write(store, path, record, version):
            now, _ = _read(store, path)
            if now and now["token"] != token:
                return now
    return Claim(store, subject, token, taken_over=taken_over)


@contextmanager
def renewed(claimed: Claim) -> Iterator[Claim]:
    """Renew a claim while the block runs; an error of the block is recorded as its failure."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(BEAT_S):
            try:
                claimed.beat()
            except Exception as error:  # the store may be back for the next beat
                log.warning("The claim could not be renewed: %s", error)

    threading.Thread(target=beat, name="leadline-claim", daemon=True).start()
    try:
        yield claimed
    except BaseException as error:
        claimed.finish("failed", {"error": f"{type(error).__name__}: {error}"[:2000]})
        raise
    finally:
        over.set()


def records(store: Store) -> list[dict[str, Any]]:
    """Return what is on record of all versions, the one finished last coming last."""
    folder = store.root / "versions"
    names = {path.parent.name for path in folder.glob(f"*/{RECORD}")}
    if store.remote:
        names |= set(store.remote.folders(folder))
    found = [record for name in names if (record := _read(store, folder / name / RECORD)[0])]
    return sorted(found, key=lambda record: (str(record.get("finished", "")), record["digest"]))


def state_of(record: Mapping[str, Any]) -> str:
    """Return the state on record, or ``lost`` where its owner is gone: the next who is asked takes it over."""
    return "lost" if record["state"] == "running" and _is_dead(record) else str(record["state"])


def previous(store: Store, subject: Subject) -> dict[str, Any] | None:
    """Return the record of the version to compare a new one with: the last other one that passed.

    It must have been evaluated on a suite of the same name; one that was measured in the same way is taken before
    others. A version that failed is no measure, or one bad version would excuse the next, and neither is an undecided
    one. Only where none has passed the last that did not fail is taken, and the last of all where all have failed.
    """
    others = [
        record
        for record in records(store)
        if record["state"] == "done"
        and (record["model"], record["suite"]) == (subject.model, subject.suite)
        and record["version"] != subject.version
        and record.get("run")
    ]
    alike = [record for record in others if _measured(record["configuration"]) == _measured(subject.configuration)]
    found = alike or others
    passed = [record for record in found if record.get("decision") == "pass"]
    accepted = [record for record in found if record.get("decision") != "fail"]
    return (passed or accepted or found)[-1] if found else None


def runs_in_use(store: Store) -> set[str]:
    """Return the runs that the next version of some model would be compared with, or that a check is at just now."""
    known = records(store)
    used = {str(record["run"]) for record in known if record.get("run") and record["state"] == "running"}
    measured = {(record["model"], record["suite"], _measured(record["configuration"])): record for record in known}
    for record in measured.values():
        following = Subject(record["model"], "", record["suite"], "", record["configuration"])
        before = previous(store, following)
        if before is not None:
            used.add(str(before["run"]))
    return used


def of_version(store: Store, subject: Subject, version: str) -> dict[str, Any] | None:
    """Return the youngest record of a version of the same model on a suite of the same name."""
    found = [
        record
        for record in records(store)
        if record["state"] == "done"
        and (record["model"], record["suite"], record["version"]) == (subject.model, subject.suite, version)
    ]
    return found[-1] if found else None


def versions_in(dataset: Path) -> dict[str, str | None]:
    """Return the versions that a loaded dataset states of its models, by their keys."""
    from pyarrow import parquet

    lines = parquet.read_table(dataset / "models.parquet", columns=["model_key", "version"]).to_pylist()
    return {line["model_key"]: line["version"] for line in lines}


def tag_of(subject: Subject) -> str:
    """Return the tag of the run of a model's last version that passed: ``<model>.<suite>.accepted``.

    Where a name cannot stand in a tag as it is, six digits tell it from others that would look the same.
    """
    names = (subject.model, subject.suite)
    parts = [(_NO_TAG.sub("-", name).strip("-_") or "x")[:40] for name in names]
    apart = [] if parts == list(names) else [digest(list(names))[:6]]
    return ".".join([*parts, *apart, "accepted"])


def file_name(suite: str) -> str:
    """Return the name of the file with the answers to a suite; a run's dataset is called after it."""
    return f"{_NO_TAG.sub('-', suite).strip('-')[:80] or 'answers'}.jsonl"


def _measured(configuration: Mapping[str, Any]) -> str:
    return digest(configuration.get("measured"))


def _is_dead(record: Mapping[str, Any]) -> bool:
    if same_host(record["process"]):
        return is_gone(record["process"], record["beat"])
    return time.time() - float(record["beat"]) > SILENT_S


def _read(store: Store, path: Path) -> tuple[dict[str, Any] | None, str | None]:
    """Return a record, and in a bucket which version of it that is."""
    version = store.remote.fetch_version(path) if store.remote else None
    try:
        return dict(json.loads(path.read_text(encoding="utf-8"))), version
    except FileNotFoundError:
        return None, version


def _write(store: Store, path: Path, record: Mapping[str, Any], version: str | None) -> bool:
    """Write a record; returns ``False`` if another host wrote it since that version was read."""
    write_json(path, record)
    return store.remote.push_if(path, version) if store.remote else True


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
