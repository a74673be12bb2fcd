"""The history of a store: what was measured in each run, gathered once from its database and kept for all that read it.

Layout, below the store's root (in a bucket's working copy; nothing of it is shared)::

    history/<format>/index.json        the files that count, and the runs that were read
    history/<format>/<name>.parquet    points of some runs

A run writes its own points when it is published (:func:`keep_points`), which takes its readers a tenth of the time that
its database does; the points of runs that earlier versions published are found there.

It can be deleted at any time. A file appears complete or not at all and is never changed; the index, which is replaced
last, says which ones count, so that what a killed process left behind counts nowhere. Few large files take the place of
many small ones, which stay for readers that have just read an older index.
"""

from __future__ import annotations

import logging
import secrets
import shutil
import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import duckdb
import orjson

from leadline.evaluators.ground import LeadlineError
from leadline.tasks.db import connect, literal, records, sql
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
    """

    files: tuple[str, ...] = ()
    runs: frozenset[str] = frozenset()
    former: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunHistory:
    """The history of a store's runs.

    Attributes:
        index: The runs in short, which have what their records say.
    """

    store: Store
    index: RunIndex
    folder: Path = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", self.store.root / FOLDER / str(HISTORY_FORMAT))

    def kept(self) -> Kept:
        """Return what is kept now; nothing where the index is missing or damaged."""
        try:
            found = orjson.loads((self.folder / _INDEX).read_bytes())
            kept = Kept(tuple(found["files"]), frozenset(found["runs"]), tuple(found["former"]))
        except (OSError, ValueError, TypeError, KeyError):
            return Kept()
        return kept if all((self.folder / name).exists() for name in kept.files) else Kept()

    def gather(self, seconds: float) -> int:
        """Read runs that have ended and were not read before, and return how many are left.

        Args:
            seconds: Time after which no more are begun; the others are read at the next call.
        """
        if not self._waiting(self.kept()):
            return 0
        until = time.monotonic() + seconds
        with locked_if_possible(self._made() / ".lock"):
            waiting = self._waiting(self.kept())  # another process may have read them meanwhile
            while waiting and time.monotonic() < until:
                self._read(waiting[:TOGETHER], until)
                waiting = self._waiting(self.kept())
        return len(waiting)

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
            self._keep(connection, read)

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

    def _keep(self, connection: DuckDBPyConnection, read: Set[str]) -> None:
        """Write the points that were gathered, and then the index; files that count no more go one index later."""
        before = self.kept()
        files = before.files
        if len(files) >= MOST_FILES:
            parts = ", ".join(literal(self.folder / name) for name in files)
            connection.execute(f"INSERT INTO points FROM read_parquet([{parts}])")
            files = ()
        name = f"{secrets.token_hex(8)}.parquet"
        _write(connection, self.folder / name)
        kept = [*files, name]
        former = [file for file in before.files if file not in kept]
        write_json(self.folder / _INDEX, {"files": kept, "former": former, "runs": sorted({*before.runs, *read})})
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
    asked = {"run": run.id, "models": [str(model) for model in record.get("models") or ()]}
    connection.execute(sql("history/gather"), asked)
    connection.execute(sql("history/gather_shares"), asked)
    rows = store.dataset(str(record.get("dataset"))) / "rows.parquet"
    ((others,),) = connection.execute(sql("history/others_asked")).fetchall()
    if others and rows.exists():
        connection.execute(sql("history/gather_failing"), asked | {"rows": str(rows)})


def _write(connection: DuckDBPyConnection, path: Path) -> None:
    with replacing(path) as draft:
        connection.execute(
            f"COPY (FROM points ORDER BY slice IS NOT NULL, measure, evaluator, metric, slice) TO {literal(draft)} "
            "(FORMAT parquet, COMPRESSION zstd)"
        )
