"""The search for documents: named files, and files of known kinds in named folders."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Final

from leadline.evaluators.ground import UsageError, from_home
from leadline.tasks.generate.documents.document import legible

MIB: Final = 1024 * 1024
MOST_FILES: Final = 100_000


class DocumentKind(StrEnum):
    """The kind of a file, which decides how it is read."""

    PDF = "PDF"
    MARKDOWN = "Markdown"
    HTML = "HTML"
    TEXT = "text"


ENDINGS: Final = {
    ".pdf": DocumentKind.PDF,
    ".md": DocumentKind.MARKDOWN,
    ".markdown": DocumentKind.MARKDOWN,
    ".html": DocumentKind.HTML,
    ".htm": DocumentKind.HTML,
    ".xhtml": DocumentKind.HTML,
    ".txt": DocumentKind.TEXT,
    ".text": DocumentKind.TEXT,
    ".rst": DocumentKind.TEXT,
}

LARGEST: Final = {
    DocumentKind.PDF: 512 * MIB,
    DocumentKind.MARKDOWN: 64 * MIB,
    DocumentKind.HTML: 64 * MIB,
    DocumentKind.TEXT: 64 * MIB,
}
"""Bytes of a file by its kind."""


@dataclass(frozen=True, slots=True)
class File:
    """A file that is a document.

    Attributes:
        path: Where it is.
        uri: How it is named in the dataset: the last part of the argument that led to it, and the path below that.
        kind: How it is read.
        size: Bytes.
        changed: When it was last written, in nanoseconds.
    """

    path: Path
    uri: str
    kind: DocumentKind
    size: int
    changed: int


@dataclass
class FoundFiles:
    """The files that were found for the arguments.

    Attributes:
        files: The documents, in the order of the arguments, a folder's in the order of their names.
        faults: What is wrong with arguments and files, one line each.
        passed_over: Number of files of other kinds, by ending.
        links: Number of symbolic links in folders, which are not followed.
    """

    files: list[File] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    passed_over: Counter[str] = field(default_factory=Counter)
    links: int = 0

    def warnings(self) -> list[str]:
        """Return what is worth knowing and no fault."""
        out = []
        if self.passed_over:
            kinds = ", ".join(f"{count} {legible(ending)}" for ending, count in self.passed_over.most_common(6))
            out.append(f"Files of other kinds were passed over: {kinds}.")
        if self.links:
            out.append(f"Symbolic links in folders were not followed: {self.links}. Name their targets to read them.")
        return out


def find_files(arguments: Sequence[str | os.PathLike[str]], prefix: str = "") -> FoundFiles:
    """Return the documents that arguments name.

    Folders are searched at any depth. Hidden files and folders in them are passed over, as are files of other kinds;
    a symbolic link in a folder is not followed, since it can lead anywhere, one that is an argument itself is.

    Args:
        arguments: Files and folders.
        prefix: Put before every ``uri``.
    """
    found = FoundFiles()
    for argument in arguments:
        _find(Path(argument), prefix, found)
    _refuse_repeats(found)
    return found


def _find(argument: Path, prefix: str, found: FoundFiles) -> None:
    try:
        path = from_home(argument)
        status = path.stat()
    except UsageError as error:
        found.faults.append(legible(error.message))
        return
    except (OSError, ValueError) as error:
        missing = isinstance(error, FileNotFoundError)
        reason = "there is no such file" if missing else f"it cannot be read: {_reason(error)}"
        found.faults.append(f"{legible(str(argument))}: {reason}")
        return
    if stat.S_ISDIR(status.st_mode):
        before = len(found.files)
        for file in _walk(path, found):
            _take(file, _uri(path, file, prefix), found, named=False)
            if len(found.files) > MOST_FILES:
                found.faults.append(f"{legible(str(argument))}: it holds more than {MOST_FILES:,} documents")
                return
        if len(found.files) == before:
            found.faults.append(f"{legible(str(argument))}: there is no {_kinds()} in this folder")
    else:
        _take(path, prefix + _decoded(path.name), found, named=True)


def _walk(folder: Path, found: FoundFiles) -> Iterator[Path]:
    """Yield the files below a folder in the order of their names, links and hidden ones left out."""
    failures: list[OSError] = []
    for parent, folders, names in os.walk(folder, onerror=failures.append):
        linked = [name for name in folders if Path(parent, name).is_symlink()]
        found.links += len(linked)
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in linked)
        for name in sorted(names):
            path = Path(parent, name)
            if name.startswith("."):
                continue
            if path.is_symlink():
                found.links += 1
            else:
                yield path
    for error in failures:
        found.faults.append(f"{legible(str(error.filename))}: it cannot be read: {_reason(error)}")


def _take(path: Path, uri: str, found: FoundFiles, *, named: bool) -> None:
    """Take a file for a document if it is one; an unknown kind is a fault only where it was named."""
    kind = ENDINGS.get(path.suffix.lower())
    if kind is None:
        if named:
            found.faults.append(f"{legible(uri)}: it is no {_kinds()}, by its ending")
        else:
            found.passed_over[_decoded(path.suffix.lower()) or "without ending"] += 1
        return
    try:
        status = path.stat()
    except OSError as error:
        found.faults.append(f"{legible(uri)}: it cannot be read: {_reason(error)}")
        return
    if not stat.S_ISREG(status.st_mode):
        found.faults.append(f"{legible(uri)}: it is no regular file")
    elif status.st_size > LARGEST[kind]:
        found.faults.append(
            f"{legible(uri)}: it has {status.st_size / MIB:,.0f} MiB; a {kind} file may have {LARGEST[kind] // MIB}"
        )
    else:
        found.files.append(File(path, uri, kind, status.st_size, status.st_mtime_ns))


def _refuse_repeats(found: FoundFiles) -> None:
    """Refuse two files under one name; one file that several arguments lead to is taken once."""
    by_uri: dict[str, File] = {}
    for file in found.files:
        first = by_uri.setdefault(file.uri, file)
        if first is not file and first.path.resolve() != file.path.resolve():
            where = legible(f"{first.path} and {file.path}")
            found.faults.append(
                f"{where}: both would be {legible(file.uri)!r} in the dataset; name a folder above them"
            )
    found.files = list(by_uri.values())


def _uri(folder: Path, file: Path, prefix: str) -> str:
    below = PurePosixPath(file.relative_to(folder).as_posix())
    top = "" if folder.name in ("", "..") else folder.name
    return prefix + _decoded(str(PurePosixPath(top) / below))


def _decoded(name: str) -> str:
    """Return a file's name as text; bytes that are no UTF-8 are spelt out."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _kinds() -> str:
    return f"PDF, Markdown, HTML or text file ({' '.join(ENDINGS)})"


def _reason(error: OSError | ValueError) -> str:
    return getattr(error, "strerror", None) or str(error)
