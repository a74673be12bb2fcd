"""Cutting documents into chunks."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.evaluators.ground import UsageError
from leadline.evaluators.text.sentences import splitter_for
from leadline.tasks.generate.chunking import Cutting, DocumentChunk, Unit, _encoding, cut
from leadline.tasks.generate.documents import Document, Mark, read_markdown

SENTENCE = "The north berth of the port is twelve metres deep. "


def chunks(document: Document | str, size: int, overlap: int = 0, unit: Unit = "characters") -> list[DocumentChunk]:
    document = Document("d.txt", document, (Mark(0),)) if isinstance(document, str) else document
    return list(cut(document, Cutting(size, overlap, unit), splitter_for("en", "rules")))


def test_sections_are_not_mixed_where_they_are_long_enough() -> None:
    source = f"# A\n\n{SENTENCE * 4}\n# B\n\n{SENTENCE * 4}\n# C\n\n{SENTENCE}"
    found = chunks(read_markdown("d.md", source), 300, 75)
    assert [chunk.heading for chunk in found] == [("A",), ("B",)]
    assert found[0].text.startswith("# A")
    assert found[1].text.startswith("# B")
    assert found[1].text.endswith(SENTENCE.strip())  # the short last section fits


def test_a_paragraph_is_cut_at_a_sentence_and_overlaps_by_whole_ones() -> None:
    found = chunks(SENTENCE * 20, 300, 75)
    for before, after in pairwise(found):
        assert before.text.endswith(".")
        assert after.text.startswith("The north")
        assert 0 < before.end - after.start <= 75
    assert all(len(chunk.text) <= 300 for chunk in found)


def test_paragraphs_come_before_sentences() -> None:
    found = chunks(f"{SENTENCE * 4}\n\n{SENTENCE * 4}", 300)
    assert [len(chunk.text) for chunk in found] == [len(SENTENCE * 4) - 1] * 2


def test_pages_are_kept() -> None:
    text = SENTENCE * 12
    document = Document("d.pdf", text, tuple(Mark(n * 3 * len(SENTENCE), n + 1) for n in range(4)))
    found = chunks(document, 220)
    assert [(chunk.page, chunk.last_page) for chunk in found] == [(1, 2), (2, 3), (3, 4)]


def test_pieces_with_hardly_any_letters_are_no_chunks() -> None:
    assert chunks("7\n\n- - - 12 ...", 100) == []


def test_sizes_can_be_in_tokens() -> None:
    encoding = _encoding()
    found = chunks((SENTENCE + "Ünïcödé 😀 ") * 40, 100, 25, "tokens")
    assert len(found) > 4
    assert all(len(encoding.encode(chunk.text)) <= 102 for chunk in found)
    assert max(len(encoding.encode(chunk.text)) for chunk in found) > 80


def test_an_overlap_that_would_not_get_on_is_refused() -> None:
    with pytest.raises(UsageError, match="more than a quarter"):
        Cutting(100, 26)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from([SENTENCE, "word ", "\n\n", "# Title\n", "x" * 40, "\u3000", "é", "\n", "1. "]), max_size=60
    ),
    st.integers(0, 25),
)
def test_chunks_cover_the_text_and_stay_within_the_size(pieces: list[str], overlap: int) -> None:
    document = read_markdown("d.md", "".join(pieces))
    found = chunks(document, 100, overlap)
    covered = set()
    for chunk in found:
        assert chunk.text == document.text[chunk.start : chunk.end]
        assert len(chunk.text) <= 100
        covered.update(range(chunk.start, chunk.end))
    missing = "".join(char for place, char in enumerate(document.text) if place not in covered)
    assert sum(map(str.isalnum, missing)) <= 30 * (len(document.text) // 25 + 1)
    assert [chunk.start for chunk in found] == sorted({chunk.start for chunk in found})
    assert len(found) <= len(document.text) // 20 + 1


def test_long_texts_without_any_place_to_cut_take_linear_time() -> None:
    assert len(chunks("x" * 2_000_000, 1_000)) == 2_000
    assert len(chunks("\n" * 1_000_000 + "x" * 100, 1_000)) == 1
