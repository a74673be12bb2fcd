"""The history of a store: what was measured in each run, gathered once from its database and kept for all that read it.

Layout, below the store's root (in a bucket's working copy; nothing of it is shared)::

    history/<format>/index.json        the files that count, and the runs that were read
    history/<format>/<name>.parquet    points of some runs

A run writes its own points when it is published (:func:`keep_points`), which takes its readers a tenth of the time that
its database does; the points of runs that earlier versions published are found there.

It can be deleted at any time. A file appears complete or not at all and is never changed; the index, which is replaced
last, says which ones count, so that what a killed process left behind counts nowhere. Few large files take the place of
many small ones, which stay for readers that have just read an older index.

The means that labels correct are kept with the digest of the store's labels. Where people gave others since, they are
computed again, from the run's database as it is: what a run was published with stays in its own results.
"""

from __future__ import annotations

import logging
import secrets
import shutil
import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import duckdb
import orjson

from leadline.evaluators.ground import LeadlineError, UsageError
from leadline.tasks.db import connect, literal, open_run, records, sql
from leadline.tasks.ground.files import locked_if_possible, replacing, write_json
from leadline.tasks.runs.run_index import RunIndex, RunLine
from leadline.tasks.store.store import HISTORY_FORMAT, Run, Store

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FOLDER: Final = "history"
TOGETHER: Final = 250
"""Runs that are read before they are kept."""

MOST_FILES: Final = 12
"""Files from which on they are made one."""

_INDEX: Final = "index.json"

log = logging.getLogger("leadline.runs")


@dataclass(frozen=True, slots=True)
class Kept:
    """The content of an index.

    Attributes:
        runs: Runs that were read, whether or not they had anything.
        former: Files that counted before; somebody may be reading them.
        labels: Digest of the labels that means were corrected by, "" without any.
        corrected: Runs whose means are corrected by them.
    """

    files: tuple[str, ...] = ()
    runs: frozenset[str] = frozenset()
    former: tuple[str, ...] = ()
    labels: str = ""
    corrected: frozenset[str] = frozenset()

    def uncorrected(self, labels: str) -> frozenset[str]:
        """Return the runs whose means may say something else by other labels."""
        if labels == self.labels:
            return self.runs - self.corrected if labels else frozenset()
        return self.runs


class Corrections(Protocol):
    """The labels of a store as they are now, which stand above the history."""

    def digest(self) -> str:
        """Return the digest of all that they say, "" without any."""

    def questions(self) -> list[str]:
        """Return the metrics that people were asked about, as ``EVALUATOR.METRIC``."""

    def correct(self, connection: DuckDBPyConnection, run: Run) -> None:
        """Fill the tables of a run's corrections, which hide its own ones."""


@dataclass(frozen=True)
class RunHistory:
    """The history of a store's runs.

    Attributes:
        index: The runs in short, which have what their records say.
        corrections: What corrects means; they stay as they are without it.
    """

    store: Store
    index: RunIndex
    corrections: Corrections | None = None
    folder: Path = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", self.store.root / FOLDER / str(HISTORY_FORMAT))

    def kept(self) -> Kept:
        """Return what is kept now; nothing where the index is missing or damaged."""
        try:
            found = orjson.loads((self.folder / _INDEX).read_bytes())
            kept = Kept(
                tuple(found["files"]), frozenset(found["runs"]), tuple(found["former"]), str(found.get("labels", "")),
                frozenset(found.get("corrected", ())),
            )  # fmt: skip
        except (OSError, ValueError, TypeError, KeyError):
            return Kept()
        return kept if all((self.folder / name).exists() for name in kept.files) else Kept()

    def gather(self, seconds: float) -> int:
        """Read runs that have ended and were not read before, correct means by labels given since, and count the rest.

        Args:
            seconds: Time after which no more are begun; the others are read at the next call.

        Returns:
            Number of runs that are left.
        """
        kept = self.kept()
        labels = self.corrections.digest() if self.corrections else kept.labels
        if not self._waiting(kept) and not (self.corrections and kept.uncorrected(labels)):
            return 0
        until = time.monotonic() + seconds
        with locked_if_possible(self._made() / ".lock"):
            waiting = self._waiting(self.kept())  # another process may have read them meanwhile
            while waiting and time.monotonic() < until:
                self._read(waiting[:TOGETHER], until)
                waiting = self._waiting(self.kept())
            return len(waiting) + (self._correct(self.corrections, labels, until) if self.corrections else 0)

    def lines(self, statement: str, runs: Sequence[RunLine], **asked: object) -> list[dict[str, Any]]:
        """Return what a statement of ``history.sql`` finds among the points of some runs."""
        files = [str(self.folder / name) for name in self.kept().files]
        if not files or not runs:
            return []
        with connect() as connection:
            return records(
                connection, sql(f"history/{statement}"), {"files": files, "runs": [line.id for line in runs], **asked}
            )

    def _made(self) -> Path:
        """Return the folder, without those of other formats."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for other in self.folder.parent.iterdir():
            if other != self.folder:
                shutil.rmtree(other, ignore_errors=True)
        return self.folder

    def _waiting(self, kept: Kept) -> list[RunLine]:
        return [line for line in self.index.lines() if line.has_report and line.id not in kept.runs]

    def _read(self, lines: Sequence[RunLine], until: float) -> None:
        """Read runs into a file of their own, as many as there is time for and one at least."""
        with connect(threads=1) as connection:
            connection.execute(sql("history/points"))
            read = self._gather_published(connection, lines)
            for line in lines:
                if read and time.monotonic() > until:
                    break
                if line.id not in read:
                    self._gather_run(connection, line)
                    read.add(line.id)
            before = self.kept()
            self._keep(connection, replace(before, runs=before.runs | read))

    def _correct(self, corrections: Corrections, labels: str, until: float) -> int:
        """Correct means by the labels of today, whose digest is given, and return how many runs are left."""
        before = self.kept()
        wanted = before.uncorrected(labels)
        if not wanted:
            return 0
        lines = [line for line in self.index.lines() if line.id in wanted]
        labelled = {line["run"] for line in self.lines("labelled", lines, questions=corrections.questions())}
        left = [line for line in lines if line.id in labelled][::-1]  # the newest is the last
        again: set[str] = set()
        locked: set[str] = set()
        with connect(threads=1) as connection:
            connection.execute(sql("history/points"))
            while left and (time.monotonic() < until or not again | locked):
                line = left.pop()
                try:
                    self._correct_run(connection, corrections, self.store.run(line.id))
                    again.add(line.id)
                except UsageError as error:  # its results are gone: what was known of it stays
                    log.info("Run %s is not corrected again: %s", line.id, error)
                except (LeadlineError, duckdb.Error) as error:
                    log.info("Run %s is corrected another time: %s", line.id, error)
                    locked.add(line.id)
            corrected = before.runs.difference(locked, (line.id for line in left))
            self._keep(connection, replace(before, labels=labels, corrected=corrected), again)
        return len(left)

    def _correct_run(self, connection: DuckDBPyConnection, corrections: Corrections, run: Run) -> None:
        """Add the corrected means of a run."""
        with open_run(self.store, run, read_only=True) as own:
            own.execute(sql("history/correct_beside"))
            corrections.correct(own, run)
            own.execute(sql("history/points"))
            own.execute(sql("history/gather"), _asked(run, run.read()))
            for point in own.execute(sql("history/corrected")).fetchall():
                connection.execute(f"INSERT INTO points VALUES ({', '.join('?' * len(point))})", point)

    def _gather_published(self, connection: DuckDBPyConnection, lines: Sequence[RunLine]) -> set[str]:
        """Add the points of those runs that wrote them, and return their ids; none where a file is damaged."""
        files = {line.id: self.store.run(line.id).points for line in lines}
        self.store.fetch(files.values())
        there = {name: str(path) for name, path in files.items() if path.exists()}
        try:
            if there:
                connection.execute(sql("history/gather_published"), {"published": list(there.values())})
        except duckdb.Error as error:
            log.info("Runs are read from their databases: %s", error)
            return set()
        return set(there)

    def _gather_run(self, connection: DuckDBPyConnection, line: RunLine) -> None:
        """Add the points of a run; one that another version made, or whose results are gone, has none."""
        run = self.store.run(line.id)
        try:
            record = run.read_current()
            self.store.fetch_database(run)
            connection.execute(f"ATTACH {literal(run.database)} AS gathered (READ_ONLY)")
        except (duckdb.Error, LeadlineError, OSError) as error:
            log.info("Run %s is not in the history: %s", line.id, error)
            return
        try:
            connection.execute("USE gathered; BEGIN")
            _measure(connection, self.store, run, record)
            connection.execute("COMMIT")
        except duckdb.Error as error:
            log.info("Run %s is not in the history: %s", line.id, error)
            connection.execute("ROLLBACK")
        finally:
            connection.execute("USE memory; DETACH gathered")

    def _keep(self, connection: DuckDBPyConnection, now: Kept, again: Set[str] = frozenset()) -> None:
        """Write the points that were gathered, and then the index; files that count no more go one index later.

        Args:
            now: The index but for the files.
            again: Runs whose corrected means are replaced.
        """
        before = self.kept()
        files = before.files
        if again or len(files) >= MOST_FILES:
            paths = [str(self.folder / name) for name in files]
            connection.execute(sql("history/take_over"), {"files": paths, "again": [*again]})
            files = ()
        name = f"{secrets.token_hex(8)}.parquet"
        _write(connection, self.folder / name)
        kept = [*files, name]
        former = [file for file in before.files if file not in kept]
        index = {"files": kept, "former": former, "runs": sorted(now.runs)}
        write_json(self.folder / _INDEX, index | {"labels": now.labels, "corrected": sorted(now.corrected)})
        for path in self.folder.glob("*.parquet"):
            if path.name not in {*kept, *former, *(before.files if former else before.former)}:
                path.unlink(missing_ok=True)


def keep_points(connection: DuckDBPyConnection, store: Store, run: Run) -> None:
    """Write what was measured in a run beside its results, where the history of the store finds it.

    Args:
        connection: The run's database, with all tables filled.
    """
    connection.execute(sql("history/points"))
    _measure(connection, store, run, run.read())
    _write(connection, run.points)


def _measure(connection: DuckDBPyConnection, store: Store, run: Run, record: Mapping[str, Any]) -> None:
    """Add the points of a run, whose database is in use."""
    asked = _asked(run, record)
    connection.execute(sql("history/gather"), asked)
    connection.execute(sql("history/gather_shares"), asked)
    rows = store.dataset(str(record.get("dataset"))) / "rows.parquet"
    ((others,),) = connection.execute(sql("history/others_asked")).fetchall()
    if others and rows.exists():
        connection.execute(sql("history/gather_failing"), asked | {"rows": str(rows)})


def _asked(run: Run, record: Mapping[str, Any]) -> dict[str, Any]:
    return {"run": run.id, "models": [str(model) for model in record.get("models") or ()]}


def _write(connection: DuckDBPyConnection, path: Path) -> None:
    with replacing(path) as draft:
        connection.execute(
            f"COPY (FROM points ORDER BY slice IS NOT NULL, measure, evaluator, metric, slice) TO {literal(draft)} "
            "(FORMAT parquet, COMPRESSION zstd)"
        )
