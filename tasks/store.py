"""The store: where datasets, scores and runs live, and how files get into it.

Layout, below the store's root::

    datasets/<digest>/                  a loaded dataset as Parquet, shared by all runs of it
    scores/<evaluator>/<config>/        immutable segments of scores, shared by all runs
    vectors/<model>/                    immutable segments of embeddings
    runs/<run>/run.json                 what was asked for and how it ended
    runs/<run>/run.duckdb               the run's tables, written by one process
    runs/<run>/plan/, unscored/         what to compute, and what could not be
    runs/<run>/results/                 the report and its files

A file appears under its final name complete or not at all: it is written beside it and renamed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from evaluators.errors import StoreError, UsageError

STORE_VARIABLE: Final = "LEADLINE_STORE"
DEFAULT_STORE: Final = ".leadline"
_RUN_ID: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,99}")


def digest(value: Any) -> str:
    """Return the 32 hex digits that identify a JSON value, whatever the order of its keys."""
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:32]


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; renamed to it when the block ends well, removed otherwise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        os.replace(temporary, path)
    except BaseException:
        if temporary.is_dir():
            shutil.rmtree(temporary, ignore_errors=True)
        else:
            temporary.unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file atomically."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False) + "\n", encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Run:
    """The folder of one run."""

    id: str
    path: Path

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
    def results(self) -> Path:
        """Folder of the report and its files."""
        return self.path / "results"

    def read(self) -> dict[str, Any]:
        """Return the run's record."""
        try:
            record = json.loads((self.path / "run.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise UsageError(f"There is no run {self.id!r} in the store.", hint="List runs: leadline runs") from None
        return dict(record)

    def update(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Merge changes into the run's record and return it."""
        record = (self.read() if (self.path / "run.json").exists() else {"id": self.id}) | dict(changes)
        write_json(self.path / "run.json", record)
        return record


@dataclass(frozen=True, slots=True)
class Store:
    """A store in a local folder."""

    root: Path

    @classmethod
    def open(cls, location: str | os.PathLike[str] | None = None) -> Store:
        """Open the store at a path, by default ``$LEADLINE_STORE`` or ``./.leadline``."""
        where = str(location or os.environ.get(STORE_VARIABLE) or DEFAULT_STORE)
        if "://" in where:
            raise StoreError(f"The store {where!r} is not a local folder.", hint="Give a path.")
        root = Path(where).expanduser().absolute()
        try:
            root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"The store {root} cannot be made: {error.strerror}.", hint="Set LEADLINE_STORE."
            ) from error
        return cls(root)

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
        """Make the folder of a new run; its id sorts by time."""
        stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        run = self.run(f"{stamp}-{secrets.token_hex(3)}")
        run.path.mkdir(parents=True)
        return run

    def run(self, run_id: str) -> Run:
        """Return the folder of a run, which need not exist."""
        if not _RUN_ID.fullmatch(run_id):
            raise UsageError(f"{run_id!r} is no run id.", hint="List runs: leadline runs")
        return Run(run_id, self.root / "runs" / run_id)

    def runs(self) -> list[Run]:
        """Return all runs, oldest first."""
        return [Run(path.parent.name, path.parent) for path in sorted((self.root / "runs").glob("*/run.json"))]


def publish_folder(path: Path, fill: Callable[[Path], None]) -> Path:
    """Make a folder appear complete under its name; if another process was first, its folder stays."""
    if path.exists():
        return path
    try:
        with replacing(path) as temporary:
            temporary.mkdir()
            fill(temporary)
    except OSError:
        if not path.exists():
            raise
    return path
