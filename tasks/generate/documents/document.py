"""A document after reading: one text, and marks where its pages and sections begin."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

from leadline.evaluators.ground import ErrorCode, LeadlineError, count

MOST_TITLE: Final = 200
"""Characters of a heading that are kept."""

MOST_TEXT: Final = 64 * 1024 * 1024
"""Characters of a document's text."""

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


class DocumentDraft:
    """A document's text while it is put together."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._marks: list[Mark] = []
        self.length = 0

    def mark(self, page: int | None, heading: tuple[str, ...]) -> None:
        """Set the page and section of the text that follows.

        Args:
            page: Number of the page; ``None`` where the document has no pages.
            heading: Titles of the open sections, the outermost first.
        """
        if self._marks and self._marks[-1].start == self.length:
            self._marks.pop()
        self._marks.append(Mark(self.length, page, heading))

    def add(self, piece: str) -> None:
        """Add text.

        Raises:
            Unreadable: The document becomes too long.
        """
        self.length += len(piece)
        if self.length > MOST_TEXT:
            raise Unreadable(f"its text has more than {MOST_TEXT:,} characters; split it")
        self._pieces.append(piece)

    def document(self, uri: str) -> Document:
        """Return what was put together."""
        return Document(uri, "".join(self._pieces), with_start(self._marks))


def with_start(marks: Iterable[Mark]) -> tuple[Mark, ...]:
    """Return marks of which the first one is at 0."""
    known = tuple(marks)
    return known if known and known[0].start == 0 else (Mark(0, known[0].page if known else None), *known)
