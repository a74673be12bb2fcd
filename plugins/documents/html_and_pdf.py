"""Reading web pages and PDF: what a reader sees of them, with their headings, pages and sections.

The standard library's parser reads any tag soup, but takes quadratic time for some that is made on purpose; that is why
:mod:`.sandbox` reads pages in a process with a deadline.
"""

from __future__ import annotations

import codecs
import logging
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from leadline.tasks.generate.documents import MOST_TITLE, Document, Headings, Mark, Unreadable, decode, with_start

if TYPE_CHECKING:
    from pypdf import PdfReader


UNSEEN: Final = frozenset(
    "script style template noscript svg math iframe object head nav select textarea audio video canvas".split()
)
"""Elements whose text is code, is not shown, or leads elsewhere."""

_BLOCKS: Final = frozenset(
    "address article aside blockquote body caption dd details dialog div dl dt fieldset figcaption figure footer form "
    "header hgroup hr li main menu ol p pre search section summary table tbody td tfoot th thead tr ul".split()
)
_PARAGRAPHS: Final = frozenset("p pre table ul ol dl blockquote article section".split())
_HEADINGS: Final = {f"h{level}": level for level in range(1, 7)}
_CHARSET: Final = re.compile(rb"<meta[^>]{0,500}?charset=[\"']?([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_HEAD_BYTES: Final = 4_096
_SPACE: Final = re.compile(r"[^\S\n]+")
_ANY_SPACE: Final = re.compile(r"\s+")
_CODECS: Final = re.compile(r"(utf|iso|cp|mac|big5|gb|euc|shift|koi|latin|ascii|kz|tis|hz|johab)[a-z0-9_-]*")
MOST_TEXT: Final = 64 * 1024 * 1024
"""Characters of a document's text."""

MOST_PAGES: Final = 20_000
_DEEPEST: Final = 6
_MOST_ENTRIES: Final = 20_000


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


def read_page(uri: str, data: bytes, encoding: str | None = None) -> Document:
    """Read a page.

    Args:
        uri: Its name.
        encoding: How they are encoded; by default what the page says of itself, else UTF-8.

    Raises:
        Unreadable: The bytes are no text of that encoding.
    """
    reader = _HtmlReader()
    reader.feed(decode(data, encoding or _declared(data)))
    reader.close()
    return reader.document(uri)


def _declared(data: bytes) -> str:
    """Return the encoding that a page declares, UTF-8 where it declares none that is known."""
    found = _CHARSET.search(data[:_HEAD_BYTES])
    if not found:
        return "utf-8"
    try:
        name = codecs.lookup(found[1].decode("ascii")).name
    except LookupError:
        return "utf-8"
    if name.startswith("utf-16"):
        return "utf-8"  # as the HTML standard has it: a page whose declaration can be read is not UTF-16
    name = "cp1252" if name in ("iso8859-1", "ascii") else name  # as browsers do
    return name if _CODECS.fullmatch(name) else "utf-8"


class _HtmlReader(HTMLParser):
    """Collects the text that is shown, a line per block, a blank line between paragraphs."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._draft = DocumentDraft()
        self._headings = Headings()
        self._unseen = ""
        self._depth = 0
        self._preformatted = 0
        self._title: list[str] | None = None
        self._heading: tuple[int, list[str]] | None = None
        self._line: list[str] = []
        self._gap = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin an element."""
        if tag == "title":
            self._title = []
        if self._unseen:
            if tag == "body" and self._unseen == "head":
                self._unseen = ""
            else:
                self._depth += tag == self._unseen
                return
        if tag in UNSEEN:
            self._unseen, self._depth = tag, 1
        elif tag in _HEADINGS:
            self._end_line("\n\n")
            self._heading = (_HEADINGS[tag], [])
        elif tag == "br":
            self._end_line("\n")
        elif tag in ("td", "th"):
            if any(piece.strip() for piece in self._line):
                self._line.append(" | ")
        elif tag in _BLOCKS:
            self._end_line("\n\n" if tag in _PARAGRAPHS else "\n")
            if tag == "li":
                self._line.append("- ")
            self._preformatted += tag == "pre"

    def handle_endtag(self, tag: str) -> None:
        """End an element."""
        if tag == "title" and self._title is not None:
            self._headings.enter(0, "".join(self._title))
            self._draft.mark(None, self._headings.path)
            self._title = None
        if self._unseen:
            self._depth -= tag == self._unseen
            if not self._depth:
                self._unseen = ""
            return
        if tag in _HEADINGS and self._heading:
            self._end_heading()
        elif tag in _BLOCKS and tag not in ("td", "th"):
            self._end_line("\n\n" if tag in _PARAGRAPHS else "\n")
            self._preformatted -= tag == "pre" and self._preformatted > 0

    def handle_data(self, data: str) -> None:
        """Take text."""
        if self._title is not None:
            self._title.append(data)
        if self._unseen:
            return
        if self._heading:
            self._heading[1].append(data)
        self._line.append(data if self._preformatted else _ANY_SPACE.sub(" ", data))

    def document(self, uri: str) -> Document:
        """Return the page."""
        self._end_line("\n")
        return self._draft.document(uri)

    def _end_heading(self) -> None:
        level, pieces = self._heading or (1, [])
        self._heading = None
        self._headings.enter(level, "".join(pieces))
        if self._draft.length:
            self._draft.add(self._gap)
            self._gap = ""
        self._draft.mark(None, self._headings.path)
        self._end_line("\n\n")

    def _end_line(self, gap: str) -> None:
        """End a line; what follows is set off by the widest gap that was asked for since the last one."""
        text = "".join(self._line)
        text = text.strip("\n") if self._preformatted else _SPACE.sub(" ", text).strip()
        self._line.clear()
        if text.strip(" -|"):
            if self._draft.length:
                self._draft.add(self._gap)
            self._draft.add(text.rstrip())
            self._gap = gap
        elif len(gap) > len(self._gap):
            self._gap = gap


def read_pages(path: Path) -> Iterator[tuple[str, int, tuple[str, ...]]]:
    """Yield the text of each page with its number, counted from 1, and the section that it begins in.

    Raises:
        Unreadable: It is no PDF, broken, encrypted, or has too many pages; or ``pypdf`` is not installed.
    """
    try:
        import pypdf
    except ImportError:
        raise Unreadable("PDF needs the package pypdf: pip install -c constraints.txt -e '.[generate]'") from None
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    with path.open("rb") as file:
        if b"%PDF-" not in file.read(1024):
            raise Unreadable("it is no PDF")
        try:
            reader = pypdf.PdfReader(file)
            _unlock(reader)
            count = len(reader.pages)
        except Unreadable:
            raise
        except Exception as error:  # a hostile file makes the library fail in any way
            raise Unreadable(f"it is a broken PDF: {_summary(error)}") from None
        if count > MOST_PAGES:
            raise Unreadable(f"it has {count:,} pages; at most {MOST_PAGES:,} are read")
        sections = _sections(reader)
        heading: tuple[str, ...] = ()
        for number in range(count):
            heading = sections.get(number, heading)
            try:
                text = reader.pages[number].extract_text()
            except Exception as error:
                raise Unreadable(f"page {number + 1} cannot be read: {_summary(error)}") from None
            yield decode(text.encode("utf-8", "replace").replace(b"\0", b" ")), number + 1, heading


def _unlock(reader: PdfReader) -> None:
    """Open a file that is encrypted without a password, as many are to forbid printing only."""
    if reader.is_encrypted and not reader.decrypt(""):
        raise Unreadable("it is encrypted; save it without its password")


def _sections(reader: PdfReader) -> dict[int, tuple[str, ...]]:
    """Return the titles of the section that is open at each page at which the outline names one."""
    try:
        entries = list(_entries(reader, reader.outline, 1))
    except Exception:  # an outline is a help for readers; the text does without
        return {}
    headings = Headings()
    found = {}
    for page, level, title in sorted(entries, key=lambda entry: entry[0]):
        headings.enter(level, title)
        found[page] = headings.path
    return found


def _entries(reader: PdfReader, outline: Any, level: int) -> Iterator[tuple[int, int, str]]:
    for entry in outline[:_MOST_ENTRIES]:
        if isinstance(entry, list):
            if level < _DEEPEST:
                yield from _entries(reader, entry, level + 1)
            continue
        page = reader.get_destination_page_number(entry)
        if page is not None and page >= 0:
            yield page, level, str(entry.title)[:MOST_TITLE]


def _summary(error: Exception) -> str:
    return " ".join(f"{error}".split())[:200] or type(error).__name__
