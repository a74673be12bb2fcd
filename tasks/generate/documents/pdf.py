"""Reading PDF: the text of each page, and the sections that the file's outline names."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from leadline.tasks.generate.documents.document import MOST_TITLE, Headings, Unreadable
from leadline.tasks.generate.documents.plain_text import decode

if TYPE_CHECKING:
    from pypdf import PdfReader

MOST_PAGES: Final = 20_000
_DEEPEST: Final = 6
_MOST_ENTRIES: Final = 20_000


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
