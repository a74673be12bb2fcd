"""The files of a store by their names below its root, wherever they lie: in a folder, or in a bucket."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from leadline.evaluators.ground import ErrorCode, StoreError
from leadline.tasks.ground.files import Listed, locked, remove
from leadline.tasks.store.store import Store

SET_ASIDE: Final = "damaged"
"""Folder of damaged files that were set aside."""

LOCK: Final = ".maintenance.lock"
"""File of the store that is locked while it is cleaned, backed up, repaired or migrated."""


@contextmanager
def alone(store: Store) -> Iterator[None]:
    """Keep other processes of this host from cleaning, backing up, repairing or migrating a store meanwhile.

    Raises:
        StoreError: One is about it.
    """
    with ExitStack() as held:
        try:
            held.enter_context(locked(store.root / LOCK, wait=False))
        except TimeoutError as error:
            raise StoreError(
                f"Another process cleans, backs up, repairs or migrates the store {store.location}.",
                hint="Try again when it has ended.",
                code=ErrorCode.STORE_IN_USE,
            ) from error
        except OSError:  # a file system without locks
            pass
        yield


@dataclass(frozen=True, slots=True)
class Contents:
    """The files of a store; those whose names begin with a dot, and those in such folders, are nobody's business."""

    store: Store

    def files(self, folder: str = "") -> dict[str, Listed]:
        """Return the files below a folder by name, in order."""
        if self.store.remote:
            return dict(sorted(self.store.remote.bucket.listing(folder).items()))
        return dict(sorted(self.local_files(folder).items()))

    def local_files(self, folder: str = "") -> dict[str, Listed]:
        """Return the files below a folder of this host: of the store itself, or of its working copy."""
        return {
            name: Listed(facts.st_size, facts.st_mtime)
            for name, facts in _walk(self.store.root / folder if folder else self.store.root, folder)
        }

    def folders(self, folder: str) -> list[str]:
        """Return the names of the folders in a folder, in order."""
        if self.store.remote:
            return self.store.remote.bucket.folders(folder)
        with suppress(FileNotFoundError), os.scandir(self.store.root / folder) as entries:
            return sorted(
                entry.name
                for entry in entries
                if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)
            )
        return []

    @contextmanager
    def opened(self, name: str) -> Iterator[Path]:
        """Yield a file to read; one of a bucket is downloaded for the block.

        Raises:
            FileNotFoundError: There is none (any more).
        """
        if self.store.remote is None:
            yield self.store.root / name
            return
        with tempfile.TemporaryDirectory(prefix="leadline-") as folder:
            path = Path(folder) / "object"
            if self.store.remote.bucket.get(name, path) is None:
                raise FileNotFoundError(name)
            yield path

    def replace(self, name: str, path: Path) -> None:
        """Put a file in the place of one of the store, which has it complete or not at all.

        Args:
            path: The new one; in a folder, it is to be a temporary file beside it.
        """
        if self.store.remote:
            self.store.remote.bucket.put(path, name)
            (self.store.root / name).unlink(missing_ok=True)  # it is fetched again when it is needed
        else:
            os.replace(path, self.store.root / name)

    def set_aside(self, name: str) -> None:
        """Move a damaged file or folder out of the way, to where it can still be looked at."""
        if self.store.remote:
            names = list(self.files(name)) or [name]
            for each in names:
                with self.opened(each) as path:
                    self.store.remote.bucket.put(path, f"{SET_ASIDE}/{each}")
            self.delete([*names, *self.local_files(name)])
            return
        target = self.store.root / SET_ASIDE / name
        target.parent.mkdir(parents=True, exist_ok=True)
        remove(target)
        (self.store.root / name).rename(target)

    def delete(self, names: Iterable[str]) -> None:
        """Delete files; that there are none is fine. Folders that become empty go, too.

        Raises:
            StoreError: One cannot be deleted.
        """
        folders = set()
        for name in names:
            if self.store.remote:
                self.store.remote.bucket.delete(name)
            path = self.store.root / name
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise StoreError(
                    f"{path} cannot be deleted: {error.strerror or error}.", code=ErrorCode.STORE_FAILED
                ) from error
            folders |= {parent for parent in path.relative_to(self.store.root).parents if parent.name}
        for folder in sorted(folders, key=lambda path: -len(path.parts)):
            with suppress(OSError):  # it holds something else
                if len(folder.parts) > 1:
                    (self.store.root / folder).rmdir()


def _walk(folder: Path, prefix: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield regular files below a folder with their names; links are not followed."""
    try:
        with os.scandir(folder) as entries:
            found = [entry for entry in entries if not entry.name.startswith(".")]
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in found:
        name = f"{prefix}/{entry.name}" if prefix else entry.name
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(folder / entry.name, name)
        elif entry.is_file(follow_symlinks=False):
            with suppress(FileNotFoundError):  # gone since
                yield name, entry.stat(follow_symlinks=False)
