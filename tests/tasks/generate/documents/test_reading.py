"""Reading documents: texts, sections, pages, and what cannot be read."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.tasks.generate.documents.document import Document, Unreadable
from leadline.tasks.generate.documents.document_files import find_files
from leadline.tasks.generate.documents.html_and_pdf import read_page
from leadline.tasks.generate.documents.plain_text import decode, read_markdown
from leadline.tasks.generate.documents.reading import read_documents
from leadline.tasks.generate.documents.sandbox import SandboxedReader
from tests.support.datasets.documents import write_pdf


def read(path: Path, encoding: str | None = None) -> tuple[list[Document], list[str], list[str]]:
    faults: list[str] = []
    warnings: list[str] = []
    documents = list(read_documents(find_files([path]).files, faults, warnings, encoding=encoding))
    return documents, faults, warnings


def sections(document: Document) -> list[tuple[str, tuple[str, ...]]]:
    """Return the first word of each section with its titles."""
    return [(document.text[mark.start :].split()[0], mark.heading) for mark in document.marks if mark.heading]


def test_markdown_headings_of_both_styles_begin_sections() -> None:
    source = """---
title: Front matter
---
# Port #

Welcome
-------
Text.

### Deep
## Tides
```
# code
~~~
```
| a |
---
#hashtag
"""
    document = read_markdown("p.md", source)
    assert sections(document) == [
        ("#", ("Port",)),
        ("Welcome", ("Port", "Welcome")),
        ("###", ("Port", "Welcome", "Deep")),
        ("##", ("Port", "Tides")),
    ]
    assert "Front matter" not in document.text
    assert len(document.text) == len(source)


@given(st.text(alphabet="#-=`~ \tab\n|", max_size=200))
def test_marks_of_any_markdown_are_in_order(source: str) -> None:
    marks = read_markdown("m.md", source).marks
    starts = [mark.start for mark in marks]
    assert starts[0] == 0
    assert starts == sorted(set(starts))


def test_of_a_page_the_text_that_is_shown_is_read() -> None:
    source = """<!doctype html><html><head><title>Port</title><style>p{color:red}</style>
<script>var x="<p>no</p>"</script>
<body><nav><a>Home</a></nav><h1>Port</h1><p>Quay   dues are&nbsp;&pound;1 &lt;b&gt;.<br>Always.</p>
<h2>Tugs</h2><ul><li>Small<li>Large</ul><table><tr><th>Tug<th>Fee<tr><td>A<td>10</table>
<pre>a
  b</pre><noscript>Enable it</noscript><svg><text>No</text></svg><template>No</template></body></html>"""
    document = read_page("p.html", source.encode())
    assert document.text == (
        "Port\n\nQuay dues are\u00a0£1 <b>.\nAlways.\n\nTugs\n\n- Small\n- Large\n\nTug | Fee\nA | 10\n\na\n  b"
    ).replace("\u00a0", " ")
    assert sections(document) == [("Port", ("Port",)), ("Tugs", ("Port", "Tugs"))]


@given(st.text(alphabet="<>/ph1scriptabody=\"'&;! \n-", max_size=300))
def test_any_tag_soup_is_read(source: str) -> None:
    document = read_page("p.html", source.encode())
    starts = [mark.start for mark in document.marks]
    assert starts == sorted(set(starts))
    assert starts[0] == 0


def test_a_page_is_decoded_as_it_says_of_itself() -> None:
    page = '<meta http-equiv=x content="text/html; charset=windows-1252"><p>Käse – 5 €</p>'
    assert read_page("p", page.encode("cp1252")).text == "Käse – 5 €"
    assert read_page("p", b'<meta charset="zlib"><p>x</p>').text == "x"
    with pytest.raises(Unreadable, match="no UTF-8 text"):
        read_page("p", "<p>Käse</p>".encode("cp1252"))


def test_text_is_decoded_or_refused_but_never_guessed() -> None:
    assert decode("Käse\r\nx\ry".encode("utf-8-sig")) == "Käse\nx\ny"
    assert decode("Käse".encode("utf-16")) == "Käse"
    assert decode("Käse".encode("latin-1"), "latin-1") == "Käse"
    with pytest.raises(Unreadable, match="no UTF-8 text \\(byte 1\\)"):
        decode("Käse".encode("latin-1"))
    with pytest.raises(Unreadable, match="NUL"):
        decode(b"a\0b")


@pytest.mark.slow
def test_a_pdf_is_read_page_by_page_with_the_sections_of_its_outline(tmp_path: Path) -> None:
    path = write_pdf(
        tmp_path / "port.pdf",
        ["Tides.\nHigh water (springs) is 5.4 m.", "More of it.", "Dues."],
        outline={"Tides": 0, "Dues": 2},
    )
    [document], faults, warnings = read(path)
    assert document.text == "Tides.\nHigh water (springs) is 5.4 m.\nMore of it.\nDues."
    assert [(mark.page, mark.heading) for mark in document.marks] == [
        (1, ("Tides",)),
        (2, ("Tides",)),
        (3, ("Dues",)),
    ]
    assert (faults, warnings) == ([], [])


@pytest.mark.slow
def test_every_file_that_cannot_be_read_is_named_in_a_line(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    folder.mkdir()
    write_pdf(folder / "locked.pdf", ["x"], password="secret")
    write_pdf(folder / "scan.pdf", [""])
    write_pdf(folder / "whole.pdf", ["A page of text."], owner="secret")
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4\ngarbage")
    (folder / "fake.pdf").write_bytes(b"MZ")
    (folder / "latin.txt").write_bytes("Käse".encode("latin-1"))
    (folder / "blank.md").write_text("\n \n")
    unreadable = folder / "page.html"
    unreadable.write_bytes("Käse".encode("latin-1"))
    documents, faults, warnings = read(folder)
    assert [document.uri for document in documents] == ["d/whole.pdf"]
    assert [fault.split(";")[0].split(" (")[0] for fault in faults] == [
        "d/broken.pdf: it is a broken PDF: Stream has ended unexpectedly",
        "d/fake.pdf: it is no PDF",
        "d/latin.txt: it is no UTF-8 text",
        "d/locked.pdf: it is encrypted",
        "d/page.html: it is no UTF-8 text",
    ]
    assert [warning.split(" holds")[0] for warning in warnings] == ["d/blank.md", "d/scan.pdf"]
    assert [document.text for document in read(folder / "latin.txt", "latin-1")[0]] == ["Käse"]


@pytest.mark.slow
def test_a_file_that_keeps_its_reader_busy_is_given_up_and_the_next_one_read(tmp_path: Path) -> None:
    (tmp_path / "bad.html").write_text("<a b='" * 60_000)
    (tmp_path / "good.html").write_text("<p>Fine.</p>")
    bad, good = find_files([tmp_path / "bad.html", tmp_path / "good.html"]).files
    started = time.monotonic()
    with SandboxedReader(silence_s=4) as apart:
        with pytest.raises(Unreadable, match="given up"):
            apart.read(bad)
        assert apart.read(good).text == "Fine."
    assert time.monotonic() - started < 60


@pytest.mark.slow
def test_modules_in_the_working_directory_are_not_run_by_the_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(Path.cwd())
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orjson.py").write_text("import pathlib; pathlib.Path('ran').touch()")
    (tmp_path / "a.html").write_text("<p>Fine.</p>")
    with SandboxedReader() as apart:
        assert apart.read(find_files([tmp_path / "a.html"]).files[0]).text == "Fine."
    assert not Path("ran").exists()
