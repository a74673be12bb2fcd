"""Documents for tests: PDF files as small as they can be, written by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path


def write_pdf(
    path: Path, pages: Sequence[str], *, outline: Mapping[str, int] | None = None, password: str = "", owner: str = ""
) -> Path:
    """Write a PDF with a text on each page, a line per line.

    Args:
        path: Where.
        pages: The texts, in ASCII.
        outline: Titles with the page, counted from 0, that each leads to.
        password: Encrypts it, so that nobody reads it without this.
        owner: Encrypts it, so that anybody may read it, and nobody may change it without this.
    """
    path.write_bytes(_file(pages))
    if outline or password or owner:
        import pypdf

        writer = pypdf.PdfWriter(clone_from=path)
        for title, page in (outline or {}).items():
            writer.add_outline_item(title=title, page_number=page)
        if password or owner:
            writer.encrypt(password, owner or None, algorithm="AES-256")
        writer.write(path)
    return path


def _file(pages: Sequence[str]) -> bytes:
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{' '.join(f'{4 + 2 * n} 0 R' for n in range(len(pages)))}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, text in enumerate(pages):
        content = _content(text)
        objects.append(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >> "
            f"/Contents {5 + 2 * number} 0 R >>"
        )
        objects.append(f"<< /Length {len(content)} >>\nstream\n{content}\nendstream")
    out = b"%PDF-1.4\n"
    places = []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n".encode("ascii")
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    trailer = f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF\n"
    return out + f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}{trailer}".encode("ascii")


def _content(text: str) -> str:
    escaped = (line.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)") for line in text.split("\n"))
    lines = " ".join(f"({line}) Tj T*" for line in escaped)
    return f"BT /F1 12 Tf 14 TL 72 720 Td {lines} ET"
