"""Checking a store, every file and the ledger, and bringing an earlier format up to date.

Segments carry their digests, datasets have them in their manifests, and results in a list beside them; labels and their
certificates are named by them. What an earlier
version wrote has none: it is read to its end, which finds what cannot be read. Databases have checksums of their own.

Each file is replaced at once, and the format's number is written last: killed at any moment, the next one goes on.
No score, key or page changes: a segment gets its digest, a dataset's manifest and a run those of their files.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final

import duckdb
from pyarrow import parquet

from leadline.evaluators.ground import LeadlineError
from leadline.plugins.ops.maintenance.contents import Contents, alone
from leadline.tasks.db import connect, literal
from leadline.tasks.ground.files import Listed, replacing
from leadline.tasks.judges.labels.certificates import is_as_written
from leadline.tasks.judges.labels.label_sets import LABELS_ADVICE, SAMPLE_ADVICE, has_its_labels, read_sample
from leadline.tasks.ledger.ledger import read_ledger
from leadline.tasks.store.parquet_files import file_digest, is_sealed, seal, seal_fault
from leadline.tasks.store.store import DIGESTS, DROPPED, MANIFEST, Store, write_format

AGAIN: Final = "Evaluate its dataset again: no score that the store has is computed twice."
_SEGMENTS: Final = ("scores", "vectors")


@dataclass(frozen=True, slots=True)
class Damage:
    """Something in a store that is not as it was written.

    Attributes:
        name: The file below the store's root, or the ledger.
    """

    name: str
    fault: str
    advice: str
    mendable: bool = False
    mended: bool = False


@dataclass(slots=True)
class CheckedStore:
    """Numbers of what was looked at.

    Attributes:
        without_digest: Those that an earlier version wrote, without a digest.
        lost_calls: Calls of the ledger whose process was gone before the reply came; no damage.
    """

    files: int = 0
    bytes: int = 0
    without_digest: int = 0
    lost_calls: int = 0


def check_store(store: Store, checked: CheckedStore, *, repair: bool = False) -> Iterator[Damage]:
    """Check a store and yield what is damaged.

    Args:
        repair: Set damaged segments and datasets aside: what they held is computed or loaded again.
    """
    with ExitStack() as held:
        if repair:
            held.enter_context(alone(store))
        contents = Contents(store)
        for damage in _found(contents, checked):
            if repair and damage.mendable:
                contents.set_aside(damage.name)
                yield replace(damage, mended=True)
            else:
                yield damage


def _counted(files: Mapping[str, Listed], checked: CheckedStore) -> Iterable[str]:
    """Return the names of files after taking note of them."""
    checked.files += len(files)
    checked.bytes += sum(listed.size for listed in files.values())
    return files


def _found(contents: Contents, checked: CheckedStore) -> Iterator[Damage]:
    for folder, what in (("scores", "scores are computed"), ("vectors", "embeddings are computed")):
        advice = f"Set it aside with --repair: its {what} again when they are needed."
        for name in _counted(contents.files(folder), checked):
            is_segment = name.endswith(".parquet")
            fault = _segment_fault(contents, name, checked) if is_segment else _json_fault(contents, name)
            if fault:
                yield Damage(name, fault, advice, mendable=True)
    for name in _counted(contents.files("judges"), checked):
        if fault := _json_fault(contents, name):
            yield Damage(name, fault, "Restore it from a backup, or delete the judge's folder and enrol it again.")
    yield from _labels(contents, checked)
    yield from _datasets(contents, checked)
    yield from _runs(contents, checked)
    yield from _ledger(contents.store, checked)


def _segment_fault(contents: Contents, name: str, checked: CheckedStore) -> str:
    """Return what is wrong with a segment, ``""`` if nothing is."""
    try:
        with contents.opened(name) as path:
            if is_sealed(path):
                return seal_fault(path)
            checked.without_digest += 1
            _read_through(path)
    except FileNotFoundError:  # merged or dropped meanwhile
        return ""
    except Exception as error:  # whatever a damaged file makes of its reader
        return _reason(error)
    return ""


def _read_through(path: Path) -> None:
    """Read a Parquet file to its end, with the checksums that it has."""
    with parquet.ParquetFile(path, page_checksum_verification=True, memory_map=False) as file:
        for group in range(file.num_row_groups):
            file.read_row_group(group)


def _json_fault(contents: Contents, name: str) -> str:
    """Return what is wrong with a JSON file, ``""`` if nothing is or it is none."""
    if not name.endswith(".json"):
        return ""
    try:
        with contents.opened(name) as path:
            json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        return _reason(error)
    return ""


def _labels(contents: Contents, checked: CheckedStore) -> Iterator[Damage]:
    for name in _counted(contents.files("labels"), checked):
        file = PurePosixPath(name)
        if file.parent.name in ("certificates", "improvements"):
            fault = _said_fault(contents, name, is_as_written)
            advice, mendable = "Set it aside with --repair: it is earned again.", True
        elif file.parent.name == "samples":
            fault = _said_fault(contents, name, lambda path, _: bool(read_sample(path)))
            advice, mendable = SAMPLE_ADVICE, False
        else:
            fault, advice, mendable = _said_fault(contents, name, has_its_labels), LABELS_ADVICE, False
        if fault:
            yield Damage(name, fault, advice, mendable)


def _said_fault(contents: Contents, name: str, holds: Callable[[Path, str], bool]) -> str:
    """Return what is wrong with a file of labels, ``""`` if nothing is."""
    try:
        with contents.opened(name) as path:
            return "" if holds(path, PurePosixPath(name).stem) else "it does not say what was written"
    except FileNotFoundError:
        return ""
    except Exception as error:  # whatever a damaged file makes of its reader
        return _reason(error)


def _datasets(contents: Contents, checked: CheckedStore) -> Iterator[Damage]:
    advice = "Set it aside with --repair, and evaluate the dataset's file again: it is loaded anew."
    for dataset in contents.folders("datasets"):
        folder = f"datasets/{dataset}"
        files = contents.files(folder)
        names = _counted(files, checked)
        digests, fault = _manifest_of(contents, folder)
        missing = [file for file in digests if f"{folder}/{file}" not in files]
        fault = fault or (f"{missing[0]} is missing" if missing else "")
        for name in names:
            file = name.removeprefix(f"{folder}/")
            if not fault and name.endswith(".parquet"):
                checked.without_digest += file not in digests
                found = _file_fault(contents, name, digests.get(file))
                fault = f"{file}: {found}" if found else ""
        if fault and contents.files(folder):  # else it was dropped meanwhile
            yield Damage(folder, fault, advice, mendable=True)


def _manifest_of(contents: Contents, folder: str) -> tuple[dict[str, str], str]:
    """Return the digests of a dataset's files, as far as its manifest has them, and what is wrong with that."""
    try:
        with contents.opened(f"{folder}/{MANIFEST}") as path:
            return dict(json.loads(path.read_text(encoding="utf-8")).get("sha256", {})), ""
    except FileNotFoundError:
        return {}, f"{MANIFEST} is missing"
    except (OSError, ValueError, AttributeError, TypeError) as error:
        return {}, f"{MANIFEST}: {_reason(error)}"


def _file_fault(contents: Contents, name: str, digest: str | None) -> str:
    try:
        with contents.opened(name) as path:
            if digest is None:
                _read_through(path)
            elif file_digest(path) != digest:
                return "its bytes are not those that were written"
    except FileNotFoundError:
        return "it is missing"
    except Exception as error:  # whatever a damaged file makes of its reader
        return _reason(error)
    return ""


def _runs(contents: Contents, checked: CheckedStore) -> Iterator[Damage]:
    for run in contents.folders("runs"):
        name = f"runs/{run}"
        fault = _json_fault(contents, f"{name}/run.json")
        if fault:
            yield Damage(f"{name}/run.json", fault, "Delete the run's folder. " + AGAIN)
            continue
        record = _read_record(contents, f"{name}/run.json") or {}
        if record.get("status") != "completed" or record.get(DROPPED):
            continue
        _counted(contents.files(name), checked)
        fault = _database_fault(contents, f"{name}/run.duckdb")
        if fault and not _dropped(contents, name):
            yield Damage(f"{name}/run.duckdb", fault, AGAIN)
        for file, digest in _digests_of_results(contents, name).items():
            fault = _file_fault(contents, f"{name}/{file}", digest)
            if fault and not _dropped(contents, name):
                yield Damage(f"{name}/{file}", fault, f"Make it again: leadline store export {run} --again")


def _dropped(contents: Contents, name: str) -> bool:
    """Return whether the results of a run were dropped, maybe meanwhile."""
    return bool((_read_record(contents, f"{name}/run.json") or {}).get(DROPPED))


def _read_record(contents: Contents, name: str) -> dict[str, Any] | None:
    """Return what a JSON file says; ``None`` where it is gone or cannot be read."""
    try:
        with contents.opened(name) as path:
            return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return None


def _digests_of_results(contents: Contents, run: str) -> dict[str, str]:
    try:
        with contents.opened(f"{run}/{DIGESTS}") as path:
            lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:  # an earlier version made it
        return {}
    return {file: digest for digest, _, file in (line.partition("  ") for line in lines)}


def _database_fault(contents: Contents, name: str) -> str:
    """Return what is wrong with a run's database: all of its blocks are read, which have checksums."""
    try:
        with contents.opened(name) as path, connect(threads=1) as connection:
            if not path.exists():
                return "it is missing"
            connection.execute(f"ATTACH {literal(path)} AS run (READ_ONLY)")
            tables = connection.execute("SELECT table_name FROM duckdb_tables() WHERE database_name = 'run'").fetchall()
            for (table,) in tables:
                connection.execute(f'SELECT bit_xor(hash(t)) FROM run."{table}" AS t').fetchall()
    except FileNotFoundError:
        return "it is missing"
    except duckdb.IOException as error:
        return "" if "lock" in str(error).lower() else _reason(error)
    except duckdb.Error as error:
        return _reason(error)
    return ""


def _ledger(store: Store, checked: CheckedStore) -> Iterator[Damage]:
    advice = "Restore the ledger from a backup, or move it away: scores stay, and replies are paid for again."
    try:
        ledger = read_ledger(store)
        for fault in ledger.faults():
            yield Damage("ledger", fault, advice)
        checked.lost_calls = len(ledger.lost())
    except LeadlineError as error:
        yield Damage("ledger", _reason(error), advice)


def _reason(error: Exception) -> str:
    return (" ".join(str(error).split()) or type(error).__name__)[:300]


def migrate(store: Store) -> Iterator[tuple[str, str]]:
    """Give digests to all that has none, and yield each such file with what is wrong with it, ``""`` if nothing.

    What is damaged stays as it is: ``leadline store verify`` says what to do about it.

    Raises:
        StoreError: Another process cleans, backs up or migrates the store, or it cannot be written.
    """
    with alone(store):
        contents = Contents(store)
        for folder in _SEGMENTS:
            for name in contents.files(folder):
                if name.endswith(".parquet"):
                    yield from _segment(contents, name)
        for dataset in contents.folders("datasets"):
            yield from _dataset(contents, f"datasets/{dataset}")
        write_format(store.root, store.remote)


def _segment(contents: Contents, name: str) -> Iterator[tuple[str, str]]:
    try:
        with contents.opened(name) as path:
            if is_sealed(path):
                return
            _read_through(path)  # damage that is there must not get a digest
            if contents.store.remote:
                seal(path)
                contents.replace(name, path)
            else:
                _replace(path)
    except FileNotFoundError:  # merged meanwhile
        return
    except Exception as error:  # whatever a damaged file makes of its reader
        yield name, _reason(error)
    else:
        yield name, ""


def _replace(path: Path) -> None:
    """Put a copy with a digest in the place of a segment; it keeps its time, from which retention counts."""
    with replacing(path) as temporary:
        shutil.copyfile(path, temporary)
        seal(temporary)
        facts = path.stat()
        os.utime(temporary, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def _dataset(contents: Contents, folder: str) -> Iterator[tuple[str, str]]:
    manifest = _read_record(contents, f"{folder}/{MANIFEST}")
    if manifest is None or "sha256" in manifest:
        return
    digests = {}
    try:
        for name in contents.files(folder):
            if name.endswith(".parquet"):
                with contents.opened(name) as path:
                    _read_through(path)
                    digests[name.removeprefix(f"{folder}/")] = file_digest(path)
    except Exception as error:  # whatever a damaged file makes of its reader
        yield folder, _reason(error)
        return
    _write_manifest(contents.store, folder, manifest | {"sha256": digests})
    yield folder, ""


def _write_manifest(store: Store, folder: str, manifest: Mapping[str, Any]) -> None:
    """Replace a dataset's manifest; a working copy without the dataset gets no part of it."""
    target, text = store.root / folder / MANIFEST, json.dumps(manifest, ensure_ascii=False, indent=1) + "\n"
    if store.remote is None:
        used = target.stat().st_mtime
        with replacing(target) as temporary:
            temporary.write_text(text, "utf-8")
            os.utime(temporary, (used, used))
        return
    with tempfile.TemporaryDirectory(prefix="leadline-") as room:
        path = Path(room) / MANIFEST
        path.write_text(text, "utf-8")
        store.remote.bucket.put(path, f"{folder}/{MANIFEST}")
    if target.exists():
        store.remote.fetch([target])
