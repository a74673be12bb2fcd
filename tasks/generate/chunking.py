"""Cutting a document into chunks at the places where a reader would pause.

A chunk is as long as it may be, and ends at the last heading in it; if there is none behind its first quarter, at the
last end of a paragraph, sentence, line or word behind its half, in this order. The next one begins a little before that
end (the overlap), at the beginning of a sentence or word, but never before a heading at which was cut.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from leadline.evaluators.core.error_codes import ErrorCode
from leadline.evaluators.core.errors import UsageError
from leadline.evaluators.text.sentences import Splitter
from leadline.tasks.generate.documents.document import Document
from leadline.tasks.generate.sizes import Ruler, Unit, ruler_for
from leadline.tasks.store.files import digest

FEWEST_LETTERS: Final = 30
"""Letters and digits below which a piece is no chunk: nothing can be asked about a page number."""

_PARAGRAPH: Final = re.compile(r"\n[^\S\n]{0,200}\n\s{0,200}")
_SPACE: Final = re.compile(r"\s")


@dataclass(frozen=True, slots=True)
class Cutting:
    """How long chunks are.

    Attributes:
        size: Longest chunk.
        overlap: How much of a chunk the next one repeats, at most; no more than a quarter of the size.
        unit: What both count.
    """

    size: int
    overlap: int
    unit: Unit = "characters"

    def __post_init__(self) -> None:
        if not 0 <= 4 * self.overlap <= self.size:
            raise UsageError(
                f"An overlap of {self.overlap} is more than a quarter of chunks of {self.size} {self.unit}.",
                hint="Give a smaller one: --overlap N",
                code=ErrorCode.GENERATE_CHUNKS,
            )


@dataclass(frozen=True, slots=True)
class DocumentChunk:
    """A piece of a document.

    Attributes:
        documents: The document, and others that hold the very same chunk.
        text: Its text, without white space around.
        start: Where it begins in the text of the (first) document, in characters.
        end: Where it ends.
        page: The page that it begins on, counted from 1; ``None`` where there are none.
        last_page: The page that it ends on.
        heading: Titles of the section that it begins in, the outermost first.
        digest: 32 hex digits that identify text and heading.
    """

    documents: tuple[str, ...]
    text: str
    start: int
    end: int
    page: int | None
    last_page: int | None
    heading: tuple[str, ...]
    digest: str

    @property
    def section(self) -> str:
        """The titles in one line."""
        return " > ".join(self.heading)

    def place(self) -> str:
        """Return where it is, for people."""
        page = f", page {self.page}" if self.page else ""
        return f"{self.documents[0]}{page}" + (f", {self.section}" if self.heading else f", character {self.start:,}")


def cut(document: Document, cutting: Cutting, splitter: Splitter) -> Iterator[DocumentChunk]:
    """Yield a document's chunks in order; pieces with hardly any letters are left out.

    Args:
        document: The document.
        cutting: How long chunks are.
        splitter: Splits sentences.
    """
    text = document.text
    cutter = _Cutter(document, cutting, splitter, ruler_for(text, cutting.unit))
    for start, end in cutter.spans():
        piece = text[start:end]
        if sum(map(str.isalnum, piece)) < FEWEST_LETTERS:
            continue
        begin = start + len(piece) - len(piece.lstrip())
        stop = begin + len(piece.strip())
        first, last = document.mark_at(begin), document.mark_at(stop - 1)
        yield DocumentChunk(
            documents=(document.uri,),
            text=text[begin:stop],
            start=begin,
            end=stop,
            page=first.page,
            last_page=last.page,
            heading=first.heading,
            digest=digest([text[begin:stop], list(first.heading)]),
        )


class _Cutter:
    """Finds where to cut one document."""

    def __init__(self, document: Document, cutting: Cutting, splitter: Splitter, ruler: Ruler) -> None:
        self._text = document.text
        self._sections = document.sections()
        self._cutting = cutting
        self._splitter = splitter
        self._ruler = ruler

    def spans(self) -> Iterator[tuple[int, int]]:
        """Yield where each chunk begins and ends."""
        at = 0
        while at < len(self._text):
            limit = self._ruler.reach(at, self._cutting.size)
            if limit >= len(self._text):
                yield at, len(self._text)
                return
            end = self._end(at, limit)
            yield at, end
            at = self._next(at, end)

    def _end(self, at: int, limit: int) -> int:
        """Return where the chunk that begins at a place ends."""
        quarter = max(at + 1, self._ruler.reach(at, self._cutting.size // 4))
        heading = _last(self._sections, quarter, limit)
        if heading is not None:
            return heading
        half = max(at + 1, self._ruler.reach(at, self._cutting.size // 2))
        paragraph = max((found.end() for found in _PARAGRAPH.finditer(self._text, half, limit)), default=None)
        if paragraph is not None:
            return paragraph
        sentence = _last(self._sentences(at, limit), half, limit)
        if sentence is not None:
            return sentence
        line = self._text.rfind("\n", half, limit)
        if line >= 0:
            return line + 1
        word = max((found.end() for found in _SPACE.finditer(self._text, half, limit)), default=None)
        return max(at + 1, limit if word is None else word)

    def _next(self, at: int, end: int) -> int:
        """Return where the chunk behind one begins."""
        place = bisect_left(self._sections, end)
        if not self._cutting.overlap or (place < len(self._sections) and self._sections[place] == end):
            return end
        least = max(at + 1, self._ruler.back(end, self._cutting.overlap))
        starts = [start for start in self._sentences(at, end) if start >= least]
        if starts:
            return starts[0]
        space = _SPACE.search(self._text, least, end)
        return space.end() if space else end

    def _sentences(self, at: int, end: int) -> list[int]:
        """Return where the sentences of a piece begin."""
        return [at + found.start for found in self._splitter.split(self._text[at:end])]


def _last(places: Sequence[int], low: int, high: int) -> int | None:
    """Return the last of ordered places within limits, both included."""
    index = bisect_right(places, high) - 1
    return places[index] if index >= 0 and places[index] >= low else None
