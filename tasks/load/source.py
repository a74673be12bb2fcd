"""The file that is loaded: what it is, and what identifies its content."""

from __future__ import annotations

import hashlib
import io
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from leadline.evaluators.ground.error_codes import ErrorCode
from leadline.evaluators.ground.errors import DatasetError, Fault, UsageError
from leadline.evaluators.ground.paths import from_home
from leadline.tasks.load.limits import MIB

BOM: Final = b"\xef\xbb\xbf"
_HEAD: Final = MIB
_DATE: Final = r"(?:19|20)\d\d(?:[-_.]?(?:0[1-9]|1[0-2])(?:[-_.]?(?:0[1-9]|[12]\d|3[01]))?|-?W[0-5]\d(?:-?[1-7])?)"
_DAY_FIRST: Final = r"(?:0[1-9]|[12]\d|3[01])[-_.](?:0[1-9]|[12]\d|3[01])[-_.](?:19|20)\d\d"
_TIME: Final = r"(?:[T_\s-]?(?:[01]\d|2[0-3])[-_.:]?[0-5]\d(?:[-_.:]?[0-5]\d(?:[.,_]?\d{3,6})?)?(?:Z|[+-]\d\d:?\d\d)?)"
_STAMP: Final = re.compile(
    rf"[-_.\s]*(?<![0-9A-Za-z])(?:(?:{_DATE}|{_DAY_FIRST}){_TIME}?|1\d{{9}}(?:\d{{3}})?)(?![0-9A-Za-z])"
)
"""A date with or without a time, or seconds or milliseconds since 1970."""
_COPY: Final = re.compile(r"\s*\(\d+\)$")
"""What systems add to the name of a second download."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A readable, non-empty regular file.

    Attributes:
        name: The file as the user named it.
        size: Its size in bytes.
        changed: When it was last written, in nanoseconds, to notice a change while it is read.
        head: Its first bytes, at most a mebibyte, without a byte order mark.
        opened: The file, open; ``None`` for a folder.
        parts: The files that it names, each with the key of its model or "", see :mod:`.load.coco_source`.
        content: What is read in its place where it is a folder.
    """

    path: Path
    name: str
    size: int
    changed: int
    head: bytes
    opened: OpenFile | None = None
    parts: tuple[tuple[str, SourceFile], ...] = ()
    content: bytes | None = None

    @classmethod
    def at(cls, path: str | os.PathLike[str]) -> SourceFile:
        """Look at a file.

        Raises:
            DatasetError: It is missing, no regular file, unreadable or empty.
        """
        name = os.fspath(path)
        target = located(path)
        try:
            status = target.stat()
        except (OSError, ValueError) as error:
            raise _refused(name, _reason(error)) from None
        if not stat.S_ISREG(status.st_mode):
            kind = "a folder" if stat.S_ISDIR(status.st_mode) else "no regular file"
            raise _refused(name, f"this is {kind}; a dataset is one file")
        try:
            opened = OpenFile(target)
            status = os.fstat(opened.number)
            head = opened.reader().read(_HEAD).removeprefix(BOM)
        except OSError as error:
            raise _refused(name, _reason(error)) from None
        if not head.strip():
            empty = status.st_size <= _HEAD
            raise _refused(name, "the file is empty" if empty else "the file begins with a mebibyte of blanks")
        return cls(target, name, status.st_size, status.st_mtime_ns, head, opened)

    def open(self) -> BinaryIO:
        """Open the file for reading, behind its byte order mark."""
        if self.opened is None:
            return io.BytesIO(self.content or b"")
        file = self.opened.reader()
        if file.read(len(BOM)) != BOM:
            file.seek(0)
        return file

    @property
    def total_size(self) -> int:
        """Bytes of the file and of those that it names."""
        return self.size + sum(part.size for _, part in self.parts)

    def fingerprint(self) -> str:
        """Return the SHA-256 of the file's bytes, and of those of the files that it names."""
        with io.BytesIO(self.content or b"") if self.opened is None else self.opened.reader() as file:
            own = hashlib.file_digest(file, "sha256").hexdigest()
        others = [f"{key}={part.fingerprint()}" for key, part in self.parts]
        return hashlib.sha256("\n".join([own, *others]).encode()).hexdigest() if others else own

    def ensure_unchanged(self) -> None:
        """Refuse a file that was written to since it was first looked at; one that took its name since is another."""
        for _, part in self.parts:
            part.ensure_unchanged()
        if self.opened is None:
            return
        status = os.fstat(self.opened.number)
        if (status.st_size, status.st_mtime_ns) != (self.size, self.changed):
            raise _refused(self.name, "the file changed while it was read; load it again when it is complete")


class OpenFile:
    """A file that is open as long as somebody refers to it, so that no other is read when another takes its name."""

    def __init__(self, path: Path) -> None:
        self.number = os.open(path, os.O_RDONLY)

    def __del__(self) -> None:
        if "number" in self.__dict__:
            os.close(self.number)

    def reader(self) -> io.BufferedReader:
        """Return a reader of the whole file with a position of its own."""
        return io.BufferedReader(_Positioned(self), MIB)


class _Positioned(io.RawIOBase):
    """A position in an open file that others read too."""

    def __init__(self, file: OpenFile) -> None:
        self._file = file
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = (0, self._at, os.fstat(self._file.number).st_size)[whence]
        if start + offset < 0:
            raise ValueError(f"there is no position {start + offset}")
        self._at = start + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        data = os.pread(self._file.number, len(buffer), self._at)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def undated(stem: str) -> str:
    """Return a file's name without date and time, so that the files of all nights have one; ``""`` if nothing is left.

    ``answers-2026-11-22`` is ``answers``.
    """
    name = _COPY.sub("", _STAMP.sub("", stem)).strip(" -_.")
    return name if any(letter.isalpha() for letter in name) else ""


def located(path: str | os.PathLike[str]) -> Path:
    """Return the place of a file that a user named.

    Raises:
        DatasetError: It begins with the home folder of nobody.
    """
    try:
        return from_home(path)
    except UsageError:
        raise _refused(os.fspath(path), f"the home folder of {Path(path).parts[0]} is not known") from None


def _refused(name: str, message: str) -> DatasetError:
    return DatasetError([Fault(name, None, "", message)], code=ErrorCode.DATA_UNREADABLE)


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    return f"the file cannot be read: {getattr(error, 'strerror', None) or error}"
