"""A copy of a store and its ledger, in a folder or a tar file, made while runs go on; and making a store of it.

What refers to something is copied before it: records of versions, then runs, datasets, scores, embeddings, and at last
the ledger. So whatever a file of the copy needs is in the copy. Runs in work are left out; the scores that they have
written by then are not. The list of all files with their digests comes last, and the copy gets its name when it is
complete.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import sqlite3
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final, Protocol

from leadline.evaluators.ground import ErrorCode, LeadlineError, StoreError, UsageError
from leadline.plugins.ops.maintenance.contents import Contents, alone
from leadline.tasks.ground.files import replacing
from leadline.tasks.ledger.ledger import ledger_place
from leadline.tasks.store.store import ENDED, STORE_FILE, Run, Store, format_of, refuse_later

LIST: Final = "backup.json"
LEDGER: Final = "ledger.sqlite"
FOLDERS: Final = (
    "audit", "judges", "labels", "versions", "comparisons", "runs", "datasets", "scores", "vectors", "rgb",
)  # fmt: skip
"""Folders of a backup, in the order in which they are copied."""

_BLOCK: Final = 1 << 20
_LISTINGS: Final = 5
"""Times that a folder is listed at most while its files are merged."""

_LONGEST_NAME: Final = 1024
_LIST_ROOM: Final = 16 << 20
_ENTRY_ROOM: Final = 256
_LARGEST_CHARACTER: Final = 12
"""Bytes that the list of a backup's files may have: in all, for each file, and for each character of its name."""

_RECORD: Final = 512
"""Bytes of a tar file's records."""


@dataclass(frozen=True, slots=True)
class Backup:
    """Facts about a backup.

    Attributes:
        left_out: Runs that were in work, or whose records are damaged.
        ledger: Whether the ledger is in it; one in PostgreSQL is not.
    """

    files: int
    bytes: int
    left_out: tuple[str, ...]
    ledger: bool


class _Target(Protocol):
    def add(self, name: str, source: Path) -> dict[str, Any]: ...


def back_up(store: Store, target: Path) -> Backup:
    """Copy a store and its ledger; a name that ends with ``.tar`` is a file, any other a folder.

    Args:
        target: The copy, which must not exist.

    Raises:
        UsageError: It exists.
        StoreError: Another process cleans or migrates the store, or something cannot be read.
    """
    if target.exists():
        raise UsageError(f"{target} exists.", hint="Name a new file or folder.", code=ErrorCode.CONFIG_OUTPUT)
    with alone(store), replacing(target) as draft, _opened(draft, is_tar=target.suffix == ".tar") as copy:
        files, left_out = _copy_store(Contents(store), copy)
        ledger = _copy_ledger(ledger_place(store), target.parent, copy, files)
        facts = {
            "made": datetime.now(UTC).isoformat(timespec="seconds"),
            "leadline": importlib.metadata.version("leadline"),
            "format": format_of(store.root),
            "left_out": left_out,
            "ledger": ledger,
            "files": files,
        }
        with _written(json.dumps(facts, indent=1)) as path:
            copy.add(LIST, path)
    return Backup(len(files), sum(file["bytes"] for file in files.values()), tuple(left_out), ledger)


def _copy_store(contents: Contents, copy: _Target) -> tuple[dict[str, dict[str, Any]], list[str]]:
    files: dict[str, dict[str, Any]] = {}
    left_out = [run.id for run in contents.store.runs() if not _has_ended(run)]
    for folder in FOLDERS:
        for _ in range(_LISTINGS):
            names = [name for name in contents.files(folder) if name not in files and not _is_of(name, left_out)]
            gone = 0
            for name in names:
                if folder == "runs" and _is_unfinished(contents, name, left_out):
                    continue
                try:
                    with contents.opened(name) as path:
                        files[name] = copy.add(name, path)
                except FileNotFoundError:
                    gone += 1
            if not gone:
                break
    if (contents.store.root / STORE_FILE).exists():
        files[STORE_FILE] = copy.add(STORE_FILE, contents.store.root / STORE_FILE)
    return files, left_out


def _has_ended(run: Run) -> bool:
    """Return whether a run has ended; one whose record is damaged is left out as well."""
    try:
        return run.read().get("status") in ENDED
    except LeadlineError:
        return False


def _is_of(name: str, runs: list[str]) -> bool:
    parts = name.split("/")
    return parts[0] == "runs" and parts[1] in runs


def _is_unfinished(contents: Contents, name: str, left_out: list[str]) -> bool:
    """Return whether a file is of a run that began since the runs were listed; it is left out then."""
    run = name.split("/")[1]
    try:
        with contents.opened(f"runs/{run}/run.json") as path:
            ended = json.loads(path.read_text(encoding="utf-8")).get("status") in ENDED
    except (OSError, ValueError):
        ended = False
    if not ended and run not in left_out:
        left_out.append(run)
    return not ended


def _copy_ledger(place: Path | str, room: Path, copy: _Target, files: dict[str, dict[str, Any]]) -> bool:
    """Copy the ledger as it is at one moment, whoever writes it; returns whether it is in the copy."""
    if isinstance(place, str):
        return False
    if not place.exists():
        return True
    with tempfile.TemporaryDirectory(prefix=".leadline-backup-", dir=room) as folder:
        path = Path(folder) / LEDGER
        try:
            with closing(sqlite3.connect(place, timeout=60)) as source, closing(sqlite3.connect(path)) as target:
                source.backup(target)
                target.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.Error as error:
            raise StoreError(
                f"The ledger {place} cannot be copied: {error}.",
                hint="Check it: leadline store verify",
                code=ErrorCode.LEDGER_FAILED,
            ) from error
        files[LEDGER] = copy.add(LEDGER, path)
    return True


@contextmanager
def _written(text: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="leadline-backup-") as folder:
        path = Path(folder) / LIST
        path.write_text(text, encoding="utf-8")
        yield path


@contextmanager
def _opened(draft: Path, *, is_tar: bool) -> Iterator[_Target]:
    if not is_tar:
        draft.mkdir(mode=0o700)
        yield _BackupFolder(draft)
        return
    draft.touch(mode=0o600)
    with tarfile.open(draft, "w", format=tarfile.GNU_FORMAT) as archive:
        yield _Tar(archive)


class _Hashing:
    """A file that is read, with the digest of what was read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.sha256 = hashlib.sha256()
        self.bytes = 0

    def read(self, size: int = -1) -> bytes:
        block = self._file.read(size)
        self.sha256.update(block)
        self.bytes += len(block)
        return block

    def facts(self) -> dict[str, Any]:
        return {"bytes": self.bytes, "sha256": self.sha256.hexdigest()}


class _BackupFolder:
    def __init__(self, root: Path) -> None:
        self._root = root

    def add(self, name: str, source: Path) -> dict[str, Any]:
        with source.open("rb") as file:
            return _write(_Hashing(file), self._root / name)


class _Tar:
    def __init__(self, archive: tarfile.TarFile) -> None:
        self._archive = archive

    def add(self, name: str, source: Path) -> dict[str, Any]:
        with source.open("rb") as file:
            member = tarfile.TarInfo(name)
            member.size = os.fstat(file.fileno()).st_size
            member.mode = 0o600
            hashing = _Hashing(file)
            self._archive.addfile(member, hashing)
        return hashing.facts()


def _write(file: _Hashing, path: Path) -> dict[str, Any]:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.touch(mode=0o600, exist_ok=False)
    with path.open("wb") as copy:
        while block := file.read(_BLOCK):
            copy.write(block)
        copy.flush()
        os.fsync(copy.fileno())
    return file.facts()


def restore(backup: Path, root: Path) -> Backup:
    """Make a store of a backup; it appears when all digests are right.

    Args:
        root: The new store, a folder that does not exist or is empty.

    Raises:
        UsageError: There is no backup, or the folder holds something.
        StoreError: The backup is damaged, or holds what no backup of a store has.
    """
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise UsageError(
            f"{root} is not empty.", hint="Restore into a new folder: --store FOLDER", code=ErrorCode.CONFIG_OUTPUT
        )
    if not backup.exists():
        raise UsageError(f"There is no backup {backup}.", code=ErrorCode.CONFIG_OPTION)
    with replacing(root) as draft:
        draft.mkdir(mode=0o700, parents=True)
        found: dict[str, dict[str, Any]] = {}
        members = _members_of_folder(backup) if backup.is_dir() else _members_of_tar(backup)
        for name, opened in members:
            if name in found:
                raise _refused(backup, f"it holds {name!r} twice")
            with opened as file:
                found[name] = _write(_Hashing(file), draft / _checked(backup, name))
        facts = _checked_list(backup, draft, found)
        (draft / LIST).unlink()
        refuse_later(format_of(draft), str(backup))
    sizes = [file["bytes"] for name, file in found.items() if name != LIST]
    return Backup(len(sizes), sum(sizes), tuple(facts["left_out"]), bool(facts["ledger"]))


def _checked(backup: Path, name: str) -> PurePosixPath:
    """Return the path of a member, if it is one of a store."""
    path = PurePosixPath(name)
    parts = name.split("/")
    is_path = len(name) <= _LONGEST_NAME and "\0" not in name and "\\" not in name
    if not is_path or any(not part or part.startswith(".") for part in parts):
        raise _refused(backup, f"{name[:80]!r} is no file of a store")
    if not (name in (LIST, LEDGER, STORE_FILE) or (len(parts) > 1 and parts[0] in FOLDERS)):
        raise _refused(backup, f"{name[:80]!r} is no file of a store")
    return path


def _checked_list(backup: Path, draft: Path, found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the list of a backup, after comparing it with what was found."""
    most = _LIST_ROOM + sum(_ENTRY_ROOM + _LARGEST_CHARACTER * len(name) for name in found)
    if LIST not in found or found[LIST]["bytes"] > most:
        raise _refused(backup, f"it has no {LIST}, and so is not complete")
    try:
        facts = dict(json.loads((draft / LIST).read_text(encoding="utf-8")))
        listed = dict(facts["files"])
        _ = (tuple(facts["left_out"]), bool(facts["ledger"]))
    except (ValueError, TypeError, KeyError) as error:
        raise _refused(backup, f"its {LIST} cannot be read") from error
    there = {name: file for name, file in found.items() if name != LIST}
    for name in sorted(listed.keys() | there.keys()):
        if listed.get(name) != there.get(name):
            what = "is missing" if name not in there else "is not listed" if name not in listed else "was changed"
            raise _refused(backup, f"{name[:200]!r} {what}")
    return facts


def _members_of_folder(backup: Path) -> Iterator[tuple[str, AbstractContextManager[IO[bytes]]]]:
    for folder, folders, files in os.walk(backup):
        for name in sorted([*folders, *files]):
            path = Path(folder) / name
            if path.is_symlink() or not (path.is_dir() or path.is_file()):
                raise _refused(backup, f"{path.relative_to(backup).as_posix()[:80]!r} is a link or a device")
        for name in sorted(files):
            yield (Path(folder) / name).relative_to(backup).as_posix(), (Path(folder) / name).open("rb")


def _members_of_tar(backup: Path) -> Iterator[tuple[str, AbstractContextManager[IO[bytes]]]]:
    """Yield the files of a tar file; nothing in it is compressed, so that it cannot grow."""
    try:
        _refuse_kinds(backup)
        with tarfile.open(backup, "r:") as archive:
            for member in archive:
                file = archive.extractfile(member)
                if file is None:
                    raise _refused(backup, f"{member.name[:80]!r} is no file")
                yield member.name, file
    except (tarfile.TarError, EOFError, UnicodeError) as error:
        raise _refused(backup, "it is no complete tar file") from error


def _refuse_kinds(backup: Path) -> None:
    """Refuse a tar file with links, devices, sparse files or large headers, before anything of it is read."""
    size = backup.stat().st_size
    with backup.open("rb") as file:
        while (header := file.read(_RECORD)) and header.strip(b"\0"):
            member = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
            is_name = member.type == tarfile.GNUTYPE_LONGNAME and member.size <= 2 * _LONGEST_NAME
            if not is_name and member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
                raise _refused(backup, f"{member.name[:80]!r} is no plain file")
            if member.size < 0 or file.seek(-(-member.size // _RECORD) * _RECORD, os.SEEK_CUR) > size:
                raise _refused(backup, "it is no complete tar file")


def _refused(backup: Path, why: str) -> StoreError:
    return StoreError(
        f"The backup {backup} cannot be restored: {why}.",
        hint="Take another backup; nothing was restored.",
        code=ErrorCode.STORE_BACKUP,
    )
