"""Documents: finding their files, and reading each as one text with marks where its pages and sections begin.

Text and Markdown are read here, PDF and HTML by plug-ins: entry points ``pdf`` and ``html`` of the group
``leadline.documents``, each a class whose instances are context managers with a method ``read(file, encoding)``.
"""

from __future__ import annotations

import codecs
import os
import re
import stat
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Final

from leadline.evaluators.ground import ErrorCode, LeadlineError, UsageError, count, from_home
from leadline.evaluators.ground.packages import loaded

READERS: Final = "leadline.documents"
"""Group of the entry points of what reads PDF and HTML."""

MIB: Final = 1024 * 1024
MOST_FILES: Final = 100_000

MOST_TITLE: Final = 200
"""Characters of a heading that are kept."""

MOST_FAULTS: Final = 50
"""Faults that are listed; the others are counted."""

_SPELT: Final = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))}
_TURNING: Final = {code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F)}


class Unreadable(Exception):
    """A file cannot be read as what it claims to be; the text says why, for its owner."""


class DocumentsError(LeadlineError):
    """Documents were refused before anything was asked; carries every fault found, in the order of the files."""

    code = ErrorCode.GENERATE_DOCUMENTS

    exit_code: ClassVar[int] = 2

    def __init__(self, faults: Sequence[str]) -> None:
        total = len(faults)
        lines = [f"The documents were refused: {count(total, 'fault')}."]
        lines += [f"  {fault}" for fault in faults[:MOST_FAULTS]]
        if total > MOST_FAULTS:
            lines.append(f"  and {total - MOST_FAULTS} more like these")
        super().__init__("\n".join(lines))
        self.faults = tuple(faults)


def legible(name: str) -> str:
    """Return a file's name for a message: control and direction characters are spelt out."""
    return name.translate(_SPELT | _TURNING)


@dataclass(frozen=True, slots=True)
class Mark:
    """A place at which a page or a section begins.

    Attributes:
        start: Its offset in the text, in characters.
        page: The page, counted from 1; ``None`` for what has no pages.
        heading: Titles of the section and of those around it, the outermost first.
    """

    start: int
    page: int | None = None
    heading: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Document:
    """A document.

    Attributes:
        uri: How it is named in the dataset.
        text: Its text; lines end with a line feed.
        marks: Where pages and sections begin, in the order of the text, the first one at 0.
    """

    uri: str
    text: str
    marks: tuple[Mark, ...]

    def mark_at(self, offset: int) -> Mark:
        """Return the mark in force at an offset."""
        return self.marks[bisect_right(self.marks, offset, key=lambda mark: mark.start) - 1]

    def sections(self) -> list[int]:
        """Return the offsets at which a section begins, in order, without 0."""
        pairs = zip(self.marks, self.marks[1:], strict=False)
        return [after.start for before, after in pairs if before.heading != after.heading]


@dataclass
class Headings:
    """The section that a reader is in."""

    _open: list[tuple[int, str]] = field(default_factory=list)

    def enter(self, level: int, title: str) -> None:
        """Begin a section; one of an equal or lower level ends.

        Args:
            level: 1 for the outermost.
            title: Its title; white space is normalised.
        """
        while self._open and self._open[-1][0] >= level:
            self._open.pop()
        plain = " ".join(title.split())[:MOST_TITLE]
        if plain and plain not in self.path:  # a page's title is often its first heading
            self._open.append((level, plain))

    @property
    def path(self) -> tuple[str, ...]:
        """Titles of the open sections, the outermost first."""
        return tuple(title for _, title in self._open)


def with_start(marks: Iterable[Mark]) -> tuple[Mark, ...]:
    """Return marks of which the first one is at 0."""
    known = tuple(marks)
    return known if known and known[0].start == 0 else (Mark(0, known[0].page if known else None), *known)


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
        uri: How it is named in the dataset: the last part of the argument that led to it, and the path below that.
    """

    path: Path
    uri: str
    kind: DocumentKind


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
        found.files.append(File(path, uri, kind))


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


_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_LONGEST_HEADING: Final = 1_000
_ATX: Final = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(\S.*))?")
_UNDERLINE: Final = re.compile(r" {0,3}(=+|-{2,})[ \t]*")
_LINE: Final = re.compile(r"^.*$", re.MULTILINE)
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_NO_PARAGRAPH: Final = ("#", ">", "|", "-", "*", "+", "`", "~", "    ", "\t")


def decode(data: bytes, encoding: str = "utf-8") -> str:
    """Return the text of a file's bytes; a byte order mark outweighs the encoding. Lines end with a line feed.

    Raises:
        Unreadable: The bytes are no text of that encoding.
    """
    for bom, of_bom in _BOMS:
        if data.startswith(bom):
            data, encoding = data[len(bom) :], of_bom
            break
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise Unreadable(
            f"it is no {encoding.upper()} text (byte {error.start:,}); convert it, or say what it is: --encoding NAME"
        ) from None
    except LookupError:
        raise Unreadable(f"there is no encoding {encoding!r}") from None
    if "\0" in text:
        raise Unreadable("it holds NUL characters; it is no text")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_markdown(uri: str, text: str) -> Document:
    """Read Markdown: headings in both styles begin sections, but not inside code. Front matter is blanked out."""
    body = _without_front_matter(text)
    headings = Headings()
    marks = []
    for start, level, title in _headings(body):
        headings.enter(level, title)
        marks.append(Mark(start, None, headings.path))
    return Document(uri, body, with_start(marks))


def _without_front_matter(text: str) -> str:
    """Blank out a YAML header, so that places in the text stay the same."""
    if not text.startswith("---\n"):
        return text
    end = text.find("\n---\n", 3)
    return text if end < 0 else re.sub(r"[^\n]", " ", text[: end + 5]) + text[end + 5 :]


def _headings(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield offset, level and title of each heading."""
    fence = ""
    before, before_at = "", 0
    for found in _LINE.finditer(text):  # one at a time: a file may be millions of lines
        at, line = found.start(), found[0]
        opened = _FENCE.match(line)
        if fence:
            if opened and opened[1].startswith(fence) and not line.strip(" \t" + fence[0]):
                fence = ""
            before = ""
            continue
        if opened:
            fence, before = opened[1], ""
            continue
        atx = _ATX.fullmatch(line) if len(line) <= _LONGEST_HEADING else None
        if atx:
            yield at, len(atx[1]), _without_closing_marks(atx[2] or "")
            before = ""
            continue
        underline = _UNDERLINE.fullmatch(line) if before and len(line) <= _LONGEST_HEADING else None
        if underline:
            yield before_at, 1 if underline[1][0] == "=" else 2, before
            before = ""
            continue
        is_paragraph = line.strip() and len(line) <= _LONGEST_HEADING and not line.startswith(_NO_PARAGRAPH)
        before, before_at = (line, at) if is_paragraph else ("", at)


def _without_closing_marks(title: str) -> str:
    stripped = title.rstrip()
    bare = stripped.rstrip("#")
    return bare if bare != stripped and bare.endswith((" ", "\t")) else stripped


def read_documents(
    files: Sequence[File], faults: list[str], warnings: list[str], *, encoding: str | None = None
) -> Iterator[Document]:
    """Yield the documents that can be read and contain text.

    Args:
        faults: Gets a line for each file that cannot be read.
        warnings: Gets a line for each file without text.
        encoding: How text and HTML without a byte order mark are encoded; by default what an HTML file says of itself,
            else UTF-8.
    """
    with ExitStack() as open_readers:
        readers: dict[Any, Any] = {}
        for file in files:
            try:
                document = _read(file, encoding, readers, open_readers)
            except Unreadable as error:
                faults.append(f"{legible(file.uri)}: {error}")
            except OSError as error:
                faults.append(f"{legible(file.uri)}: it cannot be read: {error.strerror or error}")
            else:
                if document.text.strip():
                    yield document
                else:
                    hint = " (if its pages are pictures, run OCR on it)" if file.kind == DocumentKind.PDF else ""
                    warnings.append(f"{legible(file.uri)} holds no text{hint}; it was left out.")


def _read(file: File, encoding: str | None, readers: dict[Any, Any], open_readers: ExitStack) -> Document:
    if file.kind in (DocumentKind.PDF, DocumentKind.HTML):
        reader = loaded(READERS, file.kind.lower())
        if reader is None:
            raise Unreadable(f"{file.kind} is read by the plug-in plugins/documents: install Leadline again")
        if reader not in readers:  # one may be for both kinds
            readers[reader] = open_readers.enter_context(reader())
        document: Document = readers[reader].read(file, encoding)
        return document
    text = decode(file.path.read_bytes(), encoding or "utf-8")
    return read_markdown(file.uri, text) if file.kind == DocumentKind.MARKDOWN else Document(file.uri, text, (Mark(0),))
