"""The store: where datasets, scores and runs live, and how files get into it.

Layout, below the store's root::

    datasets/<digest>/                  a loaded dataset as Parquet, shared by all runs of it
    scores/<evaluator>/<config>/        immutable segments of scores, shared by all runs
    vectors/<model>/                    immutable segments of embeddings
    runs/<run>/run.json                 what was asked for and how it ended
    runs/<run>/run.duckdb               the run's tables, written by one process
    runs/<run>/plan/, unscored/         what to compute, and what could not be
    runs/<run>/outcomes/                what workers have to say of chunks, until the run's maker takes note of it
    runs/<run>/results/                 the report and its files
    runs/<run>/points-<format>.parquet  what was measured, for the history
    alive/<run>.json                    the last sign of life of a run that is being made
    comparisons/<id>/                   what comparing two runs found
    labels/<set>/                       what people said of answers
    audit/                              what people did in the browser, as JSON Lines
    judges/<key>/                       probes of an enrolled judge, its checks and its epochs
    versions/<digest>/                  which run belongs to a version of a model, and its answers
    ledger.sqlite                       every judge call, unless another ledger is named
    server-limits/                      how many calls at once judges' servers took in the last day
    history/                            what was measured in each run, gathered for trends; may be deleted
    staging/, tmp/                      scratch files of loads, collections, queries and comparisons in work

A file appears under its final name complete or not at all: it is written beside it, brought to disk, and renamed.

A store may also lie in a bucket (``s3://``, ``gs://``, ``az://``). Its root is then this host's working copy, and what
a step finished or needs is pushed and fetched by the methods below, which do nothing for a store in a folder. See
:mod:`.remote`.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from leadline.evaluators.ground import ErrorCode, StoreError, UsageError, from_home, masked_value, project_scope
from leadline.tasks.ground.files import locked_if_possible, replacing, write_json
from leadline.tasks.store.parquet_files import file_digest

if TYPE_CHECKING:
    from leadline.tasks.store.remote import Remote

FORMAT: Final = 2
"""Raised with every change of what lies where and how.

1: without ``store.json``; segments and datasets may lack digests. 2: every segment carries its digest, every manifest
those of its files. An earlier format is used as it is, and ``leadline store migrate`` updates it; a later one is
refused.
"""
STORE_FILE: Final = "store.json"
WITHOUT_FILE: Final = 1
"""The format of a store that does not say it."""

_known: Final[set[Path]] = set()
"""Working copies whose bucket was asked by this process."""


def settle_format(root: Path, remote: Remote | None) -> None:
    """Give a new store its format, and refuse one of a later format.

    Raises:
        StoreError: A later version of Leadline made it.
    """
    path = root / STORE_FILE
    if remote and root not in _known:
        remote.fetch([path])
        _known.add(root)
        is_new = not path.exists() and not remote.bucket.folders("")
    else:
        is_new = remote is None and not any(os.scandir(root))
    if is_new:
        with suppress(OSError, StoreError):  # it cannot be written; whoever writes more will say so
            write_format(root, remote)
    refuse_later(format_of(root), str(root))


def write_format(root: Path, remote: Remote | None) -> None:
    """Write that a store has today's format."""
    write_json(root / STORE_FILE, {"format": FORMAT, "since": datetime.now(UTC).isoformat(timespec="seconds")})
    if remote:
        remote.push([root / STORE_FILE])


def format_of(root: Path) -> int:
    """Return the format of a store by its folder.

    Raises:
        StoreError: The file that says it cannot be read.
    """
    path = root / STORE_FILE
    try:
        return int(json.loads(path.read_text(encoding="utf-8"))["format"])
    except FileNotFoundError:
        return WITHOUT_FILE
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise StoreError(
            f"{path} does not say the format of the store.",
            hint=f'Restore it, or write {{"format": {WITHOUT_FILE}}} there and run: leadline store migrate',
            code=ErrorCode.STORE_FORMAT,
        ) from error


def refuse_later(number: int, where: str) -> None:
    """Refuse a format that this version does not know.

    Raises:
        StoreError: It is a later one.
    """
    if number > FORMAT:
        raise StoreError(
            f"The store {where} has format {number}; this version of Leadline knows {FORMAT} and earlier ones.",
            hint="Update Leadline.",
            code=ErrorCode.STORE_FORMAT,
        )


log = logging.getLogger("leadline.store")

STORE_VARIABLE: Final = "LEADLINE_STORE"
DEFAULT_STORE: Final = ".leadline"
_USUAL_NAMES: Final = (DEFAULT_STORE, "leadline", "store", "data")
"""Names of folders that tell no store from another."""

MANIFEST: Final = "manifest.json"
"""File of a dataset that is written last."""

JOBS: Final = "jobs.json"
"""File of a plan that is written last."""

DIGESTS: Final = "results.sha256"
"""File of a run with the digests of its results, as ``sha256sum --check`` reads them."""

HISTORY_FORMAT: Final = 1
"""Raised with every change of what is kept of runs for trends; what an earlier version kept is read anew from them."""

OWN: Final = ".own"
"""Marks the folder of a run, in the working copy where it is being made."""

SCHEMA: Final = 3
"""Version of a run's record and database; raised with every change after which older runs cannot be read."""

ENDED: Final = ("completed", "failed", "lost")
"""The status of a run that has ended."""

DROPPED: Final = "dropped"
"""Field of a run's record: when retention dropped its results; and the status of such a run."""

JUDGES: Final = "judge_standings"
"""Field of a run's record: how its enrolled judges stood."""

RESCORED: Final = "rescored"
"""Field of a run's record: id of the earlier run whose answers it scored again. It counts as no later one."""

TAGS: Final = "tags"
"""Field of a run's record: the names that people gave it."""

_CHANGES: Final = 20
"""Attempts to change a record in a bucket while other hosts change it."""

_RUN_ID: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,99}")


@dataclass(frozen=True, slots=True)
class Run:
    """The folder of one run.

    Attributes:
        remote: The bucket behind it, if the store has one.
    """

    id: str
    path: Path
    remote: Remote | None = None

    @property
    def database(self) -> Path:
        """The run's DuckDB file."""
        return self.path / "run.duckdb"

    @property
    def plan(self) -> Path:
        """Folder of the chunks to compute."""
        return self.path / "plan"

    @property
    def unscored(self) -> Path:
        """Folder of what could not be scored in this run."""
        return self.path / "unscored"

    @property
    def outcomes(self) -> Path:
        """Folder of what workers say of the chunks that they have scored."""
        return self.path / "outcomes"

    @property
    def results(self) -> Path:
        """Folder of the report and its files."""
        return self.path / "results"

    @property
    def points(self) -> Path:
        """File of what was measured, which runs of earlier versions lack."""
        return self.path / f"points-{HISTORY_FORMAT}.parquet"

    def read(self) -> dict[str, Any]:
        """Return the run's record.

        Raises:
            UsageError: There is no such run.
            StoreError: The record is damaged.
        """
        if self.remote and not (self.path / "run.json").exists():
            self.remote.fetch([self.path / "run.json"])
        try:
            return dict(orjson.loads((self.path / "run.json").read_bytes()))
        except FileNotFoundError:
            raise UsageError(
                f"There is no run {self.id!r} in the store.",
                hint="List runs: leadline store runs",
                code=ErrorCode.STORE_NO_RUN,
            ) from None
        except (ValueError, TypeError) as error:
            raise StoreError(
                f"The record of run {self.id} is damaged: {self.path / 'run.json'}: {error}.",
                hint="Restore it from a backup, or delete the run's folder and evaluate its dataset again.",
                code=ErrorCode.STORE_FAILED,
            ) from error

    def read_current(self) -> dict[str, Any]:
        """Return the run's record.

        Raises:
            UsageError: There is no such run, or another version of Leadline made it.
        """
        record = self.read()
        if record.get("schema") != SCHEMA:
            raise UsageError(
                f"Run {self.id} was made by another version of Leadline.",
                hint="Evaluate its dataset again; nothing that the store holds is computed twice.",
                code=ErrorCode.STORE_OLD_RUN,
            )
        return record

    def update(self, changes: Mapping[str, Any], *, tell: bool = True) -> dict[str, Any]:
        """Merge changes into the run's record, while no other process changes it, and return it.

        Args:
            tell: Tell the other hosts now; else the run's maker tells them with a later change.

        Raises:
            StoreError: Other hosts change it all the time.
        """
        new = {"id": self.id, "schema": SCHEMA}
        record = self._alter(lambda known: masked_value((known or new) | dict(changes)), tell=tell or not self.own)
        if self.remote and record.get("status") in ENDED:
            (self.path / OWN).unlink(missing_ok=True)
        return record

    def change(self, alter: Callable[[Mapping[str, Any]], Mapping[str, Any] | None]) -> bool:
        """Alter the record of a run that may have ended, while no other process does so, and return whether it was.

        Args:
            alter: Returns the new record, or ``None`` to leave it as it is; may be called again with a newer one.

        Raises:
            StoreError: Other hosts change it all the time.
            UsageError: There is no such run.
        """
        return bool(self._alter(lambda known: alter(known or self.read())))

    def _alter(
        self, alter: Callable[[dict[str, Any]], Mapping[str, Any] | None], *, tell: bool = True
    ) -> dict[str, Any]:
        """Write what is made of the record, which is empty for a new run; return it, or ``{}`` if it is left as it is.

        A record that cannot be compared with the bucket's, which is away, is still written here by the run's maker.
        """
        path = self.path / "run.json"
        remote = self.remote if tell else None
        with locked_if_possible(self.path / ".lock"):
            for _ in range(_CHANGES):
                here = self.read() if path.exists() else {}
                try:
                    version = remote.fetch_version(path) if remote else None
                except StoreError:
                    if self.own:
                        write_json(path, alter(here) or here)
                    raise
                known = self.read() if path.exists() else {}
                if self.own:  # others give and take tags; all else is newer here
                    known |= {field: value for field, value in here.items() if field != TAGS}
                record = alter(known)
                if record is None:
                    return {}
                write_json(path, record)
                if remote is None or remote.push_if(path, version):
                    return dict(record)
        raise StoreError(
            f"The record of run {self.id} is changed by other hosts all the time.",
            hint="Try again.",
            code=ErrorCode.STORE_IN_USE,
        )

    def without_results(self) -> UsageError:
        """Return the error for a run whose results are wanted and not there."""
        dropped = self.read().get(DROPPED)
        if dropped:
            return UsageError(
                f"The results of run {self.id} were dropped by leadline store gc on {str(dropped)[:10]}.",
                hint="Evaluate its dataset again; nothing that the store holds is computed twice.",
                code=ErrorCode.STORE_NO_RESULTS,
            )
        return UsageError(
            f"Run {self.id!r} has no results yet.", hint="Look at: leadline store runs", code=ErrorCode.STORE_NO_RESULTS
        )

    def fail(self, error: BaseException, **also: Any) -> None:
        """Record that an error ended the run; a failure to write the record is only logged."""
        try:
            self.update({"status": "failed", "error": f"{type(error).__name__}: {error}"[:2000], **also})
        except Exception as second:  # the first error is the one to report
            log.warning("Run %s failed, and its record does not say so: %s", self.id, second)

    @property
    def own(self) -> bool:
        """True while it is being made on this host, so that its files here are newer than the bucket's."""
        return (self.path / OWN).exists()

    @property
    def report(self) -> str:
        """Address of the report for other people: a path, or an address in the bucket."""
        page = self.results / "report.html"
        return self.remote.page(page) if self.remote else str(page)


@dataclass(frozen=True, slots=True)
class Store:
    """A store in a folder, or in a bucket with a working copy in a folder."""

    root: Path
    remote: Remote | None = None

    @classmethod
    def open(cls, location: str | os.PathLike[str] | None = None, *, existing: bool = False) -> Store:
        """Open the store at a path or URL, by default ``$LEADLINE_STORE`` or ``./.leadline``.

        Args:
            existing: Refuse a folder that does not exist, which is else made for this user alone.

        Raises:
            UsageError: The URL or path is wrong, or it starts with ``~user`` and there is no such user.
            StoreError: The folder cannot be made, or the bucket cannot be reached.
        """
        where = str(location or os.environ.get(STORE_VARIABLE) or DEFAULT_STORE)
        scope = project_scope()
        if scope is not None and not _is_at(where, scope.store):
            raise scope.refused("This store", f"the store {scope.store}")
        remote = _remote(where) if "://" in where else None
        root = remote.root if remote else from_home(where).absolute()
        if "\0" in where:
            raise UsageError("The path of the store holds a NUL character.", code=ErrorCode.STORE_LOCATION)
        if "?" in str(root):
            raise UsageError(
                f"The store {root} has a ? in its path, at which DuckDB would cut it.",
                hint="Choose another folder with --store or LEADLINE_STORE.",
                code=ErrorCode.STORE_LOCATION,
            )
        if existing and remote is None and not root.is_dir():
            raise UsageError(
                f"There is no store in {root}.",
                hint="Give the folder of one with --store or LEADLINE_STORE.",
                code=ErrorCode.STORE_LOCATION,
            )
        try:
            root.parent.mkdir(parents=True, exist_ok=True)
            root.mkdir(exist_ok=True, mode=0o700)  # prompts, answers and raw replies are for their owner
        except OSError as error:
            raise StoreError(
                f"The store {root} cannot be made: {error.strerror}.",
                hint="Set LEADLINE_CACHE." if remote else "Set LEADLINE_STORE.",
                code=ErrorCode.STORE_FAILED,
            ) from error
        settle_format(root, remote)
        return cls(root, remote)

    @property
    def location(self) -> str:
        """The store's URL or path, which :meth:`open` takes on any host that sees the store."""
        return self.remote.location if self.remote else str(self.root)

    @property
    def name(self) -> str:
        """The store for people who need not know where its folder is: that folder's name, or a bucket's URL.

        A folder that is called as most are (``.leadline``, ``store``) is told by the one that it is in.
        """
        if self.remote:
            return self.remote.location
        parts = [self.root.name] if self.root.name not in _USUAL_NAMES else [self.root.parent.name, self.root.name]
        return "/".join(part for part in parts if part)

    def dataset(self, dataset: str) -> Path:
        """Return the folder of a loaded dataset."""
        return self.root / "datasets" / dataset

    def scores(self, evaluator: str, config: str) -> Path:
        """Return the folder of the score segments of one evaluator in one configuration."""
        return self.root / "scores" / evaluator / config

    def vectors(self, model: str) -> Path:
        """Return the folder of the embeddings of one model."""
        return self.root / "vectors" / model

    def new_run(self) -> Run:
        """Make the folder of a new run; its id sorts by time, to a quarter of a millisecond, and ends by chance."""
        now = datetime.now(UTC)
        run = self.run(f"{now:%Y%m%d-%H%M%S}-{now.microsecond * 4096 // 1_000_000:03x}{secrets.randbelow(4096):03x}")
        run.path.mkdir(parents=True)
        if self.remote:
            (run.path / OWN).touch()
        return run

    def run(self, run_id: str) -> Run:
        """Return the folder of a run, which need not exist."""
        if not _RUN_ID.fullmatch(run_id):
            raise UsageError(
                f"{run_id!r} is not a run id.", hint="List runs: leadline store runs", code=ErrorCode.STORE_NO_RUN
            )
        return Run(run_id, self.root / "runs" / run_id, self.remote)

    def runs(self) -> list[Run]:
        """Return all runs, oldest first, with their records as they are now."""
        folder = self.root / "runs"
        found = {path.parent.name for path in folder.glob("*/run.json")}
        if self.remote:
            own = {name for name in found if self.run(name).own}
            others = set(self.remote.folders(folder)) - own
            self.remote.fetch(folder / name / "run.json" for name in others)
            found = own | {name for name in others if (folder / name / "run.json").exists()}
        return [self.run(name) for name in sorted(found)]

    def push(self, paths: Iterable[Path]) -> None:
        """Give files that were written here to the other hosts."""
        if self.remote:
            self.remote.push(paths)

    def fetch(self, paths: Iterable[Path]) -> None:
        """Take files that another host has pushed; those that there are not stay away."""
        if self.remote:
            self.remote.fetch(paths)

    def sync(self, folders: Iterable[Path], own: str = "") -> None:
        """Bring the segments of folders to where they are missing, here or in the bucket.

        Args:
            own: Pattern of the names of files that this process alone writes, and goes on writing: they stay.
        """
        if self.remote:
            self.remote.sync(list(folders), own)

    def share_new(self, path: Path) -> None:
        """Give a new file to the other hosts; one that the bucket does not take is nowhere.

        Raises:
            StoreError: The bucket cannot be written.
        """
        try:
            self.push([path])
        except StoreError:
            path.unlink(missing_ok=True)
            raise

    def discard(self, path: Path) -> None:
        """Delete a file, on all hosts if there are several; that there is none is fine."""
        path.unlink(missing_ok=True)
        if self.remote:
            self.remote.discard(path)

    def has_dataset(self, dataset: str) -> bool:
        """Return whether a dataset is loaded, after fetching it if another host did that."""
        folder = self.dataset(dataset)
        if folder.exists():
            return True
        return self.remote is not None and self.remote.fetch_folder(folder, MANIFEST)

    def use_dataset(self, dataset: str) -> bool:
        """Return whether a dataset is loaded, and note that it is used now, so that no clean-up takes it away."""
        if not self.has_dataset(dataset):
            return False
        with suppress(OSError):  # another user's file, or it was just put aside
            os.utime(self.dataset(dataset) / MANIFEST)
        return self.dataset(dataset).exists()

    def share_dataset(self, dataset: str) -> None:
        """Give a loaded dataset to the other hosts, unless they have it, and tell them that it is used now."""
        if self.remote:
            self.remote.share_folder(self.dataset(dataset), MANIFEST)

    def fetch_record(self, run: Run) -> None:
        """Fetch the record of a run of another host as it is now."""
        if self.remote and not run.own:
            self.remote.fetch([run.path / "run.json"])

    def share_plan(self, run: Run) -> None:
        """Give a run's plan to the workers."""
        if self.remote:
            self.remote.push_folder(run.plan, JOBS)

    def fetch_plan(self, run: Run, file: str = "") -> None:
        """Fetch a run's plan.

        Args:
            file: A file that is needed, which may be of a later part of the plan than what is here.
        """
        if self.remote:
            self.remote.fetch_folder(run.plan, JOBS)
            if file and not (run.plan / file).exists():
                self.remote.fetch([run.plan / file])

    def fetch_unscored(self, run: Run) -> None:
        """Fetch what workers could not score."""
        if self.remote:
            self.remote.mirror(run.unscored)

    def share_results(self, run: Run) -> None:
        """Note the digests of a run's results, and give these and its database, final by now, to the other hosts."""
        files = sorted(path for path in run.results.rglob("*") if path.is_file())
        lines = [f"{file_digest(path)}  {path.relative_to(run.path).as_posix()}\n" for path in files]
        with replacing(run.path / DIGESTS) as temporary:
            temporary.write_text("".join(lines), encoding="utf-8")
        if self.remote:
            self.remote.push(path for path in (run.path / DIGESTS, run.points) if path.exists())
            self.remote.push_folder(run.results)
            self.remote.push_changing(run.database)

    def fetch_database(self, run: Run) -> None:
        """Fetch the database of a run of another host as it is now."""
        if self.remote and not run.own:
            self.remote.fetch_changed(run.database)

    def fetch_results(self, run: Run) -> None:
        """Fetch the results of a run of another host as they are now."""
        if self.remote and not run.own:
            self.remote.mirror(run.results)


def _is_at(where: str, store: str) -> bool:
    """Return whether a path or an address names a store."""
    if "://" in where or "://" in store:
        return where.rstrip("/") == store
    return from_home(where).resolve() == Path(store)


def _remote(url: str) -> Remote:
    from leadline.tasks.store.remote import Remote  # so that commands on a store in a folder start faster

    return Remote.at(url)
