"""Reading all documents: whatever is wrong with any of them is found before anything is asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from leadline.tasks.generate.documents.document import Document, Unreadable, legible
from leadline.tasks.generate.documents.document_files import DocumentKind, File
from leadline.tasks.generate.documents.plain_text import decode, read_markdown, read_plain
from leadline.tasks.generate.documents.sandbox import SandboxedReader


def read_documents(
    files: Sequence[File], faults: list[str], warnings: list[str], *, encoding: str | None = None
) -> Iterator[Document]:
    """Yield the documents that can be read and contain text.

    Args:
        faults: Gets a line for each file that cannot be read.
        warnings: Gets a line for each file without text.
        encoding: How text and HTML without a byte order mark are encoded; by default what an HTML file says of itself,
            else UTF-8.
    """
    with SandboxedReader() as apart:
        for file in files:
            try:
                document = _read(file, encoding, apart)
            except Unreadable as error:
                faults.append(f"{legible(file.uri)}: {error}")
            except OSError as error:
                faults.append(f"{legible(file.uri)}: it cannot be read: {error.strerror or error}")
            else:
                if document.text.strip():
                    yield document
                else:
                    hint = " (if its pages are pictures, run OCR on it)" if file.kind == DocumentKind.PDF else ""
                    warnings.append(f"{legible(file.uri)} holds no text{hint}; it was left out.")


def _read(file: File, encoding: str | None, apart: SandboxedReader) -> Document:
    if file.kind in (DocumentKind.PDF, DocumentKind.HTML):
        return apart.read(file, encoding)
    text = decode(file.path.read_bytes(), encoding or "utf-8")
    return read_markdown(file.uri, text) if file.kind == DocumentKind.MARKDOWN else read_plain(file.uri, text)
