"""The texts of documents by id, for retrievals that recorded ids alone."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, Final

from leadline.evaluators.data import GivenChunk
from leadline.evaluators.ground import count, nouns
from leadline.tasks.load.source import SourceFile, source_at

IDS: Final = ("id", "_id", "doc_id", "document_id", "chunk_id", "doc_uri", "uri", "url", "source", "key")
TEXTS: Final = ("text", "content", "page_content", "contents", "chunk", "passage", "document", "body")


class DocumentTexts:
    """Texts by id, kept in memory.

    Attributes:
        source: The file that has them.
        asked: How many documents without a text were looked for.
        missing: How many of these it has no text of.
        size: Characters of all texts.

    Args:
        path: The file: records with an id and a text in any container, or one object of texts by id.

    Raises:
        DatasetError: It cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.source: SourceFile = source_at(path)
        self.asked = self.missing = self.size = 0
        self._texts: dict[str, str] = {}

    def add(self, record: Any) -> bool:
        """Add what a record has, the first text of an id counts; return whether it has an id and a text."""
        entries = list(_entries(record))
        for id_, text in entries:
            self.size += len(text)
            self._texts.setdefault(id_, text)
        return bool(entries)

    def with_text(self, chunk: GivenChunk) -> GivenChunk | None:
        """Return a chunk with its text; ``None`` where neither it nor the corpus has one."""
        content, id_ = chunk["content"], chunk.get("doc_uri") or chunk["content"]
        if content and (content != id_ or content not in self._texts):
            return chunk
        self.asked += 1
        found = self._texts.get(id_)
        self.missing += found is None
        return None if found is None else {"content": found, "doc_uri": id_}

    def sentence(self) -> str:
        """Return what was found of what was looked for."""
        found = self.asked - self.missing
        have, documents = nouns(found, "has", "have"), count(self.asked, "document")
        return f"{found:,} of {documents} that were recorded by id {have} a text in {self.source.name}"


def _entries(record: Any) -> Iterator[tuple[str, str]]:
    """Yield ids with their texts: that of a record, or those of an object that is the corpus."""
    if not isinstance(record, Mapping):
        return
    id_ = next((record[name] for name in IDS if isinstance(record.get(name), str | int)), None)
    text = next((record[name] for name in TEXTS if isinstance(record.get(name), str)), None)
    if id_ is not None and text is not None:
        yield str(id_), text
    elif id_ is None and record and all(isinstance(value, str) for value in record.values()):
        yield from ((str(name), value) for name, value in record.items())
