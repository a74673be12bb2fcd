"""The runs of a store, newest first: their records in short, read again only where they have changed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, Final

import orjson

from leadline.evaluators.ground import percent
from leadline.tasks.runs.run_facts import RunFacts, status_of
from leadline.tasks.store.store import MANIFEST, RESCORED, Run, Store

FRESH_S: Final = 2.0
FRESH_REMOTE_S: Final = 15.0
"""How long a list may be old; that of a bucket takes requests to make."""

LONGEST: Final = 600
"""Characters of a text that a list shows."""

NAMES: Final = 200
"""Models of a run, and datasets of a store, that a list names."""

VERDICTS: Final = {"pass": "Passes", "fail": "Fails", "inconclusive": "Cannot be told"}
"""The gate's verdicts in words."""


@dataclass(frozen=True, slots=True)
class RunLine:
    """A run in short.

    Attributes:
        status: ``running``, ``completed``, ``failed`` …
        started: When, as ISO 8601.
        gate: The gate's verdict, or "".
        reason: Why, or which error ended the run.
        changed: What changed since an earlier run, in a sentence.
        instrument: Number of problems of the instrument or the data.
        coverage: Share of scores that were measured, if there are any.
        flow_run: Id of the Prefect flow run that made it, or "".
        cases: Digest of the dataset's cases, whatever the answers; the dataset's own where that is unknown.
        team: The team that its judge calls were charged to, or "".
        questions: Outcomes of the questions of the verdict.
        work: Numbers of scores ``reused``, ``computed``, ``scored`` and ``unscored``, where they are known.
        judged: The judge calls as its record has them, empty without any.
        rescored: Id of the earlier run whose answers it scored again, or "".
    """

    id: str
    name: str
    status: str
    started: str
    seconds: float | None
    dataset: str
    rows: int | None
    models: tuple[str, ...]
    gate: str
    reason: str
    changed: str
    problems: Mapping[str, int]
    instrument: int
    coverage: float | None
    tags: tuple[str, ...]
    flow_run: str
    dataset_digest: str
    version: str
    team: str
    questions: Mapping[str, str]
    work: Mapping[str, int | None]
    judged: Mapping[str, Any]
    rescored: str = ""
    cases: str = ""

    @property
    def place(self) -> tuple[str, str]:
        """The place in the order of runs; one that scored another's answers again stands beside that one."""
        return self.rescored or self.id, self.id

    @property
    def verdict(self) -> str:
        """The verdict in words, or the status of a run that has none."""
        return VERDICTS.get(self.gate, self.status.capitalize())

    @property
    def kind(self) -> str:
        """The verdict, or the status of a run that has none: a reader may filter by it."""
        return self.gate or self.status

    @property
    def day(self) -> str:
        """When it was started, short and in UTC."""
        try:
            return f"{datetime.fromisoformat(self.started).astimezone(UTC):%Y-%m-%d %H:%M}"
        except ValueError:
            return ""

    @property
    def covered(self) -> str:
        """The share of scores that were measured, in words."""
        return "" if self.coverage is None else percent(self.coverage)

    @property
    def has_report(self) -> bool:
        """True if it came as far as a report."""
        return self.status == "completed"

    @property
    def searched(self) -> str:
        """The text in which words are looked for."""
        return " ".join((self.id, self.name, self.dataset, self.verdict, *self.models, *self.tags)).casefold()


@dataclass(frozen=True, slots=True)
class Wish:
    """Runs that a reader wants to see.

    Attributes:
        words: Words that all stand in a run's name, id, dataset, models or tags.
        kind: A verdict or a status, or "" for all.
        dataset: A dataset's name, or "" for all.
    """

    words: tuple[str, ...] = ()
    kind: str = ""
    dataset: str = ""

    def fits(self, line: RunLine) -> bool:
        """Return whether a run is among them."""
        if (self.kind and line.kind != self.kind) or (self.dataset and line.dataset != self.dataset):
            return False
        return all(word in line.searched for word in self.words)


@dataclass
class RunIndex:
    """The list of a store's runs, for many readers at once.

    In a bucket a run that has ended is not fetched again for the list, but for its own page (:meth:`line`).
    """

    store: Store
    _lines: dict[str, tuple[tuple[int, int], RunLine]] = field(default_factory=dict)
    _order: list[RunLine] = field(default_factory=list)
    _made: float | None = None
    _lock: Lock = field(default_factory=Lock)

    def lines(self) -> list[RunLine]:
        """Return all runs, newest first; one that scored another's answers again stands before that one."""
        with self._lock:
            fresh = FRESH_REMOTE_S if self.store.remote else FRESH_S
            if self._made is None or time.monotonic() - self._made > fresh:
                names = self._names()
                found = [line for name in names if (line := self._read(name))]
                self._lines = {name: self._lines[name] for name in names if name in self._lines}
                self._order = sorted(found, key=lambda line: line.place, reverse=True)
                self._made = time.monotonic()
            return self._order

    def line(self, name: str) -> RunLine | None:
        """Return one run as it is now, or ``None`` where there is none of that id.

        Raises:
            UsageError: It cannot be an id.
        """
        self.store.fetch_record(self.store.run(name))
        with self._lock:
            return self._read(name)

    def _names(self) -> list[str]:
        folder = self.store.root / "runs"
        here = {path.parent.name for path in folder.glob("*/run.json")}
        if not self.store.remote:
            return sorted(here)
        own = {name for name in here if self.store.run(name).own}
        there = set(self.store.remote.folders(folder)) - own
        ended = {name for name, (_, line) in self._lines.items() if line.status != "running"}
        self.store.remote.fetch(folder / name / "run.json" for name in there - (here & ended))
        return sorted(own | there)

    def _read(self, name: str) -> RunLine | None:
        path = self.store.root / "runs" / name / "run.json"
        try:
            found = path.stat()
            mark = (found.st_mtime_ns, found.st_size)
            known = self._lines.get(name)
            if known and known[0] == mark and known[1].status != "running":
                return known[1]
            line = line_of(self.store.run(name), orjson.loads(path.read_bytes()))
        except (OSError, ValueError, TypeError, KeyError, AttributeError):  # deleted meanwhile, or not by Leadline
            return None
        self._lines[name] = (mark, line)
        return line


def line_of(run: Run, record: Mapping[str, Any]) -> RunLine:
    """Return a run in short."""
    facts = RunFacts(run.id, record)
    gate, dataset = str(record.get("gate") or ""), str(record.get("dataset") or "")
    return RunLine(
        id=run.id,
        name=_short(facts.title),
        status=status_of(run, record),
        started=str(record.get("started") or ""),
        seconds=facts.time.total if facts.time else None,
        dataset=_short(record.get("dataset_name") or ""),
        rows=record.get("rows"),
        models=tuple(_short(model) for model in (record.get("models") or ())[:NAMES]),
        gate=gate if gate in VERDICTS else "",
        reason=_short(record.get("error") or record.get("gate_reason") or ""),
        changed=_short(record.get("changed") or ""),
        problems={key: int(value) for key, value in (facts.problems_by_fault.get("model") or {}).items()},
        instrument=sum((facts.problems_by_fault.get("instrument") or {}).values()),
        coverage=facts.coverage,
        tags=tuple(_short(tag) for tag in sorted(record.get("tags") or ())),
        flow_run=_short(record.get("flow_run") or ""),
        dataset_digest=dataset,
        version=_short((record.get("versions") or {}).get("leadline") or ""),
        team=_short(((record.get("config") or {}).get("judges") or {}).get("team") or ""),
        questions={str(line["question"]): str(line["outcome"]) for line in record.get("questions") or ()},
        work={"reused": facts.reused, "computed": facts.computed, "scored": facts.scored, "unscored": facts.unscored},
        judged=record.get("judge_calls") or {},
        rescored=str(record.get(RESCORED) or ""),
        cases=str(record.get("cases_digest") or (dataset and _cases_digest(run.path.parents[1] / "datasets" / dataset)))
        or dataset,
    )


@lru_cache(maxsize=5_000)
def _cases_digest(folder: Path) -> str:
    """Return the digest of the file of a dataset's cases, as runs of earlier versions lack it; ``""`` if unknown."""
    try:
        return str(orjson.loads((folder / MANIFEST).read_bytes())["sha256"]["cases.parquet"])
    except (OSError, ValueError, KeyError):
        return ""


def datasets_of(lines: Iterable[RunLine]) -> list[str]:
    """Return the names of the datasets of runs, in order."""
    return sorted({line.dataset for line in lines if line.dataset}, key=str.casefold)[:NAMES]


def _short(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
