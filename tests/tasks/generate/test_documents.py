"""Finding documents, and reading text and Markdown."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.tasks.generate.documents import (
    LARGEST,
    Document,
    DocumentKind,
    Unreadable,
    decode,
    find_files,
    legible,
    read_documents,
    read_markdown,
)


def make(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text", encoding="utf-8")
    return folder


def test_folders_are_searched_in_the_order_of_names_and_keep_their_own(tmp_path: Path) -> None:
    folder = make(tmp_path / "handbook", "b.md", "a.HTML", "deep/er/c.pdf", "d.txt")
    found = find_files([folder])
    assert [file.uri for file in found.files] == [
        "handbook/a.HTML",
        "handbook/b.md",
        "handbook/d.txt",
        "handbook/deep/er/c.pdf",
    ]
    assert [file.kind for file in found.files] == [
        DocumentKind.HTML,
        DocumentKind.MARKDOWN,
        DocumentKind.TEXT,
        DocumentKind.PDF,
    ]
    assert not found.faults


def test_a_name_does_not_depend_on_where_the_command_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make(tmp_path / "handbook", "a.md")
    monkeypatch.chdir(tmp_path)
    for argument in ("handbook", "./handbook/", str(folder)):
        assert [file.uri for file in find_files([argument]).files] == ["handbook/a.md"]
    monkeypatch.chdir(folder)
    assert [file.uri for file in find_files(["."], "https://port/").files] == ["https://port/a.md"]


def test_hidden_files_other_kinds_and_links_in_folders_are_passed_over(tmp_path: Path) -> None:
    folder = make(tmp_path / "docs", "a.md", ".hidden.md", ".git/x.md", "picture.png", "README")
    make(tmp_path, "secret.md", "away/b.md")
    (folder / "link.md").symlink_to(tmp_path / "secret.md")
    (folder / "away").symlink_to(tmp_path / "away")
    (folder / "round").symlink_to(folder)
    found = find_files([folder])
    assert [file.uri for file in found.files] == ["docs/a.md"]
    assert found.links == 3
    assert found.passed_over == {".png": 1, "without ending": 1}
    assert not found.faults
    assert [file.uri for file in find_files([folder / "link.md"]).files] == ["link.md"]


def test_all_faults_are_found_at_once(tmp_path: Path) -> None:
    make(tmp_path, "a/x.md", "b/x.md", "picture.png", "empty/.keep")
    os.mkfifo(tmp_path / "pipe.md")
    with (tmp_path / "large.txt").open("wb") as file:
        file.truncate(LARGEST[DocumentKind.TEXT] + 1)
    names = ["a/x.md", "b/x.md", "picture.png", "empty", "none.md", "pipe.md", "large.txt"]
    faults = "\n".join(find_files([tmp_path / name for name in names]).faults)
    for said in (
        "both would be 'x.md' in the dataset",
        "picture.png: it is no PDF, Markdown, HTML or text file",
        "empty: there is no PDF, Markdown",
        "none.md: there is no such file",
        "pipe.md: it is no regular file",
        "large.txt: it has 64 MiB",
    ):
        assert said in faults
    assert len(faults.splitlines()) == 6


def test_a_file_named_twice_is_taken_once(tmp_path: Path) -> None:
    folder = make(tmp_path / "docs", "a.md")
    assert len(find_files([folder / "a.md", folder / "a.md"]).files) == 1


def test_hostile_names_are_legible_in_messages_and_text_in_the_dataset(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a\n\x1b[31mred\u202e.md").write_text("x")
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.md")).write_text("x")
    uris = [file.uri for file in find_files([folder]).files]
    assert uris == ["docs/a\n\x1b[31mred\u202e.md", "docs/\\xff.md"]
    assert legible(uris[0]) == "docs/a\\x0a\\x1b[31mred\\u202e.md"
    for uri in uris:
        uri.encode("utf-8")


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


def test_text_is_decoded_or_refused_but_never_guessed() -> None:
    assert decode("Käse\r\nx\ry".encode("utf-8-sig")) == "Käse\nx\ny"
    assert decode("Käse".encode("utf-16")) == "Käse"
    assert decode("Käse".encode("latin-1"), "latin-1") == "Käse"
    with pytest.raises(Unreadable, match="no UTF-8 text \\(byte 1\\)"):
        decode("Käse".encode("latin-1"))
    with pytest.raises(Unreadable, match="NUL"):
        decode(b"a\0b")


def test_other_formats_are_read_by_what_a_plug_in_brings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acme_pages.py").write_text(
        "from contextlib import AbstractContextManager\n"
        "from leadline.tasks.generate.documents import Document, Mark\n"
        "class Reader(AbstractContextManager):\n"
        "    ended = 0\n"
        "    def __exit__(self, *error):\n"
        "        Reader.ended += 1\n"
        "    def read(self, file, encoding):\n"
        "        return Document(file.uri, f'{file.path.read_text()} in {encoding}', (Mark(0),))\n"
    )
    package = tmp_path / "acme_pages-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-pages\nVersion: 1\n")
    reader = "acme_pages:Reader"
    (package / "entry_points.txt").write_text(f"[leadline.documents]\npdf = {reader}\nhtml = {reader}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("leadline.evaluators.ground.packages._source_of", lambda entry: tmp_path / "not here")
    make(tmp_path / "d", "a.html", "b.pdf")
    faults: list[str] = []
    found = list(read_documents(find_files([tmp_path / "d"]).files, faults, [], encoding="latin-1"))
    assert [(document.uri, document.text) for document in found] == [
        ("d/a.html", "text in latin-1"),
        ("d/b.pdf", "text in latin-1"),
    ]
    assert faults == []
    assert sys.modules["acme_pages"].Reader.ended == 1  # one reader was for both


def test_without_the_plug_in_it_is_said_who_reads_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leadline.tasks.generate.documents.loaded", lambda group, name: None)
    make(tmp_path / "d", "a.html", "b.md")
    faults: list[str] = []
    assert [each.uri for each in read_documents(find_files([tmp_path / "d"]).files, faults, [])] == ["d/b.md"]
    assert faults == ["d/a.html: HTML is read by the plug-in plugins/documents: install Leadline again"]
