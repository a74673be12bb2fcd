"""Dropping what a store needs no more: old results, unused datasets and scores, and what killed processes left.

Nothing is taken from a run in work. What is to go is looked for first and looked at once more just before it goes:

- A run's results go after its record says so, and the record is changed only if no tag came meanwhile; a run whose
  results are dropped can get no tag. Records stay, so that ``leadline store runs`` still lists the run and its gate.
- A dataset has the time of its last use. It is first put aside under a temporary name, and back if it was used or a
  run has begun that uses it.
- So are scores and embeddings.

Killed at any moment, it leaves what the next one finishes.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from leadline.evaluators.ground import LeadlineError
from leadline.plugins.ops.maintenance.contents import SET_ASIDE, Contents, alone
from leadline.plugins.ops.maintenance.retention import Retention, is_kept_by_tag, runs_to_drop
from leadline.tasks.compare.report import FOLDER as COMPARISONS
from leadline.tasks.ground.files import digest, remove, stale_files, stale_folders, temporary_beside
from leadline.tasks.runs.heartbeats import record_lost
from leadline.tasks.runs.versions import runs_in_use
from leadline.tasks.store.remote import Remote
from leadline.tasks.store.store import DROPPED, MANIFEST, Store
from leadline.tasks.store.vectors import used_mark

Kind: TypeAlias = Literal["run", "dataset", "comparison", "scores", "embeddings", "set aside", "temporary"]

DATASET_UNUSED_S: Final = 24 * 3600.0
"""Seconds for which a dataset without a run stays: a run that just begins has loaded its dataset and no record yet."""

SET_ASIDE_S: Final = 30 * 24 * 3600.0
"""Seconds for which damaged files stay that were set aside."""

_RECORD: Final = "run.json"


@dataclass(frozen=True, slots=True)
class GarbageItem:
    """Something that can go.

    Attributes:
        name: Its id, or its path below the store's root.
    """

    kind: Kind
    name: str
    why: str
    bytes: int


def find_garbage(store: Store, retention: Retention, now: float | None = None) -> list[GarbageItem]:
    """Return what can go.

    Args:
        now: The time, in seconds since 1970; the clock's by default.
    """
    return list(_GarbageSearch(store, retention, time.time() if now is None else now).items())


def drop_garbage(store: Store, retention: Retention, now: float | None = None) -> Iterator[GarbageItem]:
    """Drop what can go, and yield each thing once it is gone.

    Args:
        now: The time, in seconds since 1970; the clock's by default.

    Raises:
        StoreError: Something cannot be deleted, or another process cleans the store, backs it up or migrates it.
    """
    record_lost(store)
    with alone(store):
        search = _GarbageSearch(store, retention, time.time() if now is None else now)
        for item in search.items():
            if _DROPS[item.kind](search, item.name):
                yield item
            elif item.kind == "run":
                search.dropping.pop(item.name, None)  # it needs its dataset and its scores


class _GarbageSearch:
    """A store as it was when the search began."""

    def __init__(self, store: Store, retention: Retention, now: float) -> None:
        self.store = store
        self.contents = Contents(store)
        self.retention = retention
        self.now = now
        self.records = _records(store)
        self.dropping = runs_to_drop(self._with_results(), retention, now, runs_in_use(store))

    def _with_results(self) -> dict[str, Mapping[str, Any]]:
        return {run: record for run, record in self.records.items() if not record.get(DROPPED)}

    def items(self) -> Iterator[GarbageItem]:
        """Yield what can go, datasets and scores after the runs that used them."""
        yield from self._runs()
        living = [record for run, record in self._with_results().items() if run not in self.dropping]
        yield from self._datasets({name for record in living for name in _datasets_of(record)})
        yield from self._comparisons()
        if self.retention.scores_older_than is not None:
            yield from self._scores(_configurations(living))
            yield from self._embeddings()
        yield from self._set_aside()
        yield from self._temporary()

    def _runs(self) -> Iterator[GarbageItem]:
        for run, record in self.records.items():
            why = "left over when it was dropped" if record.get(DROPPED) else self.dropping.get(run, "")
            size = self.size(f"runs/{run}") if why else 0
            if size or run in self.dropping:
                yield GarbageItem("run", run, why, size)

    def _datasets(self, used: set[str]) -> Iterator[GarbageItem]:
        for name in self.contents.folders("datasets"):
            if name not in used and self.dataset_is_unused(name):
                yield GarbageItem("dataset", name, "no run with results uses it", self.size(f"datasets/{name}"))

    def dataset_is_unused(self, name: str) -> bool:
        """Return whether a dataset was neither loaded nor used for a while."""
        files = self.contents.files(f"datasets/{name}")
        last = files.get(f"datasets/{name}/{MANIFEST}")
        times = [last.modified] if last else [listed.modified for listed in files.values()]
        return not times or self.now - max(times) > DATASET_UNUSED_S

    def is_fresh(self, path: Path) -> bool:
        """Return whether a dataset's manifest says that it was used a moment ago."""
        with suppress(OSError):
            return self.now - path.stat().st_mtime <= DATASET_UNUSED_S
        return False

    def _comparisons(self) -> Iterator[GarbageItem]:
        if self.retention.older_than is None:
            return
        for name in self.contents.folders(COMPARISONS):
            folder = f"{COMPARISONS}/{name}"
            if self.is_older(folder, self.retention.older_than):
                yield GarbageItem("comparison", name, f"{self.age_in_days(folder)} days old", self.size(folder))

    def _scores(self, used: set[str]) -> Iterator[GarbageItem]:
        for evaluator in self.contents.folders("scores"):
            for config in self.contents.folders(f"scores/{evaluator}"):
                folder = f"scores/{evaluator}/{config}"
                if f"{evaluator}/{config}" not in used and self.is_older(folder, self.retention.scores_older_than):
                    yield GarbageItem("scores", folder, "no run with results uses them", self.size(folder))

    def _embeddings(self) -> Iterator[GarbageItem]:
        for name in self.contents.folders("vectors"):
            if self.is_older(f"vectors/{name}", self.retention.scores_older_than):
                why = f"not used for {self.age_in_days(f'vectors/{name}')} days"
                yield GarbageItem("embeddings", f"vectors/{name}", why, self.size(f"vectors/{name}"))

    def is_older(self, folder: str, seconds: float | None) -> bool:
        """Return whether nothing in a folder was written or used for as long; an empty one is no concern."""
        return seconds is not None and self._last_use(folder) is not None and self._age(folder) > seconds

    def age_in_days(self, folder: str) -> int:
        """Return the days since something in a folder was written or used."""
        return int(self._age(folder) // 86_400)

    def _age(self, folder: str) -> float:
        return self.now - (self._last_use(folder) or self.now)

    def _last_use(self, folder: str) -> float | None:
        times = [listed.modified for listed in self.contents.files(folder).values()]
        with suppress(OSError):  # only embeddings have a mark
            times.append(used_mark(self.store.root / folder).stat().st_mtime)
        return max(times, default=None)

    def _set_aside(self) -> Iterator[GarbageItem]:
        for name, listed in self.contents.files(SET_ASIDE).items():
            if self.now - listed.modified > SET_ASIDE_S:
                yield GarbageItem("set aside", name, "damaged, and set aside long ago", listed.size)

    def _temporary(self) -> Iterator[GarbageItem]:
        for path in (*stale_files(self.store.root), *stale_folders(self.store.root)):
            yield GarbageItem(
                "temporary", path.relative_to(self.store.root).as_posix(), "its process was killed", _size_of(path)
            )

    def size(self, folder: str) -> int:
        """Return the bytes of the files below a folder, in a bucket and here, but for the record of a run."""
        listings = [self.contents.files(folder)]
        if self.store.remote:
            listings.append(self.contents.local_files(folder))
        return sum(listed.size for files in listings for name, listed in files.items() if name != f"{folder}/{_RECORD}")


def _records(store: Store) -> dict[str, Mapping[str, Any]]:
    """Return the records of all runs; one that cannot be read keeps all that it has."""
    found: dict[str, Mapping[str, Any]] = {}
    for run in store.runs():
        with suppress(LeadlineError, OSError, ValueError):
            found[run.id] = run.read()
    return found


def _datasets_of(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the datasets that a run uses: its own, and those of its canaries and third rows, or ``""``."""
    return tuple(str(record.get(name, "")) for name in ("dataset", "canary_dataset", "third_rows_dataset"))


def _configurations(records: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the folders of scores, as ``<evaluator>/<config>``, that runs use."""
    return {
        f"{evaluator}/{digest(identity)}"
        for record in records
        for evaluator, identity in (record.get("identities") or {}).items()
    }


def _run_files(contents: Contents, run: str) -> list[str]:
    """Return the files of a run but its record."""
    names = {*contents.files(f"runs/{run}"), *contents.local_files(f"runs/{run}")}
    return sorted(names - {f"runs/{run}/{_RECORD}"})


def _size_of(path: Path) -> int:
    files = [path] if path.is_file() else path.rglob("*")
    total = 0
    for file in files:
        with suppress(OSError):
            total += file.lstat().st_size
    return total


def _drop_run(search: _GarbageSearch, name: str) -> bool:
    """Drop a run's results unless it got a tag meanwhile or is in work again."""
    run = search.store.run(name)
    if not run.change(partial(_dropped, search.retention)):
        return False
    search.contents.delete(_run_files(search.contents, name))
    for folder in (run.plan, run.results, run.unscored, run.outcomes):
        shutil.rmtree(folder, ignore_errors=True)  # empty folders and hidden files
    return True


def _dropped(retention: Retention, record: Mapping[str, Any]) -> Mapping[str, Any] | None:
    if record.get(DROPPED):  # somebody was killed over it
        return record
    if record.get("status", "running") == "running" or is_kept_by_tag(record, retention):
        return None
    return dict(record) | {DROPPED: datetime.now(UTC).isoformat(timespec="seconds")}


def _drop_dataset(search: _GarbageSearch, name: str) -> bool:
    """Drop a dataset unless it was used meanwhile, or a run has begun that uses it."""
    folder = search.store.dataset(name)
    if not search.dataset_is_unused(name) or _is_in_new_run(search, name):
        return False
    if search.store.remote:
        return _drop_shared_dataset(search, search.store.remote, name)
    aside = _put_aside(folder)
    if search.is_fresh(aside / MANIFEST) or _is_in_new_run(search, name):
        _put_back(aside, folder)
        return False
    remove(aside)
    return True


def _drop_shared_dataset(search: _GarbageSearch, remote: Remote, name: str) -> bool:
    """Drop a dataset of a bucket: its manifest first, without which no host takes it, and the rest after a last look.

    A host that begins to use it after that gives the bucket its own copy, or loads it anew.
    """
    folder = f"datasets/{name}"
    manifest, files = f"{folder}/{MANIFEST}", set(search.contents.files(folder))
    with tempfile.TemporaryDirectory(prefix="leadline-") as room:
        kept = Path(room) / MANIFEST
        was_whole = remote.bucket.get(manifest, kept) is not None
        remote.bucket.delete(manifest)
        if _is_in_new_run(search, name):
            if was_whole:
                remote.bucket.put_if(kept, manifest, None)
            return False
    if remote.bucket.version(manifest) is not None:
        return False
    remove(_put_aside(search.store.dataset(name)))
    search.contents.delete(files - {manifest})
    return True


def _is_in_new_run(search: _GarbageSearch, dataset: str) -> bool:
    return any(dataset in _datasets_of(record) for record in _new_records(search))


def _drop_files(search: _GarbageSearch, folder: str) -> bool:
    search.contents.delete([*search.contents.files(folder), *search.contents.local_files(folder)])
    shutil.rmtree(search.store.root / folder, ignore_errors=True)
    return True


def _drop_comparison(search: _GarbageSearch, name: str) -> bool:
    return _drop_files(search, f"{COMPARISONS}/{name}")


def _drop_scores(search: _GarbageSearch, folder: str) -> bool:
    """Drop scores or embeddings unless they were used meanwhile, or a run has begun that uses them."""
    path = search.store.root / folder
    if not search.is_older(folder, search.retention.scores_older_than):
        return False
    if search.store.remote:  # a run that has them here brings them back when it gathers its scores
        files = {*search.contents.files(folder), *search.contents.local_files(folder)}
        if _is_in_use(search, folder):
            return False
        search.contents.delete(files)  # and none that came since
        return True
    aside = _put_aside(path)
    if _is_in_use(search, folder):
        _put_back(aside, path)
        return False
    remove(aside)
    return True


def _is_in_use(search: _GarbageSearch, folder: str) -> bool:
    return folder.removeprefix("scores/") in _configurations(_new_records(search))


def _new_records(search: _GarbageSearch) -> Iterator[Mapping[str, Any]]:
    """Yield the records of runs that have begun since the search did."""
    for name in search.contents.folders("runs"):
        if name not in search.records:
            run = search.store.run(name)
            with suppress(LeadlineError, OSError, ValueError):
                search.store.fetch_record(run)
                yield run.read()


def _put_aside(path: Path) -> Path:
    aside = temporary_beside(path)
    with suppress(FileNotFoundError):  # a bucket's, with no copy here
        path.rename(aside)
    return aside


def _put_back(aside: Path, path: Path) -> None:
    """Put a folder back; where a run has made it anew meanwhile, its files."""
    try:
        aside.rename(path)
    except OSError:
        for file in aside.iterdir():
            if not (path / file.name).exists():
                file.rename(path / file.name)
        remove(aside)


def _drop_temporary(search: _GarbageSearch, name: str) -> bool:
    remove(search.store.root / name)
    return True


_DROPS: Final = {
    "run": _drop_run,
    "dataset": _drop_dataset,
    "comparison": _drop_comparison,
    "scores": _drop_scores,
    "embeddings": _drop_scores,
    "set aside": _drop_files,
    "temporary": _drop_temporary,
}
