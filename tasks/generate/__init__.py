"""Generating: documents are cut into chunks, a judge asks and answers questions about each, and a dataset comes of it.

``files`` says which files are documents, ``reading`` reads them (``texts``, ``pages``, ``pdf``; the latter two in a
process of their own, ``apart``), ``chunking`` cuts them by ``sizes``, ``corpus`` draws from the chunks. ``asking`` asks
about one chunk with the judge client, whose retries, limiter, ledger and budget it shares, ``repeats`` finds questions
that ask the same, ``rows`` writes the dataset, and ``generating`` does it for all. ``docs/generate.md`` is the page for
users.
"""

from __future__ import annotations

from leadline.tasks.generate.chunking import Cutting, DocumentChunk
from leadline.tasks.generate.corpus import Corpus, read_corpus
from leadline.tasks.generate.dataset_rows import Form
from leadline.tasks.generate.documents.document import DocumentsError
from leadline.tasks.generate.documents.files import find_files
from leadline.tasks.generate.generation import Generated, generate

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
