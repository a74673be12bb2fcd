"""The chunks that are asked about: all of the documents, or some of them, drawn by a seed."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from leadline.evaluators.ground.error_codes import ErrorCode
from leadline.evaluators.ground.errors import UsageError
from leadline.evaluators.text.sentences import Splitter
from leadline.tasks.generate.chunking import Cutting, DocumentChunk, cut
from leadline.tasks.generate.documents.document import DocumentsError
from leadline.tasks.generate.documents.document_files import FoundFiles
from leadline.tasks.generate.documents.reading import read_documents
from leadline.tasks.ground.files import digest

MOST_CHARACTERS: Final = 256 * 1024 * 1024
"""Characters of all chunks together; they are in memory."""


@dataclass(frozen=True)
class Corpus:
    """Chunks to ask about.

    Attributes:
        chunks: The chunks, in the order of the documents.
        documents: Number of documents with text.
        found: Number of chunks before some were drawn; those that stand in several documents count once each time.
        warnings: What is worth knowing.
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
        cutting: How long chunks are.
        splitter: Splits sentences.
        encoding: See :func:`~leadline.tasks.generate.documents.reading.read_documents`.
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
