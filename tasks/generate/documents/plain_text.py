"""Reading plain text and Markdown: the text as it stands, with a mark where a section begins."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import Final

from leadline.tasks.generate.documents.document import Document, Headings, Mark, Unreadable, with_start

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
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_NO_PARAGRAPH: Final = ("#", ">", "|", "-", "*", "+", "`", "~", "    ", "\t")


def decode(data: bytes, encoding: str = "utf-8") -> str:
    """Return the text of a file's bytes; a byte order mark outweighs the encoding. Lines end with a line feed.

    Args:
        data: Content of the file.
        encoding: Name of the encoding, as Python knows it.

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


def read_plain(uri: str, text: str) -> Document:
    """Read plain text, which has no sections.

    Args:
        uri: Address of the document.
    """
    return Document(uri, text, (Mark(0),))


def read_markdown(uri: str, text: str) -> Document:
    """Read Markdown: headings in both styles begin sections, but not inside code. Front matter is blanked out.

    Args:
        uri: Address of the document.
        text: Its text in Markdown.
    """
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
    for at, line in _lines(text):
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


def _lines(text: str) -> Iterator[tuple[int, str]]:
    at = 0
    while at < len(text):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        yield at, text[at:end]
        at = end + 1
