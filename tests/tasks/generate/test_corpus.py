"""Which chunks are asked about."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.evaluators.ground import UsageError
from leadline.evaluators.text.sentences import splitter_for
from leadline.tasks.generate import Corpus, Cutting, DocumentsError, find_files, read_corpus


def write(folder: Path, count: int, size: int = 3) -> Path:
    folder.mkdir(exist_ok=True)
    for number in range(count):
        text = "".join(f"Berth {number} of quay {quay} is said to be deep enough.\n\n" for quay in range(size))
        (folder / f"{number:02}.txt").write_text(text)
    return folder


def corpus(folder: Path, most: int | None = None, seed: int = 0) -> Corpus:
    return read_corpus(find_files([folder]), Cutting(100, 0), splitter_for("en", "rules"), most=most, seed=seed)


def texts(found: Corpus) -> list[str]:
    return [chunk.text for chunk in found.chunks]


def test_drawn_chunks_depend_on_the_seed_and_stay_in_order(tmp_path: Path) -> None:
    folder = write(tmp_path / "d", 20)
    everything = texts(corpus(folder))
    drawn = corpus(folder, 10)
    assert drawn.found == len(everything)
    assert texts(drawn) == [text for text in everything if text in texts(drawn)]
    assert texts(drawn) == texts(corpus(folder, 10))
    assert texts(drawn) != texts(corpus(folder, 10, seed=1))
    assert texts(corpus(folder, 10_000)) == everything


def test_most_drawn_chunks_stay_when_documents_are_added(tmp_path: Path) -> None:
    before = set(texts(corpus(write(tmp_path / "d", 20), 10)))
    after = set(texts(corpus(write(tmp_path / "d", 22), 10)))
    assert len(before & after) >= 7


def test_a_chunk_that_stands_in_two_documents_is_asked_about_once(tmp_path: Path) -> None:
    folder = write(tmp_path / "d", 2)
    (folder / "copy.txt").write_text((folder / "00.txt").read_text())
    for most in (None, 3):
        found = corpus(folder, most)
        assert len(texts(found)) == len(set(texts(found)))
        copied = [chunk.documents for chunk in found.chunks if chunk.text.startswith("Berth 0")]
        assert all(documents == ("d/00.txt", "d/copy.txt") for documents in copied)
    assert sum(chunk.text.startswith("Berth 0") for chunk in corpus(folder).chunks) >= 2


def test_faults_of_finding_and_reading_are_said_together(tmp_path: Path) -> None:
    folder = write(tmp_path / "d", 1)
    (folder / "latin.txt").write_bytes(b"K\xe4se")
    (folder / "bad.md").write_bytes(b"\xc3\x28")
    with pytest.raises(DocumentsError) as caught:
        read_corpus(find_files([folder, tmp_path / "none.md"]), Cutting(100, 0), splitter_for("en", "rules"))
    assert caught.value.exit_code == 2
    lines = str(caught.value).splitlines()
    assert lines[0] == "The documents were refused: 3 faults."
    assert len(lines) == 4


def test_documents_without_anything_to_ask_about_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("12")
    with pytest.raises(UsageError, match="no text to ask about"):
        corpus(tmp_path)
