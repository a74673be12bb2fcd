"""A store on many hosts: each has a working copy in a folder, and what is finished lies in a bucket.

Nearly all files of a store are immutable or written by one process, so no protocol is needed. A process pushes each
file after the rename that completes it, and fetches what it needs and does not have. A folder is complete once its last
file is there. A file that never reached the bucket, since its process was killed before pushing it, is pushed by the
next process that synchronizes its folder.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Final, TypeVar

from leadline.evaluators.ground import ErrorCode, StoreError, from_home
from leadline.tasks.ground.files import digest, publish_folder, replacing, state_folder
from leadline.tasks.store.object_storage import Bucket

A = TypeVar("A")
B = TypeVar("B")

CACHE_VARIABLE: Final = "LEADLINE_CACHE"
AT_ONCE: Final = 16
"""Requests in flight."""


@dataclass(frozen=True, slots=True)
class Remote:
    """The connection of a working copy with its bucket; paths are local ones."""

    root: Path
    bucket: Bucket

    @classmethod
    def at(cls, url: str) -> Remote:
        """Connect to a store by its URL.

        The working copy is a folder of ``$LEADLINE_CACHE``, by default below the user's folder for state.

        Raises:
            UsageError: The URL is wrong, or the working copies are below ``~user`` and there is no such user.
            StoreError: There is no such bucket, or it cannot be reached.
        """
        bucket = Bucket.at(url)
        _check(bucket)
        given = os.environ.get(CACHE_VARIABLE)
        base = from_home(given).absolute() if given else state_folder() / "stores"
        return cls(base / digest(bucket.identity), bucket)

    @property
    def location(self) -> str:
        """The store's URL."""
        return self.bucket.location

    def page(self, path: Path) -> str:
        """Return a file's address for a browser."""
        return self.bucket.page(self._name(path))

    def push(self, paths: Iterable[Path]) -> None:
        """Upload files, replacing what is there."""
        _each(paths, lambda path: self.bucket.put(path, self._name(path)))

    def push_folder(self, folder: Path, last: str = "") -> None:
        """Make a folder in the bucket equal to the local one.

        Args:
            last: The file whose presence marks the folder as complete; it is uploaded last.
        """
        files = [path for path in _files(folder) if path.name != last]
        self.push(files)
        if last:
            self.push([folder / last])
        names = {self._name(path) for path in _files(folder)}
        _each(set(self.bucket.objects(self._name(folder))) - names, self.bucket.delete)

    def share_folder(self, folder: Path, last: str) -> None:
        """Push an immutable folder unless it is whole in the bucket; there its last file gets the time of now.

        That file is pushed as it is in the bucket, where it may have got digests since it was fetched.
        """
        there = self.bucket.objects(self._name(folder))
        if there.keys() >= {self._name(path) for path in _files(folder)}:
            self.fetch([folder / last])
            self.push([folder / last])
        else:
            self.push_folder(folder, last)

    def sync(self, folders: Sequence[Path], own: str = "") -> None:
        """Copy the immutable files of folders to the side that lacks them.

        Of a file with different sizes on both sides the bucket's is taken: a worker scored its chunk again.

        Args:
            own: Pattern of the names of files of which ours is taken, and not pushed here.
        """
        there: dict[str, int] = {}
        for listed in _each(folders, lambda folder: self.bucket.objects(self._name(folder))):
            there |= listed
        here = {self._name(path): path.stat().st_size for folder in folders for path in _files(folder)}
        ours = {name for name in here if own and fnmatchcase(name, own)}
        _each([name for name, size in there.items() if here.get(name) != size and name not in ours], self._get)
        self.push(self.root / name for name in here if name not in there and name not in ours)

    def mirror(self, folder: Path) -> None:
        """Make a local folder equal to the one in the bucket."""
        there = self.bucket.objects(self._name(folder))
        _each(there, self._get)
        for path in _files(folder):
            if self._name(path) not in there:
                path.unlink(missing_ok=True)

    def fetch_version(self, path: Path) -> str | None:
        """Download a file anew; returns its version, ``None`` if it is not in the bucket."""
        return self._get(self._name(path))

    def push_if(self, path: Path, version: str | None) -> bool:
        """Upload a file unless another host was first; returns whether it is in the bucket now.

        Args:
            version: What :meth:`fetch_version` returned before the file was changed.
        """
        return self.bucket.put_if(path, self._name(path), version)

    def fetch(self, paths: Iterable[Path]) -> None:
        """Download files anew; what is not in the bucket stays as it is."""
        _each(paths, lambda path: self._get(self._name(path)))

    def push_changing(self, path: Path) -> None:
        """Upload a file that may be replaced later, and note its version."""
        self.push([path])
        self._note(path, self.bucket.version(self._name(path)))

    def fetch_changed(self, path: Path) -> None:
        """Download a file if its version in the bucket is not the one transferred last."""
        name, noted = self._name(path), _note_of(path)
        if path.exists() and noted.exists() and noted.read_text(encoding="utf-8") == self.bucket.version(name):
            return
        self._note(path, self._get(name))

    def _note(self, path: Path, version: str | None) -> None:
        if version is not None:
            with replacing(_note_of(path)) as temporary:
                temporary.write_text(version, encoding="utf-8")

    def fetch_folder(self, folder: Path, last: str) -> bool:
        """Download a complete, immutable folder that is not here; returns whether it is here now."""
        if folder.exists():
            return True
        if self.bucket.version(self._name(folder / last)) is None:
            return False
        names = self.bucket.objects(self._name(folder))

        def fill(target: Path) -> None:
            def download(name: str) -> None:
                self._download(name, target / (self.root / name).relative_to(folder))

            _each(names, download)

        publish_folder(folder, fill)
        return True

    def discard(self, path: Path) -> None:
        """Delete a file in the bucket."""
        self.bucket.delete(self._name(path))

    def names(self, folder: Path) -> list[str]:
        """Return the names of the files in a folder of the bucket, in order; they need not be here."""
        return sorted(self.bucket.objects(self._name(folder)))

    def folders(self, folder: Path) -> list[str]:
        """Return the names of the folders in a folder of the bucket, in order; they need not be here."""
        return self.bucket.folders(self._name(folder))

    def _name(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    def _get(self, name: str) -> str | None:
        """Download an object to its place; returns its version, ``None`` when there is no such object."""
        try:
            with replacing(self.root / name) as temporary:
                version = self.bucket.get(name, temporary)
                if version is None:
                    raise FileNotFoundError(name)
        except FileNotFoundError:
            return None
        return version

    def _download(self, name: str, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if self.bucket.get(name, path) is None:
            raise StoreError(
                f"{self.bucket.url(name)} was deleted while it was read.",
                hint="Try again.",
                code=ErrorCode.STORE_FAILED,
            )


def _each(items: Iterable[A], do: Callable[[A], B]) -> list[B]:
    """Do something with each item, some at a time; the first error ends it."""
    todo = list(items)
    if len(todo) < 2:
        return [do(item) for item in todo]
    with ThreadPoolExecutor(min(AT_ONCE, len(todo)), thread_name_prefix="leadline-bucket") as threads:
        try:
            return list(threads.map(do, todo))
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            raise


def _note_of(path: Path) -> Path:
    """Return the file that says which version of a file is here."""
    return path.with_name(f".{path.name}.version")


def _files(folder: Path) -> list[Path]:
    """Return the files below a folder, but for hidden ones: temporary files, and what is of this host only."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return [path for path in found if not any(part.startswith(".") for part in path.relative_to(folder).parts)]


@cache
def _check(bucket: Bucket) -> None:
    """Look for the bucket once in a process: a listing of a bucket that does not exist is just empty."""
    bucket.check()
