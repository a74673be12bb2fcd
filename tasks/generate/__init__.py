"""Generating: documents are cut into chunks, a judge asks and answers questions about each, and they become a dataset.

:mod:`.documents` finds and reads the files, :mod:`.chunking` cuts them and draws from the chunks, and
:mod:`.generation` asks about each with the judge client, whose retries, limiter, ledger and budget it shares.
:mod:`.duplicates` finds questions that ask the same. ``docs/generate.md`` is the page for users.
"""

from __future__ import annotations

from leadline.tasks.generate.chunking import Corpus, Cutting, DocumentChunk, read_corpus
from leadline.tasks.generate.documents import DocumentsError, find_files
from leadline.tasks.generate.generation import Form, Generated, generate

__all__ = [
    "Corpus",
    "Cutting",
    "DocumentChunk",
    "DocumentsError",
    "Form",
    "Generated",
    "find_files",
    "generate",
    "read_corpus",
]
