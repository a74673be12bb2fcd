"""Which files are documents."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from leadline.tasks.generate.documents.document import legible
from leadline.tasks.generate.documents.document_files import LARGEST, DocumentKind, find_files


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
