"""Cutting documents into chunks where a reader would pause, and drawing those that are asked about.

A chunk is as long as it may be, and ends at the last heading in it; if there is none behind its first quarter, at the
last end of a paragraph, sentence, line or word behind its half, in this order. The next one begins a little before that
end (the overlap), at the beginning of a sentence or word, but never before a heading at which was cut.
"""

from __future__ import annotations

import heapq
import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final, Literal, TypeAlias

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.evaluators.judge_client.calls import JudgeRefused
from leadline.evaluators.judge_client.litellm_transport import litellm
from leadline.evaluators.text.sentences import Splitter, without_surrogates
from leadline.tasks.generate.documents import Document, DocumentsError, FoundFiles, read_documents
from leadline.tasks.ground.files import digest

Unit: TypeAlias = Literal["characters", "tokens"]

_WINDOW: Final = 4_096
"""Characters that are split into tokens at a time: the tokenizer takes quadratic time for long words."""

FEWEST_LETTERS: Final = 30
"""Letters and digits below which a piece is left out: nothing can be asked about a page number."""

_PARAGRAPH: Final = re.compile(r"\n[^\S\n]{0,200}\n\s{0,200}")
_SPACE: Final = re.compile(r"\s")
MOST_CHARACTERS: Final = 256 * 1024 * 1024
"""Characters of all chunks together; they are in memory."""


@dataclass(frozen=True, slots=True)
class Cutting:
    """The length of chunks.

    Attributes:
        size: Longest chunk.
        overlap: How much of a chunk the next one repeats, at most; no more than a quarter of the size.
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
        documents: The document, and others that contain the very same chunk.
        text: Its text, without white space around.
        start: Where it begins in the text of the (first) document, in characters.
        page: The page that it begins on, counted from 1; ``None`` where there are none.
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
        """Return its place in words."""
        page = f", page {self.page}" if self.page else ""
        return f"{self.documents[0]}{page}" + (f", {self.section}" if self.heading else f", character {self.start:,}")


def cut(document: Document, cutting: Cutting, splitter: Splitter) -> Iterator[DocumentChunk]:
    """Yield a document's chunks in order; pieces with hardly any letters are left out."""
    text = document.text
    for start, end in _Cutter(document, cutting, splitter).spans():
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
    """Finds the places to cut one document at."""

    def __init__(self, document: Document, cutting: Cutting, splitter: Splitter) -> None:
        self._text = document.text
        self._sections = document.sections()
        self._cutting = cutting
        self._splitter = splitter
        self._ruler = _Ruler(document.text, cutting.unit)

    def spans(self) -> Iterator[tuple[int, int]]:
        """Yield the beginning and the end of each chunk."""
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
        """Return the end of the chunk that begins at a place."""
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
        """Return the beginning of the chunk that follows one."""
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
        """Return the beginnings of the sentences of a piece."""
        return [at + found.start for found in self._splitter.split(self._text[at:end])]


def _last(places: Sequence[int], low: int, high: int) -> int | None:
    """Return the last of ordered places within limits, both included."""
    index = bisect_right(places, high) - 1
    return places[index] if index >= 0 and places[index] >= low else None


class _Ruler:
    """Measures a text in characters, or in tokens of ``cl100k_base``, for every judge, so that chunks depend on none.

    Source: the encoding of OpenAI's gpt-4, which LiteLLM carries with it; LlamaIndex's splitters count by it, too.

    Raises:
        UsageError: Tokens cannot be counted here.
    """

    def __init__(self, text: str, unit: Unit) -> None:
        self._starts: array[int] | None = None
        if unit == "tokens":
            encoding, plain = _encoding(), without_surrogates(text)
            self._end = len(plain)
            self._starts = array("q")
            for at in range(0, len(plain), _WINDOW):
                window = plain[at : at + _WINDOW]
                offsets = encoding.decode_with_offsets(encoding.encode_ordinary(window))[1]
                self._starts.extend(at + offset for offset in offsets)

    def reach(self, start: int, size: int) -> int:
        """Return the offset that lies so many units behind another; it may lie behind the end of the text."""
        if self._starts is None:
            return start + size
        place = bisect_left(self._starts, start) + size
        return self._starts[place] if place < len(self._starts) else self._end + 1

    def back(self, end: int, size: int) -> int:
        """Return the offset that lies so many units before another."""
        if self._starts is None:
            return max(0, end - size)
        return self._starts[max(0, bisect_right(self._starts, end - 1) - size)] if self._starts else 0


@cache
def _encoding() -> Any:
    try:
        litellm()  # so that its import fetches nothing
    except JudgeRefused as error:
        raise UsageError(
            f"Sizes in tokens need LiteLLM. {error}", hint="Or give sizes in characters.", code=ErrorCode.CONFIG_PACKAGE
        ) from None
    from litellm.litellm_core_utils.default_encoding import encoding

    return encoding


@dataclass(frozen=True)
class Corpus:
    """Chunks to ask about.

    Attributes:
        found: Number of chunks before some were drawn; those that stand in several documents count once each time.
    """

    chunks: tuple[DocumentChunk, ...]
    documents: int
    found: int
    warnings: tuple[str, ...] = ()


def read_corpus(
    found: FoundFiles,
    cutting: Cutting,
    splitter: Splitter,
    *,
    encoding: str | None = None,
    most: int | None = None,
    seed: int = 0,
) -> Corpus:
    """Read documents and cut them.

    Args:
        encoding: See :func:`~leadline.tasks.generate.documents.read_documents`.
        most: How many chunks to draw; ``None`` for all. Which ones are drawn depends on their texts and the seed only,
            so that most of them stay the same when documents are added.
        seed: Another one draws others.

    Raises:
        DocumentsError: Files cannot be read; all are named.
        UsageError: There is nothing to ask about, or too much.
    """
    faults, warnings = list(found.faults), found.warnings()
    drawn = _Drawn(most, seed)
    documents = 0
    for document in read_documents(found.files, faults, warnings, encoding=encoding):
        documents += 1
        if not faults:
            drawn.add(cut(document, cutting, splitter))
    if faults:
        raise DocumentsError(faults)
    chunks = drawn.chunks()
    if not chunks:
        raise UsageError(
            "The documents hold no text to ask about.", hint=" ".join(warnings), code=ErrorCode.GENERATE_TEXT
        )
    return Corpus(chunks, documents, drawn.found, tuple(warnings))


@dataclass
class _Drawn:
    """Takes chunks as they come and keeps those with the smallest digests of seed and text, or all."""

    most: int | None
    seed: int
    found: int = 0
    _characters: int = 0
    _kept: dict[str, tuple[int, DocumentChunk]] = field(default_factory=dict)
    _largest: list[tuple[int, str]] = field(default_factory=list)

    def add(self, chunks: Iterable[DocumentChunk]) -> None:
        for chunk in chunks:
            self.found += 1
            if chunk.digest in self._kept:
                self._merge(chunk)
            else:
                self._keep(chunk)

    def chunks(self) -> tuple[DocumentChunk, ...]:
        return tuple(chunk for _, chunk in sorted(self._kept.values(), key=lambda numbered: numbered[0]))

    def _merge(self, chunk: DocumentChunk) -> None:
        number, known = self._kept[chunk.digest]
        documents = tuple(dict.fromkeys((*known.documents, *chunk.documents)))
        self._kept[chunk.digest] = number, replace(known, documents=documents)

    def _keep(self, chunk: DocumentChunk) -> None:
        self._kept[chunk.digest] = self.found, chunk
        self._characters += len(chunk.text)
        if self.most is not None:
            rank = int(digest([self.seed, chunk.digest]), 16)
            heapq.heappush(self._largest, (-rank, chunk.digest))
            if len(self._largest) > self.most:
                _, dropped = heapq.heappop(self._largest)
                self._characters -= len(self._kept.pop(dropped)[1].text)
        if self._characters > MOST_CHARACTERS:
            raise UsageError(
                f"The documents hold more than {MOST_CHARACTERS:,} characters.",
                hint="Draw some: --max-chunks N",
                code=ErrorCode.GENERATE_TEXT,
            )
